//! Modules of an NVIDIA device.

use std::sync::Arc;

use cudarc::driver::{CudaContext, result, sys};

/// A loaded module and its kernel function.
#[derive(Debug)]
pub(crate) struct NvidiaProgram {
    pub(super) module: sys::CUmodule,
    pub(super) function: sys::CUfunction,
    pub(super) context: Arc<CudaContext>,
}

// SAFETY: driver functions may be called on any thread that the context is bound to.
unsafe impl Send for NvidiaProgram {}
// SAFETY: as for `Send`; nothing changes a module.
unsafe impl Sync for NvidiaProgram {}

impl Drop for NvidiaProgram {
    fn drop(&mut self) {
        // A destructor cannot report an error.
        if self.context.bind_to_thread().is_ok() {
            // SAFETY: the module is loaded, and by the contract of `Device` no launch uses it.
            let _ = unsafe { result::module::unload(self.module) };
        }
    }
}
