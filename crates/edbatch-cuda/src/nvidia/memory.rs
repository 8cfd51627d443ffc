//! Memory of an NVIDIA device.

use std::ptr::NonNull;
use std::sync::Arc;

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::{CudaContext, sys};

use super::failed;
use crate::CudaError;
use crate::device::MemorySide;

/// Device memory, or pinned host memory that the device can access.
#[derive(Debug)]
pub(crate) struct NvidiaMemory {
    pub(super) address: u64,
    pub(super) words: usize,
    /// The host's address, for host memory.
    pub(super) host: Option<NonNull<u32>>,
    context: Arc<CudaContext>,
}

// SAFETY: it owns its memory, like a `Box`; the contract of `Device` says when it is accessed.
unsafe impl Send for NvidiaMemory {}
// SAFETY: as for `Send`.
unsafe impl Sync for NvidiaMemory {}

impl NvidiaMemory {
    pub(super) fn new(
        context: &Arc<CudaContext>,
        bytes: usize,
        side: MemorySide,
    ) -> Result<Self, CudaError> {
        let words = bytes.div_ceil(size_of::<u32>());
        // The driver cannot allocate 0 bytes.
        let bytes = words.max(1).saturating_mul(size_of::<u32>());
        let (address, host) = match side {
            MemorySide::Device => (on_device(bytes)?, None),
            MemorySide::Host => {
                let (address, host) = on_host(bytes)?;
                (address, Some(host))
            }
        };
        Ok(Self { address, words, host, context: context.clone() })
    }

    pub(super) fn of_host(&self) -> NonNull<u32> {
        self.host.expect("the host accesses host memory only")
    }
}

impl Drop for NvidiaMemory {
    fn drop(&mut self) {
        if self.context.bind_to_thread().is_ok() {
            // SAFETY: it was allocated by the same functions, and by the contract of `Device` no
            // launch uses it. A destructor cannot report an error.
            let _ = unsafe {
                match self.host {
                    Some(host) => result::free_host(host.as_ptr().cast()),
                    None => result::free_sync(self.address),
                }
            };
        }
    }
}

/// Allocates memory of the device that is bound to the thread.
fn on_device(bytes: usize) -> Result<u64, CudaError> {
    // SAFETY: any bits are a valid word.
    unsafe { result::malloc_sync(bytes) }.map_err(no_memory("the device", bytes))
}

/// Allocates zeroed pinned memory. Returns its address on the device and on the host.
fn on_host(bytes: usize) -> Result<(u64, NonNull<u32>), CudaError> {
    let flags = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;
    // SAFETY: it is initialised below, before it is read.
    let start = unsafe { result::malloc_host(bytes, flags) };
    let start = start.map_err(no_memory("the host (pinned)", bytes))?;
    let host = NonNull::new(start.cast::<u32>()).expect("the driver reported success");
    // SAFETY: the allocation has `bytes` bytes.
    unsafe { start.cast::<u8>().write_bytes(0, bytes) };
    let mut address = 0;
    // SAFETY: the memory was allocated with CU_MEMHOSTALLOC_DEVICEMAP.
    let mapped = unsafe { sys::cuMemHostGetDevicePointer_v2(&mut address, start, 0) };
    match mapped.result() {
        Ok(()) => Ok((address, host)),
        Err(error) => {
            // SAFETY: it was allocated by `malloc_host`, and nothing uses it.
            let _ = unsafe { result::free_host(start) };
            Err(failed("mapping host memory")(error))
        }
    }
}

fn no_memory(what: &'static str, bytes: usize) -> impl Fn(DriverError) -> CudaError {
    move |error| match error {
        DriverError(sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY) => CudaError::Memory { what, bytes },
        error => failed(what)(error),
    }
}
