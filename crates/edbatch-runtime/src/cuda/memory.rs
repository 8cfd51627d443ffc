//! The memory that plans need, kept from one to the next.

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
            let more = words.max(self.words + self.words / 2).max(16);
            let memory = device.memory(4 * more, self.side).map_err(|error| match error {
                CudaError::Memory { bytes, .. } => {
                    BackendError::Memory { what: self.what, bytes: bytes as u64 }
                }
                error => error.into(),
            })?;
            (self.words, self.memory) = (more, Some(memory));
        }
        Ok(self.memory.as_mut().expect("taken above"))
    }

    /// Where it lies; 0 if there is none.
    pub(super) fn address(&self, device: &D) -> u64 {
        self.memory.as_ref().map_or(0, |memory| device.address(memory))
    }
}
