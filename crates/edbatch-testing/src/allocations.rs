//! Exact counts of allocations.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

/// The system's allocator, and a count of what each thread asked it for.
///
/// A test's program makes it the allocator of all its code:
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

// SAFETY: every call is passed on as it came. The count is a thread's own, needs no memory and no
// destructor.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps to the contract of `alloc`, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps to the contract of `dealloc`, and what we gave was `System`'s.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps to the contract of `realloc`, and what we gave was `System`'s.
        unsafe { System.realloc(memory, layout, size) }
    }
}

/// How often some work allocates or reallocates on this thread, where [`CountingAllocator`] is the
/// program's.
pub fn allocations<T>(work: impl FnOnce() -> T) -> usize {
    let before = ALLOCATIONS.get();
    std::hint::black_box(work());
    ALLOCATIONS.get() - before
}
