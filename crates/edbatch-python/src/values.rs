//! The values at the ports of a cell, and its index ports.

use edbatch::graph::Reduction;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::cell::CellBuilder;
use crate::operand::{rounded, var_of};
use crate::record::Record;
use crate::tensor::Tensor;

/// Makes a tensor of each field of the record at a port, and returns them as a named tuple.
pub(crate) fn fields<'py>(
    cell: &Bound<'py, CellBuilder>,
    port: &str,
    record: &Record,
    (number, by): (u16, Option<Reduction>),
) -> PyResult<Bound<'py, PyAny>> {
    static FIELDS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = cell.py();
    let names: Vec<&str> = record.shapes.iter().map(|(name, _)| name.as_str()).collect();
    let vars = cell.get().tried(|trace| trace.fields(number, by))?.into_iter();
    let tensors = vars.map(|var| Tensor::traced(cell, |_| Ok(var)));
    let tensors = tensors.collect::<PyResult<Vec<_>>>()?;
    FIELDS.import(py, "edbatch._fields", "fields")?.call1((port, names, tensors))
}

/// An index port: a call names a number below its size. See `Tensor.select`.
#[pyclass(frozen, module = "edbatch")]
pub(crate) struct Index {
    pub(crate) cell: Py<CellBuilder>,
    pub(crate) table: u16,
}

/// The values at a port that takes any number of them. A reduction turns them into tensors.
#[pyclass(frozen, module = "edbatch")]
pub(crate) struct Values {
    pub(crate) cell: Py<CellBuilder>,
    pub(crate) name: String,
    pub(crate) port: u16,
    pub(crate) record: Py<Record>,
}

impl Values {
    fn reduce<'py>(&self, py: Python<'py>, by: Reduction) -> PyResult<Bound<'py, PyAny>> {
        fields(self.cell.bind(py), &self.name, self.record.get(), (self.port, Some(by)))
    }
}

#[pymethods]
impl Values {
    /// The sum of all values: a named tuple with a tensor for each field.
    fn sum<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.reduce(py, Reduction::Sum)
    }

    /// The mean of all values: a named tuple with a tensor for each field.
    fn mean<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.reduce(py, Reduction::Mean)
    }

    /// The element-wise maximum of all values: a named tuple with a tensor for each field.
    fn max<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.reduce(py, Reduction::Max)
    }

    /// ln Σ exp(v) over all values, element by element: a named tuple with a tensor for each field.
    fn log_sum_exp<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.reduce(py, Reduction::LogSumExp)
    }

    /// The sum of the field `values` over all values, weighted by the softmax of the field
    /// `scores`, which has a score for each head: an equal part of the field `values`.
    ///
    /// Raises CellError if the number of scores does not divide the width.
    #[pyo3(signature = (scores, values, /))]
    fn softmax_sum(&self, py: Python<'_>, scores: &str, values: &str) -> PyResult<Tensor> {
        let cell = self.cell.bind(py);
        Tensor::traced(cell, |trace| trace.softmax_sum(self.port, scores, values))
    }

    /// Scaled dot-product attention of a query over all values, whose fields `keys` and `values`
    /// are given by name. All three are divided into `heads` equal parts. The scale is by default
    /// 1 / √(width of a head).
    ///
    /// Raises CellError if the heads do not divide the widths, or query and keys differ in width.
    #[pyo3(signature = (query, keys, values, heads=1, scale=None))]
    fn attention(
        &self,
        query: &Bound<'_, PyAny>,
        keys: &str,
        values: &str,
        heads: u32,
        scale: Option<f64>,
    ) -> PyResult<Tensor> {
        let cell = self.cell.bind(query.py());
        let builder = cell.get();
        let index = builder.tried(|trace| trace.field(self.port, keys))?;
        let width = self.record.get().shapes[usize::from(index)].1.elements();
        let of_head = width as f64 / f64::from(heads.max(1));
        let scale = rounded(builder, scale.unwrap_or(1.0 / of_head.sqrt()))?;
        let query = var_of(cell, query, "attention")?;
        let fields = (keys, values);
        Tensor::traced(cell, |trace| trace.attention(self.port, query, fields, (heads, scale)))
    }
}
