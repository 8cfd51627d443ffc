//! Arrays of NumPy: read in place if possible, and made without a copy.

use edbatch::Rows;
use edbatch::graph::Shape;
use numpy::ndarray::Array2;
use numpy::{
    Element, PyArray1, PyArray2, PyArrayDescrMethods, PyArrayDyn, PyArrayMethods,
    PyReadonlyArrayDyn, PyUntypedArray, PyUntypedArrayMethods,
};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyList;

/// Reads floats: an array of float32 that is contiguous as it is, everything else by a copy.
pub(crate) fn floats<'py>(object: &Bound<'py, PyAny>) -> PyResult<PyReadonlyArrayDyn<'py, f32>> {
    read(object, "float32")
}

/// Reads integers. Other integers than `T` are converted, if they fit.
pub(crate) fn integers<T>(name: &str, object: &Bound<'_, PyAny>) -> PyResult<Vec<T>>
where
    T: Element + Copy + TryFrom<i64>,
{
    if let Ok(array) = object.cast::<PyArray1<T>>()
        && let Ok(integers) = array.to_vec()
    {
        return Ok(integers);
    }
    let py = object.py();
    let array = numpy_function(py, "asarray")?.call1((object,))?;
    let array = array.cast::<PyUntypedArray>()?;
    let kind = array.dtype().kind();
    if array.ndim() != 1 || array.len() > 0 && !matches!(kind, b'i' | b'u') {
        let got = format!("{} of {} dimensions", array.dtype(), array.ndim());
        return Err(PyTypeError::new_err(format!(
            "{name}: expected a list of ints or an array of integers, got {got}"
        )));
    }
    let wide = read::<i64>(array.as_any(), "int64")?;
    let wide = wide.as_slice().expect("contiguous");
    let narrow = wide.iter().map(|&number| {
        T::try_from(number).map_err(|_| {
            let bits = 8 * size_of::<T>();
            crate::errors::CallError::new_err(format!(
                "{name}: expected numbers of {bits} bits, got {number}"
            ))
        })
    });
    narrow.collect()
}

fn read<'py, T: Element>(
    object: &Bound<'py, PyAny>,
    dtype: &str,
) -> PyResult<PyReadonlyArrayDyn<'py, T>> {
    if let Ok(array) = object.cast::<PyArrayDyn<T>>() {
        let array = array.try_readonly()?;
        if array.as_slice().is_ok() {
            return Ok(array);
        }
    }
    let flags = PyList::new(object.py(), ["C_CONTIGUOUS", "ALIGNED"])?;
    let converted = numpy_function(object.py(), "require")?.call1((object, dtype, flags))?;
    Ok(converted.cast_into::<PyArrayDyn<T>>()?.try_readonly()?)
}

fn numpy_function<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    static NUMPY: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let module = NUMPY.get_or_try_init(py, || py.import("numpy").map(Bound::unbind))?;
    module.bind(py).getattr(name)
}

/// Returns the rows of an input as an array `[rows, width]`, or as a list of vectors if their
/// widths differ. Without a copy, except for such a list.
pub(crate) fn of_rows(py: Python<'_>, rows: Rows) -> PyResult<Bound<'_, PyAny>> {
    let (elements, ends) = rows.into_parts();
    let width = ends.first().copied().unwrap_or(0);
    if ends.iter().zip(1..).all(|(&end, row)| end == row * width) {
        let array = Array2::from_shape_vec((ends.len(), width), elements);
        let array = array.expect("rows of equal widths");
        return Ok(PyArray2::from_owned_array(py, array).into_any());
    }
    let starts = [0].into_iter().chain(ends.iter().copied());
    let vectors = starts.zip(&ends).map(|(start, &end)| vector(py, &elements[start..end]));
    Ok(PyList::new(py, vectors)?.into_any())
}

/// Returns a vector.
pub(crate) fn vector<'py>(py: Python<'py>, elements: &[f32]) -> Bound<'py, PyArray1<f32>> {
    PyArray1::from_slice(py, elements)
}

/// Returns elements as an array of this shape, without a copy.
pub(crate) fn shaped(py: Python<'_>, elements: Vec<f32>, shape: Shape) -> Bound<'_, PyAny> {
    match shape {
        Shape::Vector(_) => PyArray1::from_vec(py, elements).into_any(),
        Shape::Matrix(rows, columns) => {
            let shape = (rows as usize, columns as usize);
            let array = Array2::from_shape_vec(shape, elements).expect("the elements of the shape");
            PyArray2::from_owned_array(py, array).into_any()
        }
    }
}
