//! Memory for floats, aligned to cache lines and in huge pages where the system has them.
//!
//! A weight or an arena of many megabytes has more 4 KiB pages than the TLB has entries, so huge
//! pages make it faster.

use std::alloc::{Layout, alloc_zeroed};
use std::mem::{self, MaybeUninit};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};

use smallvec::SmallVec;

/// A cache line. Arrays of lines are aligned for vectors of every level.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct Line([f32; Line::FLOATS]);

impl Line {
    pub(super) const FLOATS: usize = 16;
}

/// The error for memory that could not be allocated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("failed to allocate {:.1} MB", *bytes as f64 / 1e6)]
pub struct OutOfMemory {
    /// The requested size in bytes.
    pub bytes: u64,
}

/// Fails unless this number of bytes can be allocated. Call it before code that cannot report a
/// failed allocation.
pub(crate) fn trial(bytes: usize) -> Result<(), OutOfMemory> {
    let mut probe = Vec::<u8>::new();
    let reserved = probe.try_reserve_exact(bytes);
    // Without this, the compiler may remove the allocation and assume that it succeeds.
    std::hint::black_box(&probe);
    reserved.map_err(|_| OutOfMemory { bytes: bytes as u64 })
}

/// A slice of `f32` that begins at a cache line. So do its rows if they consist of whole lines. The
/// system is asked for huge pages.
#[derive(Debug, Default)]
pub struct Aligned {
    memory: Vec<f32>,
    /// Elements before the first cache line.
    start: usize,
    len: usize,
}

impl Aligned {
    /// Allocates `len` zeros.
    ///
    /// # Errors
    /// If the system is out of memory.
    pub fn zeros(len: usize) -> Result<Self, OutOfMemory> {
        if len == 0 {
            return Ok(Self::default());
        }
        let elements = len.saturating_add(Line::FLOATS);
        let memory =
            zeros(elements).ok_or(OutOfMemory { bytes: (elements as u64).saturating_mul(4) })?;
        let start = memory.as_ptr().align_offset(align_of::<Line>()).min(Line::FLOATS);
        Ok(Self { memory, start, len })
    }

    /// Makes the slice at least `len` long. Its contents may be lost.
    ///
    /// # Errors
    /// If the system is out of memory. The slice is then empty.
    #[inline]
    pub fn reserve(&mut self, len: usize) -> Result<(), OutOfMemory> {
        if self.len < len {
            // Free the old memory first, so that both are never held together.
            *self = Self::default();
            *self = Self::zeros(len)?;
        }
        Ok(())
    }

    /// Makes the slice at least `len` long and keeps its contents. Grows to twice its length if
    /// the system has the memory, so that repeated growth copies each element a few times at most.
    ///
    /// # Errors
    /// If the system is out of memory. The slice is then as it was.
    pub fn grow(&mut self, len: usize) -> Result<(), OutOfMemory> {
        if self.len < len {
            let ample = len.max(self.len.saturating_mul(2));
            let mut grown = match Self::zeros(ample) {
                Err(_) if ample > len => Self::zeros(len)?,
                grown => grown?,
            };
            grown[..self.len].copy_from_slice(self);
            *self = grown;
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

/// Prefetches the cache line of a reference. Does nothing on a CPU without a known instruction.
#[inline(always)]
pub fn prefetch<T>(to: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the instruction accesses no memory that a program can observe, and is in the
        // baseline of x86-64.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(to).cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = to;
}

/// Allocates `len` zeros and asks for huge pages; `None` if the system is out of memory. Whether
/// the system grants huge pages affects only the speed.
fn zeros(len: usize) -> Option<Vec<f32>> {
    let layout = Layout::array::<f32>(len).ok()?;
    // Large allocations come from the system, which zeroes pages on first access. A `Vec` with
    // `try_reserve` and `resize` would write all of them.
    assert!(layout.size() > 0, "an allocation needs a size");
    // SAFETY: the layout's size is not zero.
    let start = unsafe { alloc_zeroed(layout) };
    if start.is_null() {
        return None;
    }
    // SAFETY: the global allocator allocated `start` for `len` floats, all of them zero.
    let mut memory = unsafe { Vec::from_raw_parts(start.cast::<f32>(), len, len) };
    advise(&mut memory);
    Some(memory)
}

/// Reserves memory for at least this number of further elements, in huge pages where the system has
/// them.
///
/// # Errors
/// If the system is out of memory.
pub(crate) fn try_reserve_huge(list: &mut Vec<f32>, additional: usize) -> Result<(), OutOfMemory> {
    let bytes = (list.len() as u64).saturating_add(additional as u64).saturating_mul(4);
    list.try_reserve(additional).map_err(|_| OutOfMemory { bytes })?;
    advise(list.spare_capacity_mut());
    Ok(())
}

/// Memory at the end of a list for a piece of its new elements, and the number of the piece.
pub(crate) type Unwritten<'a> = (usize, &'a mut [MaybeUninit<f32>]);

/// Appends pieces of `lens[i]` elements to a list that has room for them: the slices that
/// `slices(i)` returns. `share` passes every piece to its second argument, on any threads.
///
/// # Panics
/// If the list has no room, if the slices of a piece have another length, or if `share` leaves out
/// a piece.
pub(crate) fn extend_in_pieces<'a, S: Iterator<Item = &'a [f32]>>(
    list: &mut Vec<f32>,
    lens: &[usize],
    slices: impl Fn(usize) -> S + Sync,
    share: impl FnOnce(SmallVec<[Unwritten<'_>; 1]>, &(dyn Fn(Unwritten<'_>) + Sync)),
) {
    let all = lens.iter().sum();
    let mut rest = &mut list.spare_capacity_mut()[..all];
    let pieces = lens.iter().enumerate().map(|(piece, &len)| {
        let (own, after) = mem::take(&mut rest).split_at_mut(len);
        rest = after;
        (piece, own)
    });
    let written = AtomicUsize::new(0);
    share(pieces.collect(), &|(piece, own)| {
        let (len, mut rest) = (own.len(), own);
        slices(piece).for_each(|slice| {
            let (own, after) = mem::take(&mut rest).split_at_mut(slice.len());
            own.iter_mut().zip(slice).for_each(|(to, &from)| _ = to.write(from));
            rest = after;
        });
        assert!(rest.is_empty(), "the slices of a piece have its length");
        written.fetch_add(len, Ordering::Relaxed);
    });
    assert_eq!(written.into_inner(), all, "every piece is written");
    // SAFETY: the pieces are disjoint and consist of the `all` elements after the last. Each was
    // counted after all of its elements were written, at most once because the calls consume them.
    unsafe { list.set_len(list.len() + all) };
}

/// Asks the system for huge pages. Call it before the first access.
#[cfg(target_os = "linux")]
fn advise<T>(memory: &mut [T]) {
    /// Size in bytes of a huge page on x86-64 and most AArch64 systems. Where it is larger, the
    /// system ignores the advice.
    const HUGE_PAGE: usize = 2 << 20;
    let range = memory.as_mut_ptr_range();
    let start = range.start.addr().next_multiple_of(HUGE_PAGE);
    let end = range.end.addr() / HUGE_PAGE * HUGE_PAGE;
    if start < end {
        let from = range.start.cast::<u8>().wrapping_add(start - range.start.addr());
        // SAFETY: start..end is within `memory`, which is borrowed exclusively, and the advice does
        // not change its contents.
        unsafe { libc::madvise(from.cast(), end - start, libc::MADV_HUGEPAGE) };
    }
}

/// Does nothing: other systems choose the page size themselves.
#[cfg(not(target_os = "linux"))]
fn advise<T>(_memory: &mut [T]) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_of_any_length_are_aligned() {
        for len in [0, 1, 1000, (2 << 20) / 4, (9 << 20) / 4 + 3] {
            let memory = Aligned::zeros(len).expect("little memory");
            assert_eq!(memory.len(), len);
            assert!(len == 0 || memory.as_ptr().addr().is_multiple_of(64));
            assert!(memory.iter().all(|&x| x == 0.0));
        }
    }

    #[test]
    fn grown_memory_keeps_its_contents_and_is_as_it_was_after_a_failure() {
        let mut memory = Aligned::default();
        for (len, expected) in [(5, 5), (6, 10), (9, 10), (31, 31), (32, 62)] {
            let before: Vec<f32> = memory.to_vec();
            memory.grow(len).expect("little memory");
            assert_eq!(memory.len(), expected);
            assert_eq!(memory[..before.len()], before);
            assert!(memory[before.len()..].iter().all(|&x| x == 0.0));
            memory.iter_mut().zip(1_u8..).for_each(|(x, number)| *x = f32::from(number));
        }
        let before = memory.to_vec();
        memory.grow(usize::MAX / 2).expect_err("more than can be addressed");
        assert_eq!(*memory, before);
    }

    #[test]
    fn pieces_written_in_any_order_extend_a_list() {
        let mut list = vec![9.0];
        try_reserve_huge(&mut list, 5).expect("little memory");
        let slices: [&[&[f32]]; 3] = [&[&[1.0], &[2.0]], &[], &[&[3.0, 4.0, 5.0]]];
        extend_in_pieces(
            &mut list,
            &[2, 0, 3],
            |piece| slices[piece].iter().copied(),
            |pieces, write| {
                pieces.into_iter().rev().for_each(write);
            },
        );
        assert_eq!(list, [9.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    }

    #[test]
    fn a_piece_that_is_not_written_or_too_long_panics() {
        for (lens, written) in [([1, 1], 1), ([1, 2], 2)] {
            let extend = || {
                let mut list = Vec::with_capacity(3);
                extend_in_pieces(
                    &mut list,
                    &lens,
                    |_| [&[1.0_f32][..]].into_iter(),
                    |pieces, write| {
                        pieces.into_iter().take(written).for_each(write);
                    },
                );
            };
            std::panic::catch_unwind(extend).expect_err("an element is not written");
        }
    }

    #[test]
    fn failed_reserve_leaves_an_empty_slice() {
        let mut memory = Aligned::zeros(100).expect("little memory");
        for len in [usize::MAX, usize::MAX / 2, (isize::MAX as usize - 128) / size_of::<f32>()] {
            let error = memory.reserve(len).expect_err("more than can be addressed");
            assert!(error.bytes > 1 << 61, "{error}");
            assert!(memory.is_empty());
        }
    }
}
