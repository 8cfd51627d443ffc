//! A test for available memory, for searches and tables that grow without a limit.

/// Bytes to leave free for small allocations and for the pages of the allocator.
const SLACK: usize = 4 << 20;

/// Returns true if this number of bytes can be allocated now.
///
/// A failed allocation of a list aborts the program. So code that grows lists asks for the sum of
/// its next allocations first, and ends if that sum is not available.
pub(crate) fn is_available(bytes: usize) -> bool {
    let mut probe = Vec::<u8>::new();
    let is_available = probe.try_reserve_exact(bytes.saturating_add(SLACK)).is_ok();
    // Without this the compiler may remove the allocation and assume that it succeeds.
    std::hint::black_box(&probe);
    is_available
}
