//! Memory for floats that begins at a cache line, in large pages where the system has them.
//!
//! A weight or an arena of many megabytes has more small pages than the processor remembers the
//! places of.

use std::alloc::{Layout, alloc_zeroed};
use std::fmt;
use std::ops::{Deref, DerefMut};

/// A cache line: what is made of these is aligned for vectors of every level.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct Line([f32; Line::FLOATS]);

impl Line {
    pub(super) const FLOATS: usize = 16;
}

/// Memory that the system does not give.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutOfMemory {
    /// How much was asked for, in bytes.
    pub bytes: u64,
}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the system does not give {:.1} MB of memory", self.bytes as f64 / 1e6)
    }
}

impl std::error::Error for OutOfMemory {}

/// A slice of f32 that begins at a cache line, so that no row of whole lines is split.
#[derive(Debug, Default)]
pub(crate) struct Aligned {
    memory: Vec<f32>,
    /// Elements before the first cache line.
    start: usize,
    len: usize,
}

impl Aligned {
    /// So many zeros.
    ///
    /// # Errors
    /// If the system does not give so much.
    pub(crate) fn zeros(len: usize) -> Result<Self, OutOfMemory> {
        if len == 0 {
            return Ok(Self::default());
        }
        let elements = len.saturating_add(Line::FLOATS);
        let memory =
            zeros(elements).ok_or(OutOfMemory { bytes: (elements as u64).saturating_mul(4) })?;
        let start = memory.as_ptr().align_offset(align_of::<Line>()).min(Line::FLOATS);
        Ok(Self { memory, start, len })
    }

    /// Makes the slice at least this long; what was in it may be lost.
    ///
    /// # Errors
    /// If the system does not give so much. The slice is empty then.
    #[inline]
    pub(crate) fn reserve(&mut self, len: usize) -> Result<(), OutOfMemory> {
        if self.len < len {
            // First given back, so that both need not be held at once.
            *self = Self::default();
            *self = Self::zeros(len)?;
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

/// Zeroed memory that the system was asked to keep in large pages, where `len` floats fill some;
/// `None` if the system does not give so much. The pages are only advice: nothing but time depends
/// on them.
fn zeros(len: usize) -> Option<Vec<f32>> {
    let layout = Layout::array::<f32>(len).ok()?;
    // Much memory comes fresh from the system, which gives it zeroed when it is touched; a fallible
    // `Vec` would touch all of it.
    assert!(layout.size() > 0, "memory of no size is not allocated");
    // SAFETY: the layout is not empty.
    let start = unsafe { alloc_zeroed(layout) };
    if start.is_null() {
        return None;
    }
    // SAFETY: the global allocator gave this memory for `len` floats, all of them zero.
    let mut memory = unsafe { Vec::from_raw_parts(start.cast::<f32>(), len, len) };
    advise(&mut memory);
    Some(memory)
}

/// Asks for large pages for memory, best before it is touched.
#[cfg(target_os = "linux")]
fn advise(memory: &mut [f32]) {
    /// What x86-64 and most of AArch64 have, in bytes. Where pages are larger, the advice is
    /// refused.
    const LARGE: usize = 2 << 20;
    let range = memory.as_mut_ptr_range();
    let start = range.start.addr().next_multiple_of(LARGE);
    let end = range.end.addr() / LARGE * LARGE;
    if start < end {
        let from = range.start.cast::<u8>().wrapping_add(start - range.start.addr());
        // SAFETY: start..end lies within `memory`, which is borrowed exclusively; the advice
        // changes no content.
        unsafe { libc::madvise(from.cast(), end - start, libc::MADV_HUGEPAGE) };
    }
}

/// Other systems choose the size of pages themselves.
#[cfg(not(target_os = "linux"))]
fn advise(_memory: &mut [f32]) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_any_size_is_aligned_and_zeroed() {
        for len in [0, 1, 1000, (2 << 20) / 4, (9 << 20) / 4 + 3] {
            let memory = Aligned::zeros(len).expect("so little can be had");
            assert_eq!(memory.len(), len);
            assert!(len == 0 || memory.as_ptr().addr().is_multiple_of(64));
            assert!(memory.iter().all(|&x| x == 0.0));
        }
    }

    #[test]
    fn memory_that_cannot_be_had_is_an_error_and_leaves_an_empty_slice() {
        let mut memory = Aligned::zeros(100).expect("so little can be had");
        for len in [usize::MAX, usize::MAX / 2, (isize::MAX as usize - 128) / size_of::<f32>()] {
            let error = memory.reserve(len).expect_err("more than can be addressed");
            assert!(error.bytes > 1 << 61, "{error}");
            assert!(memory.is_empty());
        }
    }
}
