//! Networks.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use edbatch::graph::{self, Kind, RecordId, Shape};
use edbatch::models::{network_from_json, network_to_json};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyTuple};

use crate::cell::{self, Cell};
use crate::errors::{self, CellError};
use crate::record::Record;
use crate::{html, shapes};

/// The records, parameters, cells and initial values of a model.
///
/// Declared once. The first engine or call list freezes it: later declarations raise RuntimeError.
#[pyclass(frozen, weakref, module = "edbatch")]
pub(crate) struct Network {
    open: Mutex<Open>,
    frozen: OnceLock<Arc<graph::Network>>,
}

#[derive(Default)]
struct Open {
    network: graph::Network,
    /// The name of the cell that is being declared.
    declaring: Option<String>,
}

impl Network {
    pub(crate) fn of(network: graph::Network) -> Self {
        let open = Mutex::new(Open { network, declaring: None });
        Self { open, frozen: OnceLock::new() }
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the network, frozen or not.
    pub(crate) fn with<R>(&self, read: impl FnOnce(&graph::Network) -> R) -> R {
        match self.frozen.get() {
            Some(network) => read(network),
            None => read(&self.open().network),
        }
    }

    /// Returns the network, which is frozen, or freezes it alone.
    pub(crate) fn freeze(&self) -> Arc<graph::Network> {
        let frozen = || Arc::new(std::mem::take(&mut self.open().network));
        self.frozen.get_or_init(frozen).clone()
    }

    /// Freezes the network, as one with equal frozen ones.
    pub(crate) fn intern(slf: &Bound<'_, Self>) -> PyResult<Arc<graph::Network>> {
        let this = slf.get();
        if this.frozen.get().is_none()
            && let Some(first) = Self::enter(slf)?
        {
            this.frozen.get_or_init(|| first.get().freeze());
        }
        Ok(this.freeze())
    }

    /// Enters the network among the frozen ones. Returns the first one that is equal.
    pub(crate) fn enter<'py>(slf: &Bound<'py, Self>) -> PyResult<Option<Bound<'py, Self>>> {
        let json = slf.get().with(network_to_json).ok();
        Ok(py_function(slf.py(), "enter")?.call1((slf, json))?.extract()?)
    }

    /// Returns a network that is already frozen.
    pub(crate) fn frozen(network: Arc<graph::Network>) -> Self {
        let frozen = OnceLock::new();
        frozen.set(network).expect("a new lock");
        Self { open: Mutex::default(), frozen }
    }

    /// Returns the network for a declaration.
    fn declare(&self) -> PyResult<MutexGuard<'_, Open>> {
        if self.frozen.get().is_some() {
            return Err(PyRuntimeError::new_err(
                "the network is frozen, because an engine or a call list uses it: declare all \
                 records, initial values and cells before",
            ));
        }
        let open = self.open();
        if let Some(cell) = &open.declaring {
            return Err(PyRuntimeError::new_err(format!(
                "cell {cell} is being declared: declare records, initial values and other cells \
                 outside of it"
            )));
        }
        Ok(open)
    }

    /// Begins the declaration of a cell. Returns a copy of the network for its parameters.
    pub(crate) fn begin(&self, cell: &str) -> PyResult<graph::Network> {
        let mut open = self.declare()?;
        open.declaring = Some(cell.into());
        Ok(open.network.clone())
    }

    /// Ends the declaration of a cell, with the new network unless it failed.
    pub(crate) fn end(&self, network: Option<graph::Network>) {
        let mut open = self.open();
        open.declaring = None;
        if let Some(network) = network {
            open.network = network;
        }
    }

    /// Returns true if both are the same network, or equal.
    pub(crate) fn is(&self, other: &Self) -> bool {
        if std::ptr::eq(self, other) {
            return true;
        }
        if let (Some(own), Some(other)) = (self.frozen.get(), other.frozen.get()) {
            return Arc::ptr_eq(own, other) || own == other;
        }
        let other = other.with(Clone::clone);
        self.with(|network| *network == other)
    }
}

#[pymethods]
impl Network {
    #[new]
    fn new() -> Self {
        Self::of(graph::Network::new())
    }

    /// Declares a record: the tensors that a call returns together. Each field is a keyword with
    /// its shape: `h=128` for a vector, `M=(4, 4)` for a matrix.
    ///
    /// Raises CellError if the name is taken, or a shape is invalid.
    #[pyo3(signature = (name, /, **fields))]
    fn record(
        slf: &Bound<'_, Self>,
        name: &str,
        fields: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Record> {
        let mut declared: Vec<(String, Shape)> = Vec::new();
        for (field, shape) in fields.into_iter().flat_map(|fields| fields.iter()) {
            let field: String = field.extract()?;
            let what = format!("{name}: field {field}");
            declared.push((field, shapes::shape(&what, &shape)?));
        }
        let fields = declared.iter().map(|(name, shape)| (name.as_str(), *shape));
        let id = slf.get().declare()?.network.record(name, fields).map_err(errors::cell)?;
        Record::of(slf, id)
    }

    /// Declares an initial value, such as a learned initial state. The keywords are the fields of
    /// the record, each with the name of its parameter: `net.initial(state, h="h0", c="c0")`.
    /// Returns the value, for calls of any input.
    ///
    /// Raises CellError if a field is missing or unknown, or a parameter has another shape.
    #[pyo3(signature = (record, /, **names))]
    fn initial(
        slf: &Bound<'_, Self>,
        record: &Bound<'_, Record>,
        names: Option<BTreeMap<String, String>>,
    ) -> PyResult<i64> {
        let (record, mut given) = (record.get(), names.unwrap_or_default());
        record.check(slf.get())?;
        let fields = record.shapes.iter().map(|(field, _)| field);
        let names: Vec<String> = fields.filter_map(|field| given.remove(field)).collect();
        if names.len() < record.shapes.len() || !given.is_empty() {
            let fields: Vec<&str> = record.shapes.iter().map(|(name, _)| name.as_str()).collect();
            return Err(CellError::new_err(format!(
                "initial value of {}: expected the name of a parameter for each of the fields {}, \
                 such as `{}=\"…\"`",
                record.name,
                fields.join(", "),
                fields[0]
            )));
        }
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut open = slf.get().declare()?;
        open.network.initial(record.id, &names).map_err(errors::cell)?;
        Ok(-(open.network.initial_values().len() as i64))
    }

    /// Declares a cell: `@net.cell(record)` above a function of one argument, a CellBuilder. The
    /// function runs once, and returns a tensor for each field of the record, or a single tensor.
    /// The name is the function's, unless one is given.
    ///
    /// Raises CellError at the line of the operation whose operands do not fit.
    #[pyo3(signature = (record, /, name=None))]
    fn cell<'py>(
        slf: &Bound<'py, Self>,
        record: &Bound<'py, Record>,
        name: Option<String>,
    ) -> PyResult<Bound<'py, PyCFunction>> {
        record.get().check(slf.get())?;
        let (network, record) = (slf.clone().unbind(), record.clone().unbind());
        let declare = move |args: &Bound<'_, PyTuple>, _: Option<&Bound<'_, PyDict>>| {
            let (function,): (Bound<'_, PyAny>,) = args.extract()?;
            let name = match &name {
                Some(name) => name.clone(),
                None => function.getattr("__name__")?.extract()?,
            };
            let py = args.py();
            cell::declare(network.bind(py), record.bind(py), &name, &function)
        };
        PyCFunction::new_closure(slf.py(), Some(c"declare"), None, declare)
    }

    /// The records by name, in the order of their declaration.
    #[getter]
    fn records<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyDict>> {
        let records = PyDict::new(slf.py());
        for id in 0..slf.get().with(|network| network.records().len()) {
            let record = Record::of(slf, RecordId(id as u16))?;
            records.set_item(record.name.clone(), record)?;
        }
        Ok(records)
    }

    /// The cells by name, in the order of their declaration.
    #[getter]
    fn cells<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyDict>> {
        let cells = PyDict::new(slf.py());
        for kind in 0..slf.get().with(|network| network.cells().len()) {
            let cell = Cell::of(slf, Kind::new(kind));
            cells.set_item(cell.name.clone(), cell)?;
        }
        Ok(cells)
    }

    /// The shapes of the parameters by name, in the order of their declaration.
    #[getter]
    fn parameters<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyDict>> {
        let shapes = PyDict::new(slf.py());
        for parameter in slf.get().with(|network| network.parameters().to_vec()) {
            shapes.set_item(parameter.name, PyTuple::new(slf.py(), parameter.dims)?)?;
        }
        Ok(shapes)
    }

    /// True if a cell has dropout.
    #[getter]
    fn has_dropout(&self) -> bool {
        self.with(graph::Network::has_dropout)
    }

    /// Returns the text of a `network.json`.
    ///
    /// Raises FileError if the network cannot be written, for example if a constant is NaN.
    fn to_json(&self) -> PyResult<String> {
        let text = self.with(network_to_json);
        text.map_err(|error| errors::FileError::new_err(error.to_string()))
    }

    /// Reads the text of a `network.json`.
    ///
    /// Raises FileError with the line and the column.
    #[staticmethod]
    #[pyo3(signature = (text, /))]
    fn from_json(text: &str) -> PyResult<Self> {
        let network = network_from_json(text);
        network.map(Self::of).map_err(|fault| errors::FileError::new_err(fault.to_string()))
    }

    /// Writes a `network.json`.
    ///
    /// Raises FileError if the network or the file cannot be written.
    #[pyo3(signature = (path, /))]
    fn save(&self, path: std::path::PathBuf) -> PyResult<()> {
        std::fs::write(&path, self.to_json()?).map_err(errors::system(&path, "a writable file"))
    }

    /// Reads a `network.json`.
    ///
    /// Raises FileError with the file, the line and the column.
    #[staticmethod]
    #[pyo3(signature = (path, /))]
    fn load(path: std::path::PathBuf) -> PyResult<Self> {
        let text = std::fs::read_to_string(&path);
        let text = text.map_err(errors::system(&path, "a readable file"))?;
        let name = path.display().to_string();
        network_from_json(&text).map(Self::of).map_err(|fault| errors::file(&name, fault))
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Self>().is_ok_and(|other| self.is(other.get()))
    }

    fn __hash__(&self) -> u64 {
        // Equal networks have equal numbers of declarations, also after they are frozen.
        self.with(|network| network.parameters().len() as u64)
    }

    fn __str__(&self) -> String {
        self.with(|network| {
            network.cells().iter().map(|cell| cell.display(network).to_string()).collect()
        })
    }

    fn __repr__(&self) -> String {
        self.with(|network| {
            let cells = network.kind_names().join(", ");
            let parameters = network.parameters().len();
            format!("<edbatch.Network: cells {cells}; {parameters} parameters>")
        })
    }

    fn _repr_html_(&self) -> String {
        html::text(&self.__str__())
    }

    /// The record of this name, for pickles.
    fn _record<'py>(slf: &Bound<'py, Self>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        Self::records(slf)?.as_any().get_item(name)
    }

    /// The cell of this name, for pickles.
    fn _cell<'py>(slf: &Bound<'py, Self>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        Self::cells(slf)?.as_any().get_item(name)
    }

    /// The SHA-256 of `to_json()`, as 64 hexadecimal digits: equal for equal networks.
    ///
    /// Raises FileError like `to_json`.
    #[getter]
    fn fingerprint<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py_function(py, "fingerprint")?.call1((self.to_json()?,))
    }

    /// Freezes the network.
    fn _freeze(slf: &Bound<'_, Self>) -> PyResult<()> {
        Self::intern(slf).map(drop)
    }

    /// Pickles a frozen network with its fingerprint: it becomes the equal frozen one of the
    /// process that reads it. One that is not frozen is copied.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let is_frozen = slf.get().frozen.get().is_some();
        py_function(slf.py(), "reduced")?.call1((slf.get().to_json()?, is_frozen))
    }
}

/// Returns a function of `_networks.py`.
fn py_function<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import("edbatch._networks")?.getattr(name)
}
