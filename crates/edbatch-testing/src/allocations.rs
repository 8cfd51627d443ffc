//! Exact counts of memory allocations.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
    /// Larger allocations fail.
    static MAX_BYTES: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// The system's allocator with a count of the allocations of each thread, and a limit on request.
///
/// Make it the global allocator of a test program:
///
/// ```
/// use edbatch_testing::{CountingAllocator, allocations};
///
/// #[global_allocator]
/// static COUNTING: CountingAllocator = CountingAllocator;
///
/// assert_eq!(allocations(|| std::hint::black_box(Box::new(7))), 1);
/// ```
pub struct CountingAllocator;

// SAFETY: every call is forwarded unchanged, or fails, which is allowed. The count and the limit
// are thread-local, and need no allocation and no destructor.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        if layout.size() > MAX_BYTES.get() {
            return ptr::null_mut();
        }
        // SAFETY: the caller upholds the contract of `alloc`, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the contract of `dealloc`, and `memory` came from `System`.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        if size > MAX_BYTES.get() {
            return ptr::null_mut();
        }
        // SAFETY: the caller upholds the contract of `realloc`, and `memory` came from `System`.
        unsafe { System.realloc(memory, layout, size) }
    }
}

/// Returns the number of allocations and reallocations of `work` on this thread, if
/// [`CountingAllocator`] is the global allocator.
pub fn allocations<T>(work: impl FnOnce() -> T) -> usize {
    let before = ALLOCATIONS.get();
    std::hint::black_box(work());
    ALLOCATIONS.get() - before
}

/// Does `work`, during which allocations of more than `bytes` bytes fail on this thread, if
/// [`CountingAllocator`] is the global allocator. The work must not panic.
pub fn with_max_allocation<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    let before = MAX_BYTES.replace(bytes);
    let result = work();
    MAX_BYTES.set(before);
    result
}
