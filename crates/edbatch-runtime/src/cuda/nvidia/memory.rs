//! Memory of a device of NVIDIA's.

use std::ptr::NonNull;
use std::sync::Arc;

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::{CudaContext, sys};

use super::failed;
use crate::cuda::CudaError;
use crate::cuda::device::Side;

/// Memory of the device, or of the host where the device sees it.
#[derive(Debug)]
pub(crate) struct NvidiaMemory {
    pub(super) address: u64,
    pub(super) words: usize,
    /// Where the host finds it, if it is the host's.
    host: Option<NonNull<u32>>,
    context: Arc<CudaContext>,
}

// SAFETY: it is memory of its own, like a `Box`; who may read and write it when is the contract of
// `Device`.
unsafe impl Send for NvidiaMemory {}
// SAFETY: likewise.
unsafe impl Sync for NvidiaMemory {}

impl NvidiaMemory {
    pub(super) fn new(
        context: &Arc<CudaContext>,
        bytes: usize,
        side: Side,
    ) -> Result<Self, CudaError> {
        let words = bytes.div_ceil(size_of::<u32>());
        // The driver has no memory of no bytes.
        let bytes = words.max(1).saturating_mul(size_of::<u32>());
        let (address, host) = match side {
            Side::Device => (on_device(bytes)?, None),
            Side::Host => {
                let (address, host) = on_host(bytes)?;
                (address, Some(host))
            }
        };
        Ok(Self { address, words, host, context: context.clone() })
    }

    pub(super) fn of_host(&self) -> NonNull<u32> {
        self.host.expect("the host reads and writes its own memory")
    }
}

impl Drop for NvidiaMemory {
    fn drop(&mut self) {
        if self.context.bind_to_thread().is_ok() {
            // SAFETY: it was allocated so, and by the contract of `Device` no launch uses it.
            // Errors cannot be helped here.
            let _ = unsafe {
                match self.host {
                    Some(host) => result::free_host(host.as_ptr().cast()),
                    None => result::free_sync(self.address),
                }
            };
        }
    }
}

/// Memory of the device that the thread is bound to.
fn on_device(bytes: usize) -> Result<u64, CudaError> {
    // SAFETY: any bits are a word.
    unsafe { result::malloc_sync(bytes) }.map_err(no_memory("the device", bytes))
}

/// Zeroed memory of the host that stays where it is, where the device sees it and where the host
/// does.
fn on_host(bytes: usize) -> Result<(u64, NonNull<u32>), CudaError> {
    let flags = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;
    // SAFETY: it is written before it is read, just below.
    let start = unsafe { result::malloc_host(bytes, flags) };
    let start = start.map_err(no_memory("the host (pinned)", bytes))?;
    let host = NonNull::new(start.cast::<u32>()).expect("the driver reported success");
    // SAFETY: so many bytes were allocated.
    unsafe { start.cast::<u8>().write_bytes(0, bytes) };
    let mut address = 0;
    // SAFETY: the memory was allocated to be seen by the device.
    let mapped = unsafe { sys::cuMemHostGetDevicePointer_v2(&mut address, start, 0) };
    match mapped.result() {
        Ok(()) => Ok((address, host)),
        Err(error) => {
            // SAFETY: it was allocated so, and nothing uses it.
            let _ = unsafe { result::free_host(start) };
            Err(failed("the device's view of the host's memory")(error))
        }
    }
}

fn no_memory(what: &'static str, bytes: usize) -> impl Fn(DriverError) -> CudaError {
    move |error| match error {
        DriverError(sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY) => CudaError::Memory { what, bytes },
        error => failed(what)(error),
    }
}
