//! The memory of the emulated device.

use std::alloc::{self, Layout};
use std::ptr::NonNull;

use crate::device::MemorySide;

/// Words of host memory, aligned to a cache line. They are NaN until they are written.
#[derive(Debug)]
pub(crate) struct HostMemory {
    pub(super) start: NonNull<u32>,
    pub(super) words: usize,
    side: MemorySide,
}

// SAFETY: it owns its memory, like a `Box`; the contract of `Device` says when it is accessed.
unsafe impl Send for HostMemory {}
// SAFETY: as for `Send`.
unsafe impl Sync for HostMemory {}

impl HostMemory {
    /// Allocates memory, filled with NaN. Returns `None` if it cannot be allocated.
    pub(super) fn new(bytes: usize, side: MemorySide) -> Option<Self> {
        let words = bytes.div_ceil(size_of::<u32>());
        let layout = Self::layout(words)?;
        // SAFETY: the layout is not empty.
        let start = NonNull::new(unsafe { alloc::alloc(layout) })?.cast::<u32>();
        for word in 0..words {
            // SAFETY: the allocation has `words` words.
            unsafe { start.add(word).write(f32::NAN.to_bits()) };
        }
        Some(Self { start, words, side })
    }

    /// The size and alignment of an allocation of `words` words, at least one.
    fn layout(words: usize) -> Option<Layout> {
        const CACHE_LINE: usize = 64;
        Layout::array::<u32>(words.max(1)).ok()?.align_to(CACHE_LINE).ok()
    }

    pub(super) fn of_host(&self) -> NonNull<u32> {
        assert_eq!(self.side, MemorySide::Host, "the host accesses host memory only");
        self.start
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        let layout = Self::layout(self.words).expect("it was allocated with this layout");
        // SAFETY: it was allocated with this layout, and nothing refers to it.
        unsafe { alloc::dealloc(self.start.as_ptr().cast(), layout) };
    }
}
