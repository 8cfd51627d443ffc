//! Cells: a function of Python is traced once into the parts of a cell.
//!
//! The shape of each operation is inferred when it is made, so an operation whose operands do not
//! fit raises at its line.

use std::sync::{Mutex, PoisonError};

use edbatch::graph::{self, Arity, Kind, Op, Port, Shape, Trace};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{self, CallError};
use crate::network::Network;
use crate::operand::{rounded, type_name, var_of};
use crate::record::Record;
use crate::tensor::Tensor;
use crate::values::{Index, Values, fields};
use crate::{html, shapes};

/// Declares a cell by its function.
pub(crate) fn declare(
    network: &Bound<'_, Network>,
    record: &Bound<'_, Record>,
    name: &str,
    function: &Bound<'_, PyAny>,
) -> PyResult<Cell> {
    let owner = network.get();
    let mut copy = owner.begin(name)?;
    let trace = copy.trace(name, record.get().id);
    let builder = CellBuilder {
        owner: network.clone().unbind(),
        name: name.into(),
        open: Mutex::new(Some((copy, trace))),
    };
    let added = Bound::new(network.py(), builder).and_then(|builder| {
        let outputs = function.call1((&builder,))?;
        builder.get().finish(&builder, &outputs)
    });
    match added {
        Ok((with_cell, kind)) => {
            owner.end(Some(with_cell));
            Ok(Cell::of(network, kind))
        }
        Err(error) => {
            owner.end(None);
            Err(error)
        }
    }
}

/// The cell that is being declared: the argument of the function below `@net.cell(record)`.
#[pyclass(frozen, module = "edbatch")]
pub(crate) struct CellBuilder {
    owner: Py<Network>,
    name: String,
    /// A copy of the network, because the function may look at the network meanwhile, and the cell
    /// that is traced. `None` after the declaration.
    open: Mutex<Option<(graph::Network, Trace)>>,
}

impl CellBuilder {
    /// Runs a step of the trace.
    pub(crate) fn tried<T>(
        &self,
        step: impl FnOnce(&mut Trace) -> Result<T, graph::CellError>,
    ) -> PyResult<T> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((_, trace)) = &mut *open else { return Err(self.ended()) };
        step(trace).map_err(errors::cell)
    }

    fn ended(&self) -> PyErr {
        PyRuntimeError::new_err(format!(
            "cell {} has been declared: make its operations in its function",
            self.name
        ))
    }

    /// An error of the cell, with the shapes of an operation.
    pub(crate) fn error(&self, operation: &str, shapes: &[Shape], expected: &str) -> PyErr {
        errors::cell(graph::CellError::new(&self.name, operation, shapes, expected))
    }

    fn check_record(&self, record: &Record, port: &str) -> PyResult<()> {
        match record.belongs_to(self.owner.get()) {
            true => Ok(()),
            false => Err(self.error(&format!("port {port}"), &[], "a record of this network")),
        }
    }

    /// Ends the declaration: returns the network with the cell.
    fn finish(
        &self,
        slf: &Bound<'_, Self>,
        returned: &Bound<'_, PyAny>,
    ) -> PyResult<(graph::Network, Kind)> {
        let outputs = match returned.cast::<Tensor>() {
            Ok(tensor) => vec![var_of(slf, tensor.as_any(), "return")?],
            Err(_) => {
                let each = returned.try_iter().map_err(|_| {
                    let expected = "a tensor, or a tuple with a tensor for each field, got ";
                    let expected = format!("{expected}{}", type_name(returned));
                    self.error("return", &[], &expected)
                })?;
                each.map(|item| var_of(slf, &item?, "return")).collect::<PyResult<_>>()?
            }
        };
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (mut network, trace) = open.ok_or_else(|| self.ended())?;
        let kind = network.add_traced(trace, outputs).map_err(errors::cell)?;
        Ok((network, kind))
    }
}

#[pymethods]
impl CellBuilder {
    /// Adds a table: a call names a row of it. Returns the row. `shape` is the shape of the
    /// parameter: the number of rows, then the shape of a row.
    ///
    /// Raises CellError if the parameter was declared with another shape.
    #[pyo3(signature = (name, parameter, shape, /))]
    fn lookup(
        slf: &Bound<'_, Self>,
        name: &str,
        parameter: &str,
        shape: &Bound<'_, PyAny>,
    ) -> PyResult<Tensor> {
        let dims = shapes::dims(&format!("lookup {name}"), shape)?;
        Tensor::traced(slf, |trace| trace.lookup(name, parameter, &dims))
    }

    /// Adds a port that takes one value. Returns its fields: `h, c = c.one("state", state)`, or
    /// `c.one("state", state).h`.
    ///
    /// Raises CellError after a port that takes any number of values.
    #[pyo3(signature = (name, record, /))]
    fn one<'py>(
        slf: &Bound<'py, Self>,
        name: &str,
        record: &Bound<'py, Record>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (cell, record) = (slf.get(), record.get());
        cell.check_record(record, name)?;
        let port = cell.tried(|trace| trace.port(name, record.id, Arity::One))?;
        fields(slf, name, record, (port, None))
    }

    /// Adds a port that takes one or more values, the last of the cell. Its values are reduced:
    /// `h, c = c.many("children", state).sum()`.
    ///
    /// Raises CellError after another such port.
    #[pyo3(signature = (name, record, /))]
    fn many(slf: &Bound<'_, Self>, name: &str, record: &Bound<'_, Record>) -> PyResult<Values> {
        slf.get().check_record(record.get(), name)?;
        let port = slf.get().tried(|trace| trace.port(name, record.get().id, Arity::Many))?;
        let (cell, record) = (slf.clone().unbind(), record.clone().unbind());
        Ok(Values { cell, name: name.into(), port, record })
    }

    /// Returns a parameter: a vector, or a matrix. Declares it if it is new.
    ///
    /// Raises CellError if it was declared with another shape.
    #[pyo3(signature = (name, shape, /))]
    fn parameter(slf: &Bound<'_, Self>, name: &str, shape: &Bound<'_, PyAny>) -> PyResult<Tensor> {
        let dims = shapes::dims(&format!("parameter {name}"), shape)?;
        Tensor::traced(slf, |trace| trace.parameter(name, &dims))
    }

    /// Returns a tensor filled with one number.
    #[pyo3(signature = (value, shape, /))]
    fn constant(slf: &Bound<'_, Self>, value: f64, shape: &Bound<'_, PyAny>) -> PyResult<Tensor> {
        let shape = shapes::shape("constant", shape)?;
        let value = rounded(slf.get(), value)?;
        Tensor::traced(slf, |trace| trace.constant(value, shape))
    }

    /// Concatenates tensors along the rows.
    ///
    /// Raises CellError if vectors and matrices are mixed, or the numbers of columns differ.
    #[pyo3(signature = (parts, /))]
    fn concat(slf: &Bound<'_, Self>, parts: &Bound<'_, PyAny>) -> PyResult<Tensor> {
        let parts = parts.try_iter()?.map(|part| var_of(slf, &part?, "concat"));
        Tensor::made(slf, Op::Concat, parts.collect::<PyResult<_>>()?)
    }

    /// Adds an index port: a call names a number below `size`, which `Tensor.select` reads.
    ///
    /// Raises CellError if the size is 0 or at least 2^31.
    #[pyo3(signature = (name, size, /))]
    fn index(slf: &Bound<'_, Self>, name: &str, size: u64) -> PyResult<Index> {
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        let table = slf.get().tried(|trace| trace.index(name, size))?;
        Ok(Index { cell: slf.clone().unbind(), table })
    }
}

/// A declared cell. `str` shows its equations.
#[pyclass(frozen, module = "edbatch")]
pub(crate) struct Cell {
    pub(crate) network: Py<Network>,
    pub(crate) kind: Kind,
    /// The name, unique in the network.
    #[pyo3(get)]
    pub(crate) name: String,
    pub(crate) tables: Vec<String>,
    pub(crate) ports: Vec<Port>,
}

impl Cell {
    pub(crate) fn of(network: &Bound<'_, Network>, kind: Kind) -> Self {
        network.get().with(|declared| {
            let cell = &declared[kind];
            let tables = cell.tables().iter().map(|table| table.name.clone()).collect();
            let (name, ports) = (cell.name().into(), cell.ports().to_vec());
            Self { network: network.clone().unbind(), kind, name, tables, ports }
        })
    }

    /// Returns the kind in the cell's own network, or an equal one.
    pub(crate) fn kind_in(&self, network: &Network) -> PyResult<Kind> {
        if self.network.get().is(network) {
            return Ok(self.kind);
        }
        Err(CallError::new_err(format!(
            "call of {}: expected a cell of this network, got one of another",
            self.name
        )))
    }

    /// Describes the operands of a call.
    pub(crate) fn operands(&self) -> String {
        let rows = self.tables.iter().map(|name| format!("a row of {name}"));
        let values = self.ports.iter().map(|Port { name, arity, .. }| match arity {
            Arity::One => format!("a value for {name}"),
            Arity::Many => format!("a list of values for {name}"),
        });
        rows.chain(values).collect::<Vec<_>>().join(", ")
    }
}

#[pymethods]
impl Cell {
    /// The number of the cell, as `CallList.from_arrays` takes it.
    #[getter]
    fn kind(&self) -> u16 {
        self.kind.0
    }

    /// The names of the tables and index ports.
    #[getter]
    fn tables(&self) -> Vec<String> {
        self.tables.clone()
    }

    /// The ports by name: "one" or "many".
    #[getter]
    fn ports<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let ports = PyDict::new(py);
        for Port { name, arity, .. } in &self.ports {
            ports.set_item(name, if *arity == Arity::Many { "many" } else { "one" })?;
        }
        Ok(ports)
    }

    fn __str__(&self) -> String {
        let network = self.network.get();
        network.with(|network| network[self.kind].display(network).to_string())
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        Ok((self.network.bind(py).getattr("_cell")?, (self.name.clone(),)))
    }

    fn __repr__(&self) -> String {
        format!("<edbatch.Cell {}({})>", self.name, self.operands())
    }

    fn _repr_html_(&self) -> String {
        html::text(&self.__str__())
    }
}
