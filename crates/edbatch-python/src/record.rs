//! Records.

use edbatch::graph::{RecordId, Shape};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::CellError;
use crate::network::Network;
use crate::shapes;

/// A record: the tensors that a call returns together.
#[pyclass(frozen, module = "edbatch")]
pub(crate) struct Record {
    network: Py<Network>,
    pub(crate) id: RecordId,
    /// The name, unique in the network.
    #[pyo3(get)]
    pub(crate) name: String,
    pub(crate) shapes: Vec<(String, Shape)>,
}

impl Record {
    pub(crate) fn of(network: &Bound<'_, Network>, id: RecordId) -> PyResult<Self> {
        let record = network.get().with(|network| network.fields(id).clone());
        let shapes = record.fields.into_iter().map(|field| (field.name, field.shape)).collect();
        Ok(Self { network: network.clone().unbind(), id, name: record.name, shapes })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn belongs_to(&self, network: &Network) -> bool {
        self.network.get().is(network)
    }

    /// Checks that the record belongs to a network.
    pub(crate) fn check(&self, network: &Network) -> PyResult<()> {
        if self.belongs_to(network) {
            return Ok(());
        }
        Err(CellError::new_err(format!(
            "record {}: expected a record of this network, got one of another",
            self.name
        )))
    }

    /// Returns the number of elements of all fields.
    pub(crate) fn elements(&self) -> usize {
        self.shapes.iter().map(|(_, shape)| shape.elements()).sum()
    }

    /// Describes the shapes that a given value may have.
    pub(crate) fn expected(&self) -> String {
        match self.shapes.as_slice() {
            [(_, shape)] => format!("an array of shape {shape}"),
            fields => {
                let names: Vec<_> =
                    fields.iter().map(|(name, shape)| format!("{name} {shape}")).collect();
                let (names, all) = (names.join(", "), self.elements());
                format!("an array for each field, {names}, or one of shape [{all}]")
            }
        }
    }
}

#[pymethods]
impl Record {
    /// The shapes of the fields by name.
    #[getter]
    fn fields<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let fields = PyDict::new(py);
        for (name, shape) in &self.shapes {
            fields.set_item(name, shapes::to_tuple(py, *shape)?)?;
        }
        Ok(fields)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        Ok((self.network.bind(py).getattr("_record")?, (self.name.clone(),)))
    }

    fn __repr__(&self) -> String {
        let fields = self.shapes.iter().map(|(name, shape)| format!("{name} {shape}"));
        format!("<edbatch.Record {}: {}>", self.name, fields.collect::<Vec<_>>().join(", "))
    }
}
