//! Memory of tensors of another library, by DLPack.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::slice;

use edbatch::runtime::Borrowed;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyCapsuleMethods};

/// The capsule of a tensor's `__dlpack__`. `edbatch.torch` has checked that the tensor is
/// contiguous and of float32. It keeps the tensor, and passes the stream of its other uses.
#[derive(FromPyObject)]
#[pyo3(transparent)]
pub(crate) struct Capsule<'py>(Bound<'py, PyCapsule>);

/// `DLTensor` of DLPack.
#[repr(C)]
struct DlTensor {
    data: *mut c_void,
    device: [i32; 2],
    dims: i32,
    element: [u8; 4],
    shape: *const i64,
    strides: *const i64,
    offset: u64,
}

impl Capsule<'_> {
    /// Returns the memory of the tensor.
    pub(crate) fn borrowed(&self) -> PyResult<Borrowed> {
        let tensor = self.0.pointer_checked(Some(c"dltensor"))?.cast::<DlTensor>();
        // SAFETY: a capsule of this name has a `DLManagedTensor`, which begins with a `DLTensor`,
        // as long as the capsule lives.
        let &DlTensor { data, dims, shape, offset, .. } = unsafe { tensor.as_ref() };
        let shape = match dims {
            0 => &[][..],
            // SAFETY: the list has an entry for each dimension.
            _ => unsafe { slice::from_raw_parts(shape, dims as usize) },
        };
        let elements = shape.iter().product::<i64>() as usize;
        // SAFETY: the tensor has these elements. See `Capsule` for the rest.
        Ok(unsafe { Borrowed::new(data.expose_provenance() as u64 + offset, elements) })
    }
}

/// Returns the memory of tensors.
pub(crate) fn all(capsules: &[Capsule<'_>]) -> PyResult<Vec<Borrowed>> {
    capsules.iter().map(Capsule::borrowed).collect()
}
