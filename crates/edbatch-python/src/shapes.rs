//! Shapes and numbers from Python.

use edbatch::graph::{self, Shape};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyTuple};

use crate::errors::{self, CellError};

/// Reads dimensions: an int, or a tuple or list of ints.
pub(crate) fn dims(what: &str, shape: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
    let one = shape.extract::<usize>().ok().filter(|_| !shape.is_instance_of::<PyBool>());
    let dims = one.map(|n| vec![n]).or_else(|| shape.extract().ok());
    dims.ok_or_else(|| {
        let got = shape.repr().map_or("?".into(), |text| text.to_string());
        CellError::new_err(format!("{what}: expected an int or a tuple of ints, got {got}"))
    })
}

/// Reads the shape of a vector or a matrix.
pub(crate) fn shape(what: &str, shape: &Bound<'_, PyAny>) -> PyResult<Shape> {
    let dims = dims(what, shape)?;
    Shape::new(&dims).ok_or_else(|| {
        let expected = format!(
            "a vector or a matrix of 1 to 2^31 - 1 elements, `n` or `(rows, columns)`, got {dims:?}"
        );
        errors::cell(graph::CellError::new("", what, &[], &expected))
    })
}

/// Returns a shape as a tuple.
pub(crate) fn to_tuple(py: Python<'_>, shape: Shape) -> PyResult<Bound<'_, PyTuple>> {
    match shape {
        Shape::Vector(n) => PyTuple::new(py, [n]),
        Shape::Matrix(rows, columns) => PyTuple::new(py, [rows, columns]),
    }
}

/// Reads a number. Returns `None` for a bool and for other objects.
pub(crate) fn number(object: &Bound<'_, PyAny>) -> Option<f64> {
    if object.is_instance_of::<PyBool>() {
        return None;
    }
    object.extract().ok()
}

/// Returns the dimensions of a shape.
pub(crate) fn dims_of(shape: Shape) -> Vec<usize> {
    match shape {
        Shape::Vector(n) => vec![n as usize],
        Shape::Matrix(rows, columns) => vec![rows as usize, columns as usize],
    }
}
