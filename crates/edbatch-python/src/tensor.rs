//! Tensors of a cell that is being declared: each operation appends to the cell.

use edbatch::graph::{Binary, CellError, Function, Normalization, Op, Shape, Trace, Var};
use pyo3::prelude::*;
use pyo3::types::{PySlice, PyTuple};

use crate::cell::CellBuilder;
use crate::operand::{
    Operand, Order, check_columns, is_column, range_of, rounded, tensor_of, var_of,
};
use crate::shapes;
use crate::values::Index;

/// A tensor of a cell: a vector or a matrix. Operators add operations to the cell.
#[pyclass(frozen, module = "edbatch")]
pub(crate) struct Tensor {
    pub(crate) cell: Py<CellBuilder>,
    pub(crate) var: Var,
    pub(crate) shape: Shape,
    /// True for `v[:, None]`: a vector that is repeated over the columns of a matrix.
    pub(crate) column: bool,
}

impl Tensor {
    /// Makes the variable of a step of the trace.
    pub(crate) fn traced(
        cell: &Bound<'_, CellBuilder>,
        step: impl FnOnce(&mut Trace) -> Result<Var, CellError>,
    ) -> PyResult<Self> {
        let (var, shape) = cell.get().tried(|trace| {
            let var = step(trace)?;
            Ok((var, trace.shape(var)))
        })?;
        Ok(Self { cell: cell.clone().unbind(), var, shape, column: false })
    }

    /// Makes the result of an operation.
    pub(crate) fn made(
        cell: &Bound<'_, CellBuilder>,
        op: impl Into<Op>,
        operands: Vec<Var>,
    ) -> PyResult<Self> {
        Self::traced(cell, |trace| trace.push(op, &operands))
    }

    /// Makes a function of this tensor that is composed of operations.
    fn composed(
        slf: &Bound<'_, Self>,
        name: &str,
        compose: impl FnOnce(&mut Trace, Var) -> Result<Var, CellError>,
    ) -> PyResult<Self> {
        let cell = slf.get().cell.bind(slf.py());
        let var = var_of(cell, slf.as_any(), name)?;
        Self::traced(cell, |trace| compose(trace, var))
    }

    fn unary(slf: &Bound<'_, Self>, op: impl Into<Op>) -> PyResult<Self> {
        let (cell, op) = (slf.get().cell.bind(slf.py()), op.into());
        let operand = var_of(cell, slf.as_any(), &op.to_string())?;
        Self::made(cell, op, vec![operand])
    }

    /// An operation of two tensors of equal rank.
    fn with(slf: &Bound<'_, Self>, op: impl Into<Op>, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (cell, op) = (slf.get().cell.bind(slf.py()), op.into());
        let name = op.to_string();
        let operands = vec![var_of(cell, slf.as_any(), &name)?, var_of(cell, other, &name)?];
        Self::made(cell, op, operands)
    }

    /// An element-wise operation with a tensor or a number.
    fn elementwise(
        slf: &Bound<'_, Self>,
        op: impl Into<Op>,
        other: &Bound<'_, PyAny>,
        order: Order,
    ) -> PyResult<Self> {
        let (cell, op) = (slf.get().cell.bind(slf.py()), op.into());
        let name = op.to_string();
        let own = tensor_of(cell, slf.as_any(), &name)?;
        let other = match shapes::number(other) {
            Some(number) => {
                let constant = Op::Constant(rounded(cell.get(), number)?);
                let Self { var, shape, .. } = Self::made(cell, constant, vec![])?;
                Operand { var, shape, column: false }
            }
            None => tensor_of(cell, other, &name)?,
        };
        let (a, b) = if order == Order::AsWritten { (own, other) } else { (other, own) };
        check_columns(cell.get(), &name, &a, &b)?;
        Self::made(cell, op, vec![a.var, b.var])
    }
}

#[pymethods]
impl Tensor {
    /// Lets scalars of NumPy leave the operation to the tensor.
    #[classattr]
    fn __array_ufunc__() -> Option<()> {
        None
    }

    /// The shape: `(n,)` for a vector, `(rows, columns)` for a matrix.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        match (self.column, self.shape) {
            (true, Shape::Vector(n)) => PyTuple::new(py, [n, 1]),
            (_, shape) => shapes::to_tuple(py, shape),
        }
    }

    /// The transpose of a matrix.
    #[getter(T)]
    fn transposed(slf: &Bound<'_, Self>) -> PyResult<Self> {
        Self::unary(slf, Op::Transpose)
    }

    fn __add__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::elementwise(slf, Binary::Add, other, Order::AsWritten)
    }

    fn __radd__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::elementwise(slf, Binary::Add, other, Order::Reflected)
    }

    fn __sub__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::elementwise(slf, Binary::Sub, other, Order::AsWritten)
    }

    fn __rsub__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::elementwise(slf, Binary::Sub, other, Order::Reflected)
    }

    fn __mul__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        match shapes::number(other) {
            Some(factor) => Self::scale(slf, factor),
            None => Self::elementwise(slf, Binary::Mul, other, Order::AsWritten),
        }
    }

    fn __rmul__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        match shapes::number(other) {
            Some(factor) => Self::scale(slf, factor),
            None => Self::elementwise(slf, Binary::Mul, other, Order::Reflected),
        }
    }

    fn __truediv__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::elementwise(slf, Binary::Div, other, Order::AsWritten)
    }

    fn __rtruediv__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::elementwise(slf, Binary::Div, other, Order::Reflected)
    }

    fn __matmul__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::with(slf, Op::MatMul, other)
    }

    fn __rmatmul__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        let cell = slf.get().cell.bind(slf.py());
        let operands = vec![var_of(cell, other, "matmul")?, var_of(cell, slf.as_any(), "matmul")?];
        Self::made(cell, Op::MatMul, operands)
    }

    fn __neg__(slf: &Bound<'_, Self>) -> PyResult<Self> {
        Self::unary(slf, Op::Neg)
    }

    fn __abs__(slf: &Bound<'_, Self>) -> PyResult<Self> {
        Self::abs(slf)
    }

    fn __bool__(slf: &Bound<'_, Self>) -> PyResult<bool> {
        let expected = "no condition on a tensor: it has no elements while the cell is declared";
        Err(slf.get().cell.get().error("bool", &[slf.get().shape], expected))
    }

    /// `x[a:b]`: a range of rows. `v[:, None]`: a vector with an element for each row of a matrix.
    fn __getitem__(slf: &Bound<'_, Self>, key: &Bound<'_, PyAny>) -> PyResult<Self> {
        let Self { cell, shape, column, var } = slf.get();
        let cell = cell.bind(slf.py());
        let rows = shape.rows_and_columns().0 as u32;
        if let Ok(pair) = key.cast::<PyTuple>()
            && is_column(pair, rows)
            && matches!(shape, Shape::Vector(_))
            && !column
        {
            let (cell, var, shape) = (cell.clone().unbind(), *var, *shape);
            return Ok(Self { cell, var, shape, column: true });
        }
        let range = key.cast::<PySlice>().ok().and_then(|slice| range_of(slice, rows));
        let Some((start, end)) = range else {
            let expected = format!(
                "a range of rows, x[a:b], or v[:, None] of a vector, without a step and within \
                 0..{rows}, got {}",
                key.repr()?
            );
            return Err(cell.get().error("index", &[*shape], &expected));
        };
        let operand = var_of(cell, slf.as_any(), "slice")?;
        Self::made(cell, Op::Slice { start, rows: end - start }, vec![operand])
    }

    /// Multiplies every element by a number.
    #[pyo3(signature = (factor, /))]
    fn scale(slf: &Bound<'_, Self>, factor: f64) -> PyResult<Self> {
        let factor = rounded(slf.get().cell.get(), factor)?;
        Self::unary(slf, Op::Scale(factor))
    }

    /// The logistic function, 1 / (1 + exp(-x)).
    fn sigmoid(slf: &Bound<'_, Self>) -> PyResult<Self> {
        Self::unary(slf, Function::Sigmoid)
    }

    /// The hyperbolic tangent.
    fn tanh(slf: &Bound<'_, Self>) -> PyResult<Self> {
        Self::unary(slf, Function::Tanh)
    }

    /// max(x, 0).
    fn relu(slf: &Bound<'_, Self>) -> PyResult<Self> {
        Self::unary(slf, Function::Relu)
    }

    /// The exponential.
    fn exp(slf: &Bound<'_, Self>) -> PyResult<Self> {
        Self::unary(slf, Function::Exp)
    }

    /// The natural logarithm.
    fn log(slf: &Bound<'_, Self>) -> PyResult<Self> {
        Self::unary(slf, Function::Log)
    }

    /// The square root.
    fn sqrt(slf: &Bound<'_, Self>) -> PyResult<Self> {
        Self::unary(slf, Function::Sqrt)
    }

    /// The error function.
    fn erf(slf: &Bound<'_, Self>) -> PyResult<Self> {
        Self::unary(slf, Function::Erf)
    }

    /// The absolute value.
    fn abs(slf: &Bound<'_, Self>) -> PyResult<Self> {
        Self::composed(slf, "abs", Trace::abs)
    }

    /// x · sigmoid(x), also known as swish.
    fn silu(slf: &Bound<'_, Self>) -> PyResult<Self> {
        Self::composed(slf, "silu", Trace::silu)
    }

    /// The Gaussian error linear unit, x/2 + x/2 · erf(x/√2).
    fn gelu(slf: &Bound<'_, Self>) -> PyResult<Self> {
        Self::composed(slf, "gelu", Trace::gelu)
    }

    /// max(x, slope · x), for a slope from 0 to 1.
    #[pyo3(signature = (slope, /))]
    fn leaky_relu(slf: &Bound<'_, Self>, slope: f64) -> PyResult<Self> {
        Self::composed(slf, "leaky_relu", |trace, x| trace.leaky_relu(x, slope as f32))
    }

    /// The larger of two tensors, or of a tensor and a number, element by element.
    #[pyo3(signature = (other, /))]
    fn maximum(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::elementwise(slf, Binary::Maximum, other, Order::AsWritten)
    }

    /// The smaller of two tensors, or of a tensor and a number, element by element.
    #[pyo3(signature = (other, /))]
    fn minimum(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::elementwise(slf, Binary::Minimum, other, Order::AsWritten)
    }

    /// Softmax over a vector, or over each row of a matrix.
    fn softmax(slf: &Bound<'_, Self>) -> PyResult<Self> {
        Self::unary(slf, Normalization::Softmax)
    }

    /// The logarithm of softmax over a vector, or over each row of a matrix.
    fn log_softmax(slf: &Bound<'_, Self>) -> PyResult<Self> {
        Self::unary(slf, Normalization::LogSoftmax)
    }

    /// (x - mean) / √(variance + epsilon) over a vector, or over each row of a matrix.
    #[pyo3(signature = (epsilon=1e-5, /))]
    fn layer_norm(slf: &Bound<'_, Self>, epsilon: f64) -> PyResult<Self> {
        Self::unary(slf, Normalization::LayerNorm(epsilon as f32))
    }

    /// x / √(mean x² + epsilon) over a vector, or over each row of a matrix.
    #[pyo3(signature = (epsilon=1e-5, /))]
    fn rms_norm(slf: &Bound<'_, Self>, epsilon: f64) -> PyResult<Self> {
        Self::unary(slf, Normalization::RmsNorm(epsilon as f32))
    }

    /// The inner product of two vectors, as a vector of one element, or of each pair of rows of
    /// two matrices.
    #[pyo3(signature = (other, /))]
    fn dot(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::with(slf, Op::Dot, other)
    }

    /// The same elements, row by row, in another shape: `x.reshape(4, 2)` or `x.reshape(8)`.
    #[pyo3(signature = (*shape))]
    fn reshape(slf: &Bound<'_, Self>, shape: &Bound<'_, PyTuple>) -> PyResult<Self> {
        let first = (shape.len() == 1).then(|| shape.get_item(0)).transpose()?;
        let shape = shapes::shape("reshape", first.as_ref().unwrap_or(shape.as_any()))?;
        Self::unary(slf, Op::Reshape(shape))
    }

    /// The transpose of a matrix.
    fn transpose(slf: &Bound<'_, Self>) -> PyResult<Self> {
        Self::unary(slf, Op::Transpose)
    }

    /// The vector with dropout: training sets each element to 0 with probability `rate`, and
    /// multiplies the others by 1 / (1 - rate). Otherwise the vector itself.
    #[pyo3(signature = (rate, /))]
    fn dropout(slf: &Bound<'_, Self>, rate: f64) -> PyResult<Self> {
        Self::composed(slf, "dropout", |trace, x| trace.dropout(x, rate as f32))
    }

    /// The element of a vector, or the row of a matrix, whose number the call names.
    #[pyo3(signature = (index, /))]
    fn select(slf: &Bound<'_, Self>, index: &Bound<'_, Index>) -> PyResult<Self> {
        let Index { cell, table } = index.get();
        if !cell.is(&slf.get().cell) {
            let expected = "an index port of this cell";
            return Err(slf.get().cell.get().error("select", &[slf.get().shape], expected));
        }
        Self::unary(slf, Op::Select { table: *table })
    }

    fn __repr__(&self) -> String {
        format!("<edbatch.Tensor {} {}>", self.var, self.shape)
    }
}
