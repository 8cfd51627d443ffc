//! Planning allocates nothing once its memory has seen the largest mini-batch.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use edbatch_layout::{Capacity, MiniBatch, Plan, Planner};

#[path = "../benches/plan/graphs.rs"]
mod graphs;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

/// The system's allocator, and a count of what the thread asked it for.
struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

// SAFETY: every request is passed on to `System`, as it is.
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
}

/// What it allocates to plan all graphs of a workload.
fn allocations(
    workload: &graphs::Workload,
    capacity: Capacity,
    planner: &mut Planner,
    plan: &mut Plan,
) -> usize {
    let before = ALLOCATIONS.get();
    for (graph, schedule, wanted) in &workload.graphs {
        let mini_batch = MiniBatch { program: &workload.program, graph, schedule, wanted };
        planner.plan(&mini_batch, capacity, plan).expect("small graphs");
        assert!(planner.refill(&mini_batch, plan), "the rows are the same");
    }
    ALLOCATIONS.get() - before
}

#[test]
fn planning_what_was_planned_before_allocates_nothing() {
    for instances in [1, 8, 64] {
        for workload in graphs::workloads(instances) {
            for capacity in [Capacity::Distinct, Capacity::Any] {
                let (mut planner, mut plan) = (Planner::default(), Plan::default());
                let first = allocations(&workload, capacity, &mut planner, &mut plan);
                assert!(first > 0, "the first time it allocates, and the count sees it");
                let second = allocations(&workload, capacity, &mut planner, &mut plan);
                assert_eq!(second, 0, "{} × {instances}, {capacity:?}", workload.name);
            }
        }
    }
}

#[test]
fn a_smaller_mini_batch_allocates_nothing_after_a_larger_one() {
    for (larger, smaller) in graphs::workloads(64).iter().zip(&graphs::workloads(8)) {
        let (mut planner, mut plan) = (Planner::default(), Plan::default());
        allocations(larger, Capacity::Distinct, &mut planner, &mut plan);
        let after = allocations(smaller, Capacity::Distinct, &mut planner, &mut plan);
        assert_eq!(after, 0, "{}", larger.name);
    }
}
