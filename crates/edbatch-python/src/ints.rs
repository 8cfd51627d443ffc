//! Ints of Python: rows and values, but no bools and no floats.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt, PyIterator};

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

/// Reads an int that is no bool.
#[inline]
pub(crate) fn int(
    object: &Bound<'_, PyAny>,
    place: impl Fn() -> String,
    what: &str,
) -> PyResult<i64> {
    if object.is_exact_instance_of::<PyInt>()
        && let Ok(number) = object.extract()
    {
        return Ok(number);
    }
    other_int(object, place, what)
}

#[cold]
fn other_int(object: &Bound<'_, PyAny>, place: impl Fn() -> String, what: &str) -> PyResult<i64> {
    let number = object.extract::<i64>().ok();
    number.filter(|_| !object.is_instance_of::<PyBool>()).ok_or_else(|| {
        let got = object.repr().map_or_else(|_| "?".into(), |text| text.to_string());
        PyTypeError::new_err(format!("{}: expected {what}, an int, got {got}", place()))
    })
}

/// Reads a row of a table.
#[inline]
pub(crate) fn row(object: &Bound<'_, PyAny>, place: impl Fn() -> String) -> PyResult<u32> {
    let number = int(object, &place, "a row")?;
    u32::try_from(number).map_err(|_| {
        CallError::new_err(format!("{}: row {number} does not exist: rows begin at 0", place()))
    })
}
