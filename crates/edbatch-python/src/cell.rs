//! Cells: a function of Python is traced once into the parts of a cell.
//!
//! The shape of each operation is inferred when it is made, so an operation whose operands do not
//! fit raises at its line.

use std::sync::{Mutex, MutexGuard, PoisonError};

use edbatch::graph::{
    self, Arity, CellParts, Instruction, Kind, Op, Port, RecordId, Shape, Table, Var,
};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors;
use crate::network::{Network, Record};
use crate::operand::{rounded, type_name, var_of};
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
    let traced = CellParts::new(name, record.get().id);
    let trace = Trace { network: owner.begin(name)?, parts: traced, ended: false };
    let builder = CellBuilder { owner: network.clone().unbind(), trace: Mutex::new(trace) };
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
    trace: Mutex<Trace>,
}

struct Trace {
    /// A copy of the network, with the parameters of the cell.
    network: graph::Network,
    parts: CellParts,
    ended: bool,
}

impl CellBuilder {
    fn trace(&self) -> PyResult<MutexGuard<'_, Trace>> {
        let trace = self.trace.lock().unwrap_or_else(PoisonError::into_inner);
        match trace.ended {
            false => Ok(trace),
            true => Err(PyRuntimeError::new_err(format!(
                "cell {} has been declared: make its operations in its function",
                trace.parts.name
            ))),
        }
    }

    /// Appends an operation. `shape` matters only for a constant.
    pub(crate) fn push(&self, op: Op, operands: Vec<Var>, shape: Shape) -> PyResult<(Var, Shape)> {
        let Trace { network, parts, .. } = &mut *self.trace()?;
        parts.instructions.push(Instruction { op, operands, shape });
        if let Err(error) = network.infer_last_shape(parts) {
            parts.instructions.pop();
            return Err(errors::cell(error));
        }
        let last = parts.instructions.len() - 1;
        Ok((Var(last as u32), parts.instructions[last].shape))
    }

    /// An error of the cell, with the shapes of an operation.
    pub(crate) fn error(&self, operation: &str, shapes: &[Shape], expected: &str) -> PyErr {
        let cell = self.trace().map_or(String::new(), |trace| trace.parts.name.clone());
        errors::cell(graph::CellError {
            cell,
            operation: operation.into(),
            shapes: shapes.into(),
            expected: expected.into(),
        })
    }

    /// Declares a parameter of the cell.
    fn add_parameter(&self, name: &str, dims: &[usize]) -> PyResult<graph::ParameterId> {
        let Trace { network, parts, .. } = &mut *self.trace()?;
        network
            .add_parameter(name, dims)
            .map_err(|error| errors::cell(graph::CellError { cell: parts.name.clone(), ..error }))
    }

    fn table(&self, table: Table) -> PyResult<u16> {
        let Trace { network, parts, .. } = &mut *self.trace()?;
        parts.tables.push(table);
        if let Err(error) = network.infer_last_shape(parts) {
            parts.tables.pop();
            return Err(errors::cell(error));
        }
        Ok((parts.tables.len() - 1) as u16)
    }

    fn port(&self, name: &str, record: RecordId, arity: Arity) -> PyResult<u16> {
        let Trace { network, parts, .. } = &mut *self.trace()?;
        parts.ports.push(Port { name: name.into(), record, arity });
        if let Err(error) = network.infer_last_shape(parts) {
            parts.ports.pop();
            return Err(errors::cell(error));
        }
        Ok((parts.ports.len() - 1) as u16)
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
        let trace = &mut *self.trace()?;
        trace.ended = true;
        let mut network = std::mem::take(&mut trace.network);
        let mut parts = trace.parts.clone();
        parts.outputs = outputs;
        let kind = network.add_cell(parts).map_err(errors::cell)?;
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
        let cell = slf.get();
        let dims = shapes::dims(&format!("lookup {name}"), shape)?;
        let id = cell.add_parameter(parameter, &dims)?;
        let table = Table { name: name.into(), parameter: Some(id), rows: dims[0] as u32 };
        let table = cell.table(table)?;
        Tensor::made(slf, Op::Lookup { table }, vec![])
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
        let port = cell.port(name, record.id, Arity::One)?;
        fields(slf, name, record, |field| Op::Input { port, field })
    }

    /// Adds a port that takes one or more values, the last of the cell. Its values are reduced:
    /// `h, c = c.many("children", state).sum()`.
    ///
    /// Raises CellError after another such port.
    #[pyo3(signature = (name, record, /))]
    fn many(slf: &Bound<'_, Self>, name: &str, record: &Bound<'_, Record>) -> PyResult<Values> {
        slf.get().check_record(record.get(), name)?;
        let port = slf.get().port(name, record.get().id, Arity::Many)?;
        let (cell, record) = (slf.clone().unbind(), record.clone().unbind());
        Ok(Values { cell, name: name.into(), port, record })
    }

    /// Returns a parameter: a vector, or a matrix. Declares it if it is new.
    ///
    /// Raises CellError if it was declared with another shape.
    #[pyo3(signature = (name, shape, /))]
    fn parameter(slf: &Bound<'_, Self>, name: &str, shape: &Bound<'_, PyAny>) -> PyResult<Tensor> {
        let dims = shapes::dims(&format!("parameter {name}"), shape)?;
        let id = slf.get().add_parameter(name, &dims)?;
        Tensor::made(slf, Op::Parameter(id), vec![])
    }

    /// Returns a tensor filled with one number.
    #[pyo3(signature = (value, shape, /))]
    fn constant(slf: &Bound<'_, Self>, value: f64, shape: &Bound<'_, PyAny>) -> PyResult<Tensor> {
        let shape = shapes::shape("constant", shape)?;
        let value = rounded(slf.get(), value)?;
        let (var, shape) = slf.get().push(Op::Constant(value), vec![], shape)?;
        Ok(Tensor { cell: slf.clone().unbind(), var, shape, column: false })
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
        let rows = u32::try_from(size).unwrap_or(u32::MAX);
        let table = slf.get().table(Table { name: name.into(), parameter: None, rows })?;
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
