//! Memory that begins at a cache line.

use std::ops::{Deref, DerefMut};

use crate::kernels::large_pages;

/// A growable slice of f32 that begins at a cache line, so that no row of whole lines is split.
#[derive(Debug, Default)]
pub(super) struct Aligned {
    memory: Vec<f32>,
    /// Elements before the first cache line.
    start: usize,
    len: usize,
}

impl Aligned {
    /// Makes the slice at least this long; what was in it may be lost.
    pub(super) fn reserve(&mut self, len: usize) {
        let made = self.try_reserve(len);
        made.unwrap_or_else(|bytes| panic!("{bytes} bytes of scratch memory cannot be had"));
    }

    /// As [`reserve`](Self::reserve), unless the system does not give the memory.
    ///
    /// # Errors
    /// How many bytes would have been needed. The slice is empty then.
    pub(super) fn try_reserve(&mut self, len: usize) -> Result<(), u64> {
        const LINE: usize = 64;
        if self.len < len {
            // First given back, so that both need not be held at once.
            *self = Self::default();
            let elements = len + LINE / size_of::<f32>();
            let bytes = (elements * size_of::<f32>()) as u64;
            self.memory = large_pages::zeros(elements).ok_or(bytes)?;
            self.start = self.memory.as_ptr().align_offset(LINE).min(LINE / size_of::<f32>());
            self.len = len;
        }
        Ok(())
    }
}

impl Deref for Aligned {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.memory[self.start..self.start + self.len]
    }
}

impl DerefMut for Aligned {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.memory[self.start..self.start + self.len]
    }
}
