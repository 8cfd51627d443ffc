//! Ints of Python: rows and values, but no bools and no floats.

use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyInt, PyIterator, PyType};

use crate::errors::CallError;
use crate::operand::type_name;

#[cold]
pub(crate) fn iterable<'py>(
    operand: &Bound<'py, PyAny>,
    place: impl Fn() -> String,
) -> PyResult<Bound<'py, PyIterator>> {
    operand.try_iter().map_err(|_| {
        let got = type_name(operand);
        PyTypeError::new_err(format!("{}: expected a list of values, got {got}", place()))
    })
}

/// Reads an int, or an integer of NumPy, which run no code of Python. Returns `None` for others.
#[inline]
pub(crate) fn ready(object: &Bound<'_, PyAny>) -> Option<i64> {
    match object.is_exact_instance_of::<PyInt>() {
        true => object.extract().ok(),
        false => of_numpy(object),
    }
}

#[cold]
fn of_numpy(object: &Bound<'_, PyAny>) -> Option<i64> {
    static INTEGER: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let integer = INTEGER.import(object.py(), "numpy", "integer").ok()?;
    object.is_instance(integer).ok()?.then(|| object.extract().ok())?
}

/// Reads an int that is no bool. May run code of Python.
pub(crate) fn int(
    object: &Bound<'_, PyAny>,
    place: impl Fn() -> String,
    what: &str,
) -> PyResult<i64> {
    if let Some(number) = ready(object) {
        return Ok(number);
    }
    let error = match object.extract::<i64>() {
        Ok(number) if !object.is_instance_of::<PyBool>() => return Ok(number),
        number => number.err().unwrap_or_else(|| PyTypeError::new_err("a bool")),
    };
    let got = || object.repr().map_or_else(|_| "?".into(), |text| text.to_string());
    if error.is_instance_of::<PyOverflowError>(object.py()) {
        return Err(CallError::new_err(format!("{}: {what} {} does not exist", place(), got())));
    }
    if !error.is_instance_of::<PyTypeError>(object.py()) {
        return Err(error);
    }
    Err(PyTypeError::new_err(format!("{}: expected {what}, an int, got {}", place(), got())))
}

/// Checks the number of a row of a table.
#[inline]
pub(crate) fn row(number: i64, place: impl Fn() -> String) -> PyResult<u32> {
    u32::try_from(number).map_err(|_| {
        CallError::new_err(format!("{}: row {number} does not exist: rows begin at 0", place()))
    })
}
