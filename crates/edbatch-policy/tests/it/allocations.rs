//! Scheduling allocates nothing once its memory has seen the largest mini-batch.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use edbatch_graph::{PlainDag, Schedule};
use edbatch_policy::{Critical, Frontier, Fsm, Named, Policy, distill, schedule_into};

use crate::support::{lattices, trees};

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

/// Schedules a large mini-batch, then smaller ones and the large one again.
fn check(name: &str, policy: &mut dyn Policy, large: &PlainDag, others: &[PlainDag]) {
    let (mut frontier, mut schedule) = (Frontier::default(), Schedule::new());
    let mut run =
        |dag: &PlainDag| allocations(|| schedule_into(dag, policy, &mut frontier, &mut schedule));
    assert!(run(large) > 0, "{name}: the first time");
    for dag in others.iter().chain([large]) {
        assert_eq!(run(dag), 0, "{name}");
    }
}

#[test]
fn nothing_is_allocated_once_warm() {
    for make in [trees as fn(u64, usize) -> PlainDag, lattices] {
        let large = make(1, 64);
        let others: Vec<_> = (2..10).map(|seed| make(seed, 8)).collect();
        check("critical", &mut Critical::new(), &large, &others);
        let kinds = edbatch_graph::Dag::kinds(&large);
        // One that knows every state that it meets, and one that knows none and so falls to
        // `Critical` all the time.
        let dags: Vec<_> = others.iter().chain([&large]).collect();
        let learned = distill(&dags, &dags, &Named::Sort, &mut Critical::new());
        let mut fsm = learned.fsm(Named::Sort, kinds);
        check("fsm", &mut fsm, &large, &others);
        assert_eq!(fsm.unseen(), 0);
        check("empty fsm", &mut Fsm::new(Named::Sort, kinds), &large, &others);
    }
}
