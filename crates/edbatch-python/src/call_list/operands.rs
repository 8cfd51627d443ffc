//! The operands of a call, read from objects of Python.

use std::convert::Infallible;

use edbatch::graph::Arity;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::cell::Cell;
use crate::errors::CallError;
use crate::ints::{int, iterable, ready, row};

/// An operand of a call, or none. The first operands are arguments of their own, because a tuple
/// of all operands would take a tenth of the time of a call.
#[derive(Clone, Copy)]
pub(crate) struct Operand<'a, 'py>(pub(crate) Option<Borrowed<'a, 'py, PyAny>>);

impl<'a, 'py> FromPyObject<'a, 'py> for Operand<'a, 'py> {
    type Error = Infallible;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> Result<Self, Infallible> {
        Ok(Self(Some(object)))
    }
}

/// Reads the operands of a call into `rows` and `values`. Returns false at an operand that may run
/// code of Python: only ints, and lists of them, are read while the caller is borrowed or locked.
/// `value` makes a value of the number at an operand.
#[inline]
pub(crate) fn read<'a, 'py: 'a, V>(
    cell: &Cell,
    operands: impl Iterator<Item = Borrowed<'a, 'py, PyAny>>,
    (rows, values): (&mut Vec<u32>, &mut Vec<V>),
    value: impl Fn(i64, usize) -> PyResult<V>,
) -> PyResult<bool> {
    rows.clear();
    values.clear();
    let tables = cell.tables.len();
    for (index, operand) in operands.enumerate() {
        if index >= tables && cell.ports[index - tables].arity == Arity::Many {
            let Ok(list) = operand.cast::<PyList>() else { return Ok(false) };
            for object in list.iter() {
                let Some(number) = ready(&object) else { return Ok(false) };
                values.push(value(number, index)?);
            }
            continue;
        }
        let Some(number) = ready(&operand) else { return Ok(false) };
        match index < tables {
            true => rows.push(row(number, || place(cell, index))?),
            false => values.push(value(number, index)?),
        }
    }
    Ok(true)
}

/// Returns operands as ints and lists of ints. Runs code of Python, such as generators, which may
/// make other calls of the same list.
#[cold]
pub(crate) fn as_ints<'a, 'py: 'a>(
    py: Python<'py>,
    cell: &Cell,
    operands: impl Iterator<Item = Borrowed<'a, 'py, PyAny>>,
) -> PyResult<Bound<'py, PyTuple>> {
    let tables = cell.tables.len();
    let ints = operands.enumerate().map(|(index, operand)| {
        let place = || place(cell, index);
        if index < tables {
            return Ok(int(&operand, place, "a row")?.into_pyobject(py)?.into_any());
        }
        if cell.ports[index - tables].arity == Arity::One {
            return Ok(int(&operand, place, "a value")?.into_pyobject(py)?.into_any());
        }
        let values = iterable(&operand, place)?.map(|value| int(&value?, place, "a value"));
        Ok(PyList::new(py, values.collect::<PyResult<Vec<_>>>()?)?.into_any())
    });
    PyTuple::new(py, ints.collect::<PyResult<Vec<_>>>()?)
}

/// Checks the number of operands of a call.
#[inline]
pub(crate) fn check_count(cell: &Cell, got: usize) -> PyResult<()> {
    let expected = cell.tables.len() + cell.ports.len();
    if got == expected {
        return Ok(());
    }
    let name = &cell.name;
    let (s, each) = (if expected == 1 { "" } else { "s" }, cell.operands());
    Err(CallError::new_err(format!(
        "call of {name}: expected {expected} operand{s} ({each}), got {got}"
    )))
}

/// Names an operand of a call.
#[cold]
pub(crate) fn place(cell: &Cell, index: usize) -> String {
    let port = |index: usize| cell.ports[index].name.as_str();
    let tables = cell.tables.len();
    let operand = cell.tables.get(index).map_or_else(|| port(index - tables), String::as_str);
    format!("call of {}: {operand}", cell.name)
}
