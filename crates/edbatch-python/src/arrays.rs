//! Arrays of NumPy: read in place if possible, and made without a copy.

use edbatch::Rows;
use numpy::ndarray::{Array2, ArrayD, IxDyn};
use numpy::{
    Element, PyArray1, PyArray2, PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn,
    PyUntypedArrayMethods,
};
use pyo3::PyTypeInfo;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyList;

use crate::errors::WeightsError;

/// Reads floats: an array of float32 in C order as it is, everything else by a copy.
///
/// # Errors
/// `E`, with the name of the array, for elements that are not 32-bit floats.
pub(crate) fn floats<'py, E: PyTypeInfo>(
    object: &Bound<'py, PyAny>,
    name: impl FnOnce() -> String,
) -> PyResult<PyReadonlyArrayDyn<'py, f32>> {
    // A subclass may mask elements.
    if let Ok(array) = object.cast_exact::<PyArrayDyn<f32>>()
        && array.is_c_contiguous()
        && array.is_aligned()
    {
        return Ok(array.try_readonly()?);
    }
    let py = object.py();
    // Python takes many times as long for a few elements of NumPy's default type.
    if let Ok(array) = object.cast_exact::<PyArrayDyn<f64>>()
        && array.is_c_contiguous()
        && array.len() <= 1 << 10
        && let Ok(wide) = array.to_vec()
        && wide.iter().all(|&x| x.is_finite() == (x as f32).is_finite())
    {
        let narrow = shaped(py, wide.iter().map(|&x| x as f32).collect(), array.shape());
        return Ok(narrow.cast_into::<PyArrayDyn<f32>>()?.try_readonly()?);
    }
    let converted = function(py, "floats")?.call1((name(), object, py.get_type::<E>()))?;
    Ok(converted.cast_into::<PyArrayDyn<f32>>()?.try_readonly()?)
}

/// Reads integers. Other integers than `T` are converted, if they fit.
///
/// # Errors
/// TypeError for anything but integers, and `E` for integers beyond the range of `T`.
pub(crate) fn integers<T: Element + Copy, E: PyTypeInfo>(
    name: &str,
    object: &Bound<'_, PyAny>,
) -> PyResult<Vec<T>> {
    if let Ok(array) = object.cast_exact::<PyArray1<T>>()
        && let Ok(integers) = array.to_vec()
    {
        return Ok(integers);
    }
    let py = object.py();
    let arguments = (name, object, T::get_dtype(py), py.get_type::<E>());
    let converted = function(py, "integers")?.call1(arguments)?;
    Ok(converted.cast_into::<PyArray1<T>>()?.to_vec()?)
}

/// Reads 64-bit integers of one or two dimensions, in C order. Returns their shape, too.
///
/// # Errors
/// Like [`integers`].
pub(crate) fn integer_rows<E: PyTypeInfo>(
    name: &str,
    object: &Bound<'_, PyAny>,
) -> PyResult<(Vec<i64>, Vec<usize>)> {
    let py = object.py();
    let arguments = (name, object, i64::get_dtype(py), py.get_type::<E>(), 2);
    let converted = function(py, "integers")?.call1(arguments)?;
    let array = converted.cast_into::<PyArrayDyn<i64>>()?;
    let shape = array.shape().to_vec();
    Ok((array.to_vec()?, shape))
}

/// Returns the names and the arrays of a mapping.
pub(crate) fn items<'py>(
    what: &str,
    mapping: &Bound<'py, PyAny>,
) -> PyResult<Vec<(String, Bound<'py, PyAny>)>> {
    let py = mapping.py();
    function(py, "items")?.call1((what, mapping, py.get_type::<WeightsError>()))?.extract()
}

/// Returns a function of `_arrays.py`.
fn function<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let module = MODULE.get_or_try_init(py, || py.import("edbatch._arrays").map(Bound::unbind))?;
    module.bind(py).getattr(name)
}

/// Returns the rows of an input as an array `[rows, width]`, or as a list of vectors if their
/// widths differ. Without a copy, except for such a list.
pub(crate) fn of_rows(py: Python<'_>, rows: Rows) -> PyResult<Bound<'_, PyAny>> {
    let (elements, ends) = rows.into_parts();
    of_parts(py, elements, &ends)
}

/// Like [`of_rows`], from the elements of all rows and the end of each.
pub(crate) fn of_parts<'py>(
    py: Python<'py>,
    elements: Vec<f32>,
    ends: &[usize],
) -> PyResult<Bound<'py, PyAny>> {
    let width = ends.first().copied().unwrap_or(0);
    if ends.iter().zip(1..).all(|(&end, row)| end == row * width) {
        let array = Array2::from_shape_vec((ends.len(), width), elements);
        let array = array.expect("rows of equal widths");
        return Ok(PyArray2::from_owned_array(py, array).into_any());
    }
    let starts = [0].into_iter().chain(ends.iter().copied());
    let vectors = starts.zip(ends).map(|(start, &end)| vector(py, &elements[start..end]));
    Ok(PyList::new(py, vectors)?.into_any())
}

/// Returns a vector.
pub(crate) fn vector<'py>(py: Python<'py>, elements: &[f32]) -> Bound<'py, PyArray1<f32>> {
    PyArray1::from_slice(py, elements)
}

/// Returns elements as an array of these dimensions, without a copy.
pub(crate) fn shaped<'py>(
    py: Python<'py>,
    elements: Vec<f32>,
    dims: &[usize],
) -> Bound<'py, PyAny> {
    let array = ArrayD::from_shape_vec(IxDyn(dims), elements).expect("the elements of the shape");
    PyArrayDyn::from_owned_array(py, array).into_any()
}
