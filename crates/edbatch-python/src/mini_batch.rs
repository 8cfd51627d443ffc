//! Targets and gradients of a mini-batch.

use edbatch::models::Targets;
use edbatch::runtime::{Rows, try_memory};
use numpy::PyUntypedArrayMethods;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::{arrays, errors};

/// Reads the targets of each input: a class for each emitted row, or −1 for none.
pub(crate) fn targets_of(targets: &Bound<'_, PyAny>) -> PyResult<Vec<Targets>> {
    let of_input = |(input, targets): (usize, PyResult<Bound<'_, PyAny>>)| {
        let name = format!("targets of input {input}");
        let classes = arrays::integers::<i64, PyValueError>(&name, &targets?)?;
        let class = |class: i64| match class {
            -1 => Ok(None),
            _ => u32::try_from(class).map(Some).map_err(|_| {
                PyValueError::new_err(format!(
                    "{name}: expected a class, from 0, or -1 for none, got {class}"
                ))
            }),
        };
        classes.into_iter().map(class).collect::<PyResult<Targets>>()
    };
    // Besides the lists and their classes, NumPy converts each.
    let count = targets.len().unwrap_or(0);
    try_memory(128 * count, "targets").map_err(errors::backend)?;
    let mut all = Vec::with_capacity(count);
    for targets in targets.try_iter()?.enumerate() {
        all.push(of_input(targets)?);
    }
    Ok(all)
}

/// Reads the rows of each input: an array `[rows, width]`, or a list of vectors.
pub(crate) fn rows_of(gradients: &Bound<'_, PyAny>) -> PyResult<Vec<Rows>> {
    let of_input = |(input, gradients): (usize, PyResult<Bound<'_, PyAny>>)| {
        let (gradients, mut rows) = (gradients?, Rows::new());
        let name = |row: String| format!("gradients of input {input}{row}");
        if let Ok(list) = gradients.cast::<PyList>() {
            for (row, vector) in list.iter().enumerate() {
                let name = || name(format!(", row {row}"));
                let vector = arrays::floats::<PyValueError>(&vector, name)?;
                rows.push(vector.as_slice().expect("contiguous"));
            }
            return Ok(rows);
        }
        let array = arrays::floats::<PyValueError>(&gradients, || name(String::new()))?;
        let elements = array.as_slice().expect("contiguous");
        match *array.shape() {
            [0] => {}
            [_, width] if width > 0 => elements.chunks_exact(width).for_each(|row| rows.push(row)),
            [count, _] => (0..count).for_each(|_| rows.push(&[])),
            ref shape => {
                return Err(PyValueError::new_err(format!(
                    "gradients of input {input}: expected for each input an array [rows, width] or \
                     a list of vectors, got an array of shape {shape:?}"
                )));
            }
        }
        Ok(rows)
    };
    gradients.try_iter()?.enumerate().map(of_input).collect()
}
