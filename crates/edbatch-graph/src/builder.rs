//! Declares a cell's equations: [`CellBuilder`] creates [`Tensor`]s, and operators combine them.
//!
//! The shape of each operation is inferred at once. The first error is stored and returned when the
//! cell is finished, so that equations need no `?` after every operator.

mod operators;
mod values;

use std::cell::{Ref, RefCell};

pub use values::Values;

use crate::{
    Arity, At, Binary, CellError, Function, Kind, Network, Normalization, Op, RecordId, Reduction,
    Shape, Trace, Var,
};

/// The cell being declared; see [`Network::cell`](crate::Network::cell).
#[derive(Debug)]
pub struct CellBuilder {
    trace: RefCell<Trace>,
    /// The first error.
    error: RefCell<Option<CellError>>,
}

/// A variable of the cell being declared. Operators add operations to the cell.
#[derive(Clone, Copy, Debug)]
pub struct Tensor<'c> {
    cell: &'c CellBuilder,
    var: Var,
}

/// An index port of a cell; see [`CellBuilder::index`].
#[derive(Clone, Copy, Debug)]
pub struct Index<'c> {
    cell: &'c CellBuilder,
    table: u16,
}

impl Network {
    /// Declares a cell that produces `record`. `build` declares its equations and returns the
    /// record's fields in order. Pass the returned kind to [`Graph::call`](crate::Graph::call).
    ///
    /// # Errors
    /// If the operands of an operation have invalid shapes, if the results do not match the fields
    /// of `record`, if another cell has the same name, if there are more than 65,536 cells, or if
    /// the cell has more than 65,536 operations, ports or tables. The network is then unchanged.
    pub fn cell(
        &mut self,
        name: &str,
        record: RecordId,
        build: impl for<'c> FnOnce(&'c CellBuilder) -> Vec<Tensor<'c>>,
    ) -> Result<Kind, CellError> {
        let builder = CellBuilder::new(self.trace(name, record));
        let outputs = build(&builder).iter().map(Tensor::var).collect();
        let (trace, error) = builder.finish();
        match error {
            None => self.add_traced(trace, outputs),
            Some(error) => {
                self.drop_traced(trace);
                Err(error)
            }
        }
    }
}

impl CellBuilder {
    pub(crate) fn new(trace: Trace) -> Self {
        Self { trace: trace.into(), error: None.into() }
    }

    /// Returns the traced cell, and the first error.
    pub(crate) fn finish(self) -> (Trace, Option<CellError>) {
        (self.trace.into_inner(), self.error.into_inner())
    }

    /// Adds a port that takes one value, and returns the fields of that value.
    ///
    /// `N` must be the number of fields of the record.
    pub fn one<const N: usize>(&self, name: &str, record: RecordId) -> [Tensor<'_>; N] {
        self.fields(self.port(name, record, Arity::One), None)
    }

    /// Like [`one`](Self::one), for a record whose number of fields is only known at run time.
    pub fn one_vec(&self, name: &str, record: RecordId) -> Vec<Tensor<'_>> {
        self.all_fields(self.port(name, record, Arity::One), None)
    }

    /// Adds a port that takes one or more values. It must be the cell's last port.
    pub fn many(&self, name: &str, record: RecordId) -> Values<'_> {
        Values { cell: self, port: self.port(name, record, Arity::Many) }
    }

    /// Adds a table port: a call names a row of the table. `dims` are the table's dimensions: the
    /// number of rows, then the shape of a row.
    pub fn lookup(&self, name: &str, parameter: &str, dims: &[usize]) -> Tensor<'_> {
        self.tensor(|trace| trace.lookup(name, parameter, dims))
    }

    /// Adds an index port: a call names a number below `size`, as it names rows of tables. Rows
    /// and indices are given to a call in the order in which the cell declares them. See
    /// [`Tensor::select`].
    pub fn index(&self, name: &str, size: usize) -> Index<'_> {
        Index { cell: self, table: self.tried(|trace| trace.index(name, size)).unwrap_or(0) }
    }

    /// Returns the parameter with this name in the weights file. Declares it if it is new.
    pub fn parameter(&self, name: &str, dims: &[usize]) -> Tensor<'_> {
        self.tensor(|trace| trace.parameter(name, dims))
    }

    /// Returns a tensor filled with one number.
    pub fn constant(&self, value: f32, shape: Shape) -> Tensor<'_> {
        self.tensor(|trace| trace.constant(value, shape))
    }

    /// Concatenates tensors along the rows: `[a ; b]`.
    pub fn concat<'c>(&'c self, parts: &[Tensor<'c>]) -> Tensor<'c> {
        self.apply(Op::Concat, parts)
    }

    fn port(&self, name: &str, record: RecordId, arity: Arity) -> Option<u16> {
        self.tried(|trace| trace.port(name, record, arity))
    }

    fn fields<const N: usize>(&self, port: Option<u16>, by: Option<Reduction>) -> [Tensor<'_>; N] {
        let fields = self.all_fields(port, by);
        if let Some(port) = port.filter(|_| fields.len() != N) {
            self.tried::<()>(|trace| Err(trace.other_fields(port, N)));
        }
        std::array::from_fn(|field| fields.get(field).copied().unwrap_or_else(|| self.poison()))
    }

    fn all_fields(&self, port: Option<u16>, by: Option<Reduction>) -> Vec<Tensor<'_>> {
        let vars = port.and_then(|port| self.tried(|trace| trace.fields(port, by)));
        let vars = vars.unwrap_or_default().into_iter();
        vars.map(|var| Tensor { cell: self, var }).collect()
    }

    fn apply<'c>(&'c self, op: impl Into<Op>, operands: &[Tensor<'c>]) -> Tensor<'c> {
        let (op, vars) = (op.into(), operands.iter().map(Tensor::var));
        if operands.iter().any(|tensor| !std::ptr::eq(tensor.cell, self)) {
            let error = self.trace().error(op.to_string(), &[], "tensors of this cell");
            return self.tensor(|_| Err(error));
        }
        self.tensor(|trace| trace.push(op, &vars.collect::<Vec<Var>>()))
    }

    fn trace(&self) -> Ref<'_, Trace> {
        self.trace.borrow()
    }

    /// Returns the variable that a step of the trace makes, or a placeholder after an error.
    fn tensor(&self, step: impl FnOnce(&mut Trace) -> Result<Var, CellError>) -> Tensor<'_> {
        let var = self.tried(step);
        var.map_or_else(|| self.poison(), |var| Tensor { cell: self, var })
    }

    /// Runs a step of the trace. Stores its error, unless there is an earlier one. Equations have
    /// no numbers of variables, so the error has none.
    fn tried<T>(&self, step: impl FnOnce(&mut Trace) -> Result<T, CellError>) -> Option<T> {
        let result = step(&mut self.trace.borrow_mut());
        result
            .map_err(|mut error| {
                if let At::Operation { var, .. } = &mut error.at {
                    *var = None;
                }
                self.error.borrow_mut().get_or_insert(error);
            })
            .ok()
    }

    /// A placeholder for the result of an invalid operation.
    fn poison(&self) -> Tensor<'_> {
        Tensor { cell: self, var: self.trace.borrow_mut().placeholder() }
    }
}

impl<'c> Tensor<'c> {
    /// Returns the variable of the cell.
    #[must_use]
    pub fn var(&self) -> Var {
        self.var
    }

    /// Returns the shape.
    #[must_use]
    pub fn shape(self) -> Shape {
        self.cell.trace().shape(self.var)
    }

    /// Returns `self · other`: matrix times vector, or matrix times matrix.
    #[must_use]
    pub fn matmul(self, other: Self) -> Self {
        self.cell.apply(Op::MatMul, &[self, other])
    }

    /// Multiplies every element by `factor`.
    #[must_use]
    pub fn scale(self, factor: f32) -> Self {
        self.cell.apply(Op::Scale(factor), &[self])
    }

    /// Applies the logistic function.
    #[must_use]
    pub fn sigmoid(self) -> Self {
        self.cell.apply(Function::Sigmoid, &[self])
    }

    /// Applies the hyperbolic tangent.
    #[must_use]
    pub fn tanh(self) -> Self {
        self.cell.apply(Function::Tanh, &[self])
    }

    /// Applies `max(x, 0)`.
    #[must_use]
    pub fn relu(self) -> Self {
        self.cell.apply(Function::Relu, &[self])
    }

    /// Applies the exponential.
    #[must_use]
    pub fn exp(self) -> Self {
        self.cell.apply(Function::Exp, &[self])
    }

    /// Applies the natural logarithm.
    #[must_use]
    pub fn log(self) -> Self {
        self.cell.apply(Function::Log, &[self])
    }

    /// Applies the square root.
    #[must_use]
    pub fn sqrt(self) -> Self {
        self.cell.apply(Function::Sqrt, &[self])
    }

    /// Applies the error function.
    #[must_use]
    pub fn erf(self) -> Self {
        self.cell.apply(Function::Erf, &[self])
    }

    /// Returns the larger of `self` and `other`, element by element: NaN if one is NaN, the element
    /// of `self` if they are equal. Shapes are broadcast as for `+`.
    #[must_use]
    pub fn maximum(self, other: Self) -> Self {
        self.cell.apply(Binary::Maximum, &[self, other])
    }

    /// Returns the smaller of `self` and `other`, element by element: NaN if one is NaN, the
    /// element of `self` if they are equal. Shapes are broadcast as for `+`.
    #[must_use]
    pub fn minimum(self, other: Self) -> Self {
        self.cell.apply(Binary::Minimum, &[self, other])
    }

    /// Applies the absolute value, max(x, -x).
    #[must_use]
    pub fn abs(self) -> Self {
        self.cell.tensor(|trace| trace.abs(self.var))
    }

    /// Applies x · sigmoid x, also known as swish.
    #[must_use]
    pub fn silu(self) -> Self {
        self.cell.tensor(|trace| trace.silu(self.var))
    }

    /// Applies the Gaussian error linear unit, x/2 + x/2 · erf(x/√2).
    #[must_use]
    pub fn gelu(self) -> Self {
        self.cell.tensor(|trace| trace.gelu(self.var))
    }

    /// Applies max(x, slope · x) for a slope from 0 to 1.
    #[must_use]
    pub fn leaky_relu(self, slope: f32) -> Self {
        self.cell.tensor(|trace| trace.leaky_relu(self.var, slope))
    }

    /// Normalises a vector, or each row of a matrix, to mean 0 and variance 1:
    /// `(x - mean) / √(var + epsilon)`, where var is the mean of the squared differences from the
    /// mean. Multiply by a gain and add a bias as parameters.
    #[must_use]
    pub fn layer_norm(self, epsilon: f32) -> Self {
        self.cell.apply(Normalization::LayerNorm(epsilon), &[self])
    }

    /// Divides a vector, or each row of a matrix, by the root of its mean square:
    /// `x / √(mean x² + epsilon)`.
    #[must_use]
    pub fn rms_norm(self, epsilon: f32) -> Self {
        self.cell.apply(Normalization::RmsNorm(epsilon), &[self])
    }

    /// Returns the inner product of two vectors as a vector of one element; for two matrices, a
    /// vector with the inner product of each pair of rows.
    #[must_use]
    pub fn dot(self, other: Self) -> Self {
        self.cell.apply(Op::Dot, &[self, other])
    }

    /// Returns the same elements, in row-major order, as a tensor of another shape. Costs nothing.
    #[must_use]
    pub fn reshape(self, shape: Shape) -> Self {
        self.cell.apply(Op::Reshape(shape), &[self])
    }

    /// Returns the vector with dropout (Srivastava et al., 2014): training sets each element to 0
    /// with probability `rate`, and multiplies the others by 1 ÷ (1 − `rate`). Inference computes
    /// the vector itself.
    #[must_use]
    pub fn dropout(self, rate: f32) -> Self {
        self.cell.tensor(|trace| trace.dropout(self.var, rate))
    }

    /// Returns the element of a vector, or the row of a matrix, that the call names at an
    /// [index port](CellBuilder::index), whose size must be the number of elements or rows.
    #[must_use]
    pub fn select(self, index: Index<'c>) -> Self {
        if !std::ptr::eq(self.cell, index.cell) {
            let shapes = [self.shape()];
            let error = self.cell.trace().error("select", &shapes, "an index port of this cell");
            return self.cell.tensor(|_| Err(error));
        }
        self.cell.apply(Op::Select { table: index.table }, &[self])
    }

    /// Applies softmax over all elements of a vector, or of each row of a matrix.
    #[must_use]
    pub fn softmax(self) -> Self {
        self.cell.apply(Normalization::Softmax, &[self])
    }

    /// Applies the logarithm of softmax over all elements of a vector, or of each row of a matrix.
    #[must_use]
    pub fn log_softmax(self) -> Self {
        self.cell.apply(Normalization::LogSoftmax, &[self])
    }

    /// Returns the rows `start..start + rows`.
    #[must_use]
    pub fn slice(self, start: usize, rows: usize) -> Self {
        let clamp = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        self.cell.apply(Op::Slice { start: clamp(start), rows: clamp(rows) }, &[self])
    }

    /// Transposes a matrix.
    #[must_use]
    pub fn transpose(self) -> Self {
        self.cell.apply(Op::Transpose, &[self])
    }
}
