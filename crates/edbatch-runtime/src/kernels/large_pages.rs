//! Memory in large pages: a weight or an arena of many megabytes has more small pages than the processor
//! remembers the places of.

/// Zeroed memory that the system was asked to keep in large pages, where it has them and `len` floats
/// fill some. It is only advice: nothing but time depends on it.
pub(crate) fn zeros(len: usize) -> Vec<f32> {
    let mut memory = Vec::new();
    memory.reserve_exact(len);
    advise(memory.spare_capacity_mut());
    memory.resize(len, 0.0);
    memory
}

/// Asks for large pages for memory that nobody has touched yet.
#[cfg(target_os = "linux")]
pub(super) fn advise<T>(untouched: &mut [std::mem::MaybeUninit<T>]) {
    /// What x86-64 and most of AArch64 have, in bytes. Where pages are larger, the advice is refused.
    const LARGE: usize = 2 << 20;
    let range = untouched.as_mut_ptr_range();
    let start = range.start.addr().next_multiple_of(LARGE);
    let end = range.end.addr() / LARGE * LARGE;
    if start < end {
        let from = range.start.cast::<u8>().wrapping_add(start - range.start.addr());
        // SAFETY: start..end lies within `untouched`, which is borrowed exclusively; the advice changes no
        // content.
        unsafe { libc::madvise(from.cast(), end - start, libc::MADV_HUGEPAGE) };
    }
}

/// Other systems choose the size of pages themselves.
#[cfg(not(target_os = "linux"))]
pub(super) fn advise<T>(_untouched: &mut [std::mem::MaybeUninit<T>]) {}

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
