//! The command's allocator. It holds a reserve of memory, so that the command can end with an error
//! message when memory runs out: most of the standard library aborts instead.
//!
//! An allocation that fails is served from the reserve. Only the part that was handed out last can
//! be taken back, so that a trial allocation uses nothing up. The command then fails before it
//! begins with the next input or mini-batch.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::{null_mut, with_exposed_provenance_mut};
use std::sync::atomic::{AtomicUsize, Ordering};

use edbatch_cli::reserve_is_used;

/// The size of the reserve in bytes. A mini-batch may need this much for allocations that cannot
/// report a failure: its inputs and results as text, and the lists of its schedule and its plan.
const SIZE: usize = 32 << 20;

/// The maximum size of a part in bytes. Whatever needs more can report a failure.
const MAX_PART: usize = SIZE / 8;

/// Allocates from the system, and from the reserve if the system fails.
pub(crate) struct WithReserve;

/// The address of the reserve, or 0 before it is allocated.
static START: AtomicUsize = AtomicUsize::new(0);
/// The number of bytes of the reserve that are in use.
static USED: AtomicUsize = AtomicUsize::new(0);

/// Allocates the reserve, or returns an error message. The system commits memory to the reserve
/// only when it is used.
pub(crate) fn hold() -> Result<(), String> {
    let layout = Layout::from_size_align(SIZE, 16).expect("a power of two");
    // SAFETY: the size is not 0.
    let reserve = unsafe { System.alloc_zeroed(layout) };
    if reserve.is_null() {
        return Err(format!("out of memory: expected {} MiB at the start", SIZE >> 20));
    }
    START.store(reserve.expose_provenance(), Ordering::Release);
    Ok(())
}

/// Allocates from the reserve. Returns null if the rest of the reserve is too small.
fn from_reserve(layout: Layout) -> *mut u8 {
    let start = START.load(Ordering::Acquire);
    if start == 0 || layout.size() > MAX_PART {
        return null_mut();
    }
    let place = |used: usize| (start + used).checked_next_multiple_of(layout.align());
    let end = |used| place(used)?.checked_add(layout.size());
    let end = |used| Some(end(used)? - start).filter(|&end| end <= SIZE);
    match USED.fetch_update(Ordering::Acquire, Ordering::Acquire, end) {
        Ok(used) => {
            reserve_is_used();
            with_exposed_provenance_mut(place(used).expect("computed before"))
        }
        Err(_) => null_mut(),
    }
}

/// Takes a part of the reserve back if it was handed out last.
fn give_back(part: *mut u8, size: usize) {
    let place = part.addr() - START.load(Ordering::Relaxed);
    let _ = USED.compare_exchange(place + size, place, Ordering::Release, Ordering::Relaxed);
}

fn is_in_reserve(address: *mut u8) -> bool {
    let start = START.load(Ordering::Relaxed);
    start != 0 && address.addr().wrapping_sub(start) < SIZE
}

// SAFETY: memory is the system's, or a part of the reserve that no other allocation has.
unsafe impl GlobalAlloc for WithReserve {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        let allocated = unsafe { System.alloc(layout) };
        if allocated.is_null() { from_reserve(layout) } else { allocated }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        let allocated = unsafe { System.alloc_zeroed(layout) };
        if !allocated.is_null() {
            return allocated;
        }
        let allocated = from_reserve(layout);
        if !allocated.is_null() {
            // SAFETY: it has this many bytes.
            unsafe { allocated.write_bytes(0, layout.size()) };
        }
        allocated
    }

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !is_in_reserve(old) {
            // SAFETY: the caller's promise; the system allocated the memory.
            let allocated = unsafe { System.realloc(old, layout, size) };
            if !allocated.is_null() {
                return allocated;
            }
        }
        // SAFETY: the caller promises that the size is valid for the alignment.
        let larger = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        let allocated = from_reserve(larger);
        if !allocated.is_null() {
            // SAFETY: both have at least this many bytes; they do not overlap, since one is new.
            unsafe { allocated.copy_from_nonoverlapping(old, layout.size().min(size)) };
            // SAFETY: the caller's promise.
            unsafe { self.dealloc(old, layout) };
        }
        allocated
    }

    unsafe fn dealloc(&self, old: *mut u8, layout: Layout) {
        if is_in_reserve(old) {
            give_back(old, layout.size());
        } else {
            // SAFETY: the caller's promise; the system allocated the memory.
            unsafe { System.dealloc(old, layout) }
        }
    }
}
