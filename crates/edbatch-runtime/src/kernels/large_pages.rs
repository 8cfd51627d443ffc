//! Memory in large pages: a weight or an arena of many megabytes has more small pages than the
//! processor remembers the places of.

use std::alloc::{Layout, alloc_zeroed};

/// Zeroed memory that the system was asked to keep in large pages, where it has them and `len` floats
/// fill some; `None` if the system does not give so much. The pages are only advice: nothing but time
/// depends on them.
pub(crate) fn zeros(len: usize) -> Option<Vec<f32>> {
    let layout = Layout::array::<f32>(len).ok()?;
    if layout.size() == 0 {
        return Some(Vec::new());
    }
    // Much memory comes fresh from the system, which gives it zeroed when it is touched; a fallible
    // `Vec` would touch all of it.
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
pub(super) fn advise<T>(memory: &mut [T]) {
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
pub(super) fn advise<T>(_memory: &mut [T]) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_any_size_is_zeroed() {
        for len in [0, 1, 1000, (2 << 20) / 4, (9 << 20) / 4 + 3] {
            let memory = zeros(len).expect("so little can be had");
            assert_eq!(memory.len(), len);
            assert!(memory.iter().all(|&x| x == 0.0));
        }
    }

    #[test]
    fn memory_that_cannot_be_had_is_none() {
        assert_eq!(zeros(usize::MAX / 2), None);
        assert_eq!(zeros((isize::MAX as usize - 64) / size_of::<f32>()), None);
    }
}
