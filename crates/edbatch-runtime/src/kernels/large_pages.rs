//! Memory in large pages: a weight or an arena of many megabytes has more small pages than the processor
//! remembers the places of.

/// Zeroed memory that the system was asked to keep in large pages, where it has them and `len` floats
/// fill some. It is only advice: nothing but time depends on it.
pub(crate) fn zeros(len: usize) -> Vec<f32> {
    // Much memory comes fresh from the system, which gives it zeroed when it is touched.
    let mut memory = vec![0.0; len];
    advise(&mut memory);
    memory
}

/// Asks for large pages for memory, best before it is touched.
#[cfg(target_os = "linux")]
pub(super) fn advise<T>(memory: &mut [T]) {
    /// What x86-64 and most of AArch64 have, in bytes. Where pages are larger, the advice is refused.
    const LARGE: usize = 2 << 20;
    let range = memory.as_mut_ptr_range();
    let start = range.start.addr().next_multiple_of(LARGE);
    let end = range.end.addr() / LARGE * LARGE;
    if start < end {
        let from = range.start.cast::<u8>().wrapping_add(start - range.start.addr());
        // SAFETY: start..end lies within `memory`, which is borrowed exclusively; the advice changes no
        // content.
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
            let memory = zeros(len);
            assert_eq!(memory.len(), len);
            assert!(memory.iter().all(|&x| x == 0.0));
        }
    }
}
