//! Memory of tensors of another library, by DLPack.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::slice;

use edbatch::runtime::Borrowed;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyCapsuleMethods};

/// A capsule that a tensor's `__dlpack__` returned. `edbatch.torch` keeps the tensor, and orders its
/// other uses by the stream that it passes.
#[derive(FromPyObject)]
#[pyo3(transparent)]
pub(crate) struct Capsule<'py>(Bound<'py, PyCapsule>);

/// `DLTensor` of DLPack.
#[repr(C)]
struct DlTensor {
    data: *mut c_void,
    device: [i32; 2],
    dims: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *const i64,
    strides: *const i64,
    offset: u64,
}

/// The code of floats.
const FLOAT: u8 = 2;

impl Capsule<'_> {
    /// Returns the memory of the tensor.
    ///
    /// # Errors
    /// If its elements are not float32, row by row.
    pub(crate) fn borrowed(&self) -> PyResult<Borrowed> {
        let tensor = self.0.pointer_checked(Some(c"dltensor"))?.cast::<DlTensor>();
        // SAFETY: a capsule of this name has a `DLManagedTensor`, which begins with a `DLTensor`,
        // as long as the capsule lives.
        let tensor = unsafe { tensor.as_ref() };
        let dims = usize::try_from(tensor.dims).unwrap_or(0);
        let list = |list: *const i64| match dims {
            0 => &[][..],
            // SAFETY: the lists have an entry for each dimension.
            _ => unsafe { slice::from_raw_parts(list, dims) },
        };
        let shape = list(tensor.shape);
        let elements = shape.iter().product::<i64>();
        let mut expected = 1;
        let is_contiguous = tensor.strides.is_null()
            || elements == 0
            || shape.iter().zip(list(tensor.strides)).rev().all(|(&count, &stride)| {
                let fits = count == 1 || stride == expected;
                expected *= count;
                fits
            });
        if (tensor.code, tensor.bits, tensor.lanes) != (FLOAT, 32, 1) || !is_contiguous {
            return Err(PyTypeError::new_err("expected a contiguous tensor of float32"));
        }
        let address = tensor.data.expose_provenance() as u64 + tensor.offset;
        // SAFETY: the tensor has these elements, and see `Capsule`.
        Ok(unsafe { Borrowed::new(address, elements as usize) })
    }
}

/// Returns the memory of tensors.
pub(crate) fn all(capsules: &[Capsule<'_>]) -> PyResult<Vec<Borrowed>> {
    capsules.iter().map(Capsule::borrowed).collect()
}
