//! The memory that plans need, kept from one to the next.

use std::mem;

use super::CudaError;
use super::device::{Device, Side};
use crate::BackendError;

/// What plans need; it grows by half, and nothing is taken in a steady state.
pub(super) struct PlanMemory<D: Device> {
    pub(super) tape: Buffer<D>,
    /// The tape as a team has it.
    pub(super) pulled: Buffer<D>,
    pub(super) given: Buffer<D>,
    pub(super) arena: Buffer<D>,
    /// Where rows stay, and where they stayed before: in turns.
    pub(super) stay: [Buffer<D>; 2],
    pub(super) outputs: Buffer<D>,
    pub(super) indices: Buffer<D>,
}

impl<D: Device> PlanMemory<D> {
    pub(super) fn new() -> Self {
        let tape = "a plan on its tape";
        Self {
            tape: Buffer::new(Side::Host, tape),
            pulled: Buffer::new(Side::Device, tape),
            given: Buffer::new(Side::Host, "given rows"),
            arena: Buffer::new(Side::Device, "the arena of a mini-batch's values"),
            stay: [(); 2].map(|()| Buffer::new(Side::Device, "rows that stay")),
            outputs: Buffer::new(Side::Host, "what a plan is run for"),
            indices: Buffer::new(Side::Host, "what a plan is run for"),
        }
    }
}

/// Memory of a side, as long as the longest plan needed it.
pub(super) struct Buffer<D: Device> {
    side: Side,
    what: &'static str,
    pub(super) words: usize,
    pub(super) memory: Option<D::Memory>,
}

impl<D: Device> Buffer<D> {
    fn new(side: Side, what: &'static str) -> Self {
        Self { side, what, words: 0, memory: None }
    }

    /// Makes the memory at least so many words long; what was in it may be lost. No launch may be
    /// under way that needs it.
    pub(super) fn reserve(
        &mut self,
        device: &D,
        words: usize,
    ) -> Result<&mut D::Memory, BackendError> {
        if self.words < words || self.memory.is_none() {
            // First given back, so that both need not be held at once.
            self.memory = None;
            let before = mem::take(&mut self.words);
            let enough = words.max(16);
            let ample = enough.max(before + before / 2);
            let take = |words| Ok((words, device.memory(4 * words, self.side)?));
            let taken = match take(ample) {
                // Not refused for the sake of what may come later.
                Err(CudaError::Memory { .. }) if ample > enough => take(enough),
                taken => taken,
            };
            let (words, memory) = taken.map_err(|error| match error {
                CudaError::Memory { bytes, .. } => {
                    BackendError::Memory { what: self.what, bytes: bytes as u64 }
                }
                error => error.into(),
            })?;
            (self.words, self.memory) = (words, Some(memory));
        }
        Ok(self.memory.as_mut().expect("taken above"))
    }

    /// Where it lies; 0 if there is none.
    pub(super) fn address(&self, device: &D) -> u64 {
        self.memory.as_ref().map_or(0, |memory| device.address(memory))
    }
}

#[cfg(test)]
mod tests {
    use super::super::emulated::Emulated;
    use super::*;

    #[test]
    fn memory_that_is_refused_is_not_missed_afterwards() {
        let device = Emulated::new(1);
        device.set_most_bytes(4 * 1000);
        let mut buffer = Buffer::new(Side::Device, "values");
        buffer.reserve(&device, 800).unwrap();
        // Half as many again are not there; what is needed is.
        buffer.reserve(&device, 900).unwrap();
        assert_eq!(buffer.words, 900);
        let refused = buffer.reserve(&device, 1001).err();
        assert!(matches!(refused, Some(BackendError::Memory { what: "values", bytes: 4004 })));
        assert_eq!((buffer.words, buffer.address(&device)), (0, 0));
        buffer.reserve(&device, 20).unwrap();
        assert_eq!(buffer.words, 20);
    }
}
