//! Exact counts of memory allocations.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

/// The system's allocator with a count of the allocations of each thread.
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

// SAFETY: every call is forwarded unchanged. The count is thread-local, and needs no allocation and
// no destructor.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller upholds the contract of `alloc`, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the contract of `dealloc`, and `memory` came from `System`.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
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
