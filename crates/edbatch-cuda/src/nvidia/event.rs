//! Points in streams.

use std::sync::Arc;

use cudarc::driver::{CudaContext, result, sys};

use super::failed;
use crate::CudaError;

/// A point in a stream.
pub(super) struct Event(pub(super) sys::CUevent, Arc<CudaContext>);

impl Event {
    pub(super) fn new(
        context: &Arc<CudaContext>,
        flags: sys::CUevent_flags,
    ) -> Result<Self, CudaError> {
        let event = result::event::create(flags);
        Ok(Self(event.map_err(failed("creating an event"))?, context.clone()))
    }

    pub(super) fn record(&self, stream: sys::CUstream) -> Result<(), CudaError> {
        // SAFETY: the event exists, and the stream belongs to the same device.
        unsafe { result::event::record(self.0, stream) }.map_err(failed("recording an event"))
    }

    /// Lets later work of a stream wait for the earlier work of another one. The event may be
    /// dropped before that has ended.
    pub(super) fn order(
        &self,
        first: sys::CUstream,
        stream: sys::CUstream,
    ) -> Result<(), CudaError> {
        self.record(first)?;
        let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: the event exists, and the stream belongs to the same device.
        let waits = unsafe { result::stream::wait_event(stream, self.0, flags) };
        waits.map_err(failed("waiting for an event"))
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if self.1.bind_to_thread().is_ok() {
            // SAFETY: the event exists, and nothing uses it. A destructor cannot report an error.
            let _ = unsafe { result::event::destroy(self.0) };
        }
    }
}
