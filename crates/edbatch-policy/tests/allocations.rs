//! Scheduling allocates nothing once its memory has seen the largest mini-batch.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::iter;

use edbatch_graph::{Dag, PlainDag, Schedule};
use edbatch_policy::{
    Agenda, AnyPolicy, Critical, Depth, Fsm, NamedEncoding, Preference, Scheduler, Sufficient,
    TrainingSet, distill,
};

#[allow(dead_code, reason = "other tests use the rest")]
#[path = "it/support.rs"]
mod support;

use support::{lattices, trees};

/// The system's allocator, and a count of what the thread asked it for.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

#[global_allocator]
static COUNTING: Counting = Counting;

// SAFETY: every call is passed on as it came. The count is a thread's own, needs no memory and no
// destructor.
unsafe impl GlobalAlloc for Counting {
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

fn allocations(work: impl FnOnce()) -> usize {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

#[test]
fn it_counts() {
    assert_eq!(allocations(|| drop(std::hint::black_box(Box::new(7)))), 1);
}

/// How often it allocates, mini-batch after mini-batch.
fn counts(mut scheduler: Scheduler, mini_batches: &[PlainDag]) -> Vec<usize> {
    let mut schedule = Schedule::new();
    let mut run = |dag| allocations(|| scheduler.schedule(dag, &mut schedule));
    mini_batches.iter().map(&mut run).collect()
}

/// A large mini-batch, smaller ones, and the large one again.
fn mini_batches(make: fn(u64, usize) -> PlainDag) -> Vec<PlainDag> {
    let smaller = (2..10).map(|seed| make(seed, 8));
    iter::once(make(1, 64)).chain(smaller).chain(iter::once(make(1, 64))).collect()
}

#[test]
fn a_scheduler_that_has_seen_the_largest_graph_allocates_nothing() {
    // Kinds in an order, so that the default is `InOrder`; and without one.
    for make in [trees as fn(u64, usize) -> PlainDag, lattices] {
        let mini_batches = mini_batches(make);
        let policies: [AnyPolicy; 6] = [
            Box::new(Critical::new()),
            Box::new(Critical::preferring(Preference::Ratio)),
            Box::new(Sufficient::new()),
            Box::new(Agenda::new()),
            Box::new(Depth::new()),
            // It knows no state, and so falls to `Critical` all the time.
            Box::new(Fsm::new(NamedEncoding::Sort, mini_batches[0].kinds())),
        ];
        let schedulers = policies.into_iter().map(Scheduler::by).chain([Scheduler::default()]);
        for (number, scheduler) in schedulers.enumerate() {
            let counts = counts(scheduler, &mini_batches);
            assert!(counts[0] > 0, "scheduler {number}: the first time");
            assert_eq!(counts[1..], [0; 9], "scheduler {number}");
        }
    }
}

/// With all states that it meets in its table.
#[test]
fn a_learned_fsm_allocates_nothing() {
    for make in [trees as fn(u64, usize) -> PlainDag, lattices] {
        let mini_batches = mini_batches(make);
        let set = TrainingSet::new(&mini_batches, &[]).unwrap();
        for encoding in NamedEncoding::all() {
            let learned = distill(&set, &encoding, &mut Critical::new());
            let fsm = learned.fsm(encoding.clone(), mini_batches[0].kinds());
            let counts = counts(Scheduler::by(Box::new(fsm)), &mini_batches);
            assert_eq!(counts[1..], [0; 9], "{encoding}");
        }
    }
}
