//! Planning allocates nothing after the largest mini-batch.

use edbatch_layout::{Capacity, MiniBatch, Plan, Planner};
use edbatch_testing::{CountingAllocator, allocations};

#[path = "../benches/plan/graphs.rs"]
mod graphs;

#[global_allocator]
static COUNTING: CountingAllocator = CountingAllocator;

/// Plans all graphs of a workload, and refills each plan.
fn plan(workload: &graphs::Workload, capacity: Capacity, planner: &mut Planner, plan: &mut Plan) {
    for (graph, schedule, wanted) in &workload.graphs {
        let mini_batch = MiniBatch { program: &workload.program, graph, schedule, wanted };
        planner.plan(&mini_batch, capacity, plan).expect("small graphs");
        assert!(planner.refill(&mini_batch, plan), "the rows are the same");
    }
}

#[test]
fn planning_again_allocates_nothing() {
    for instances in [1, 8, 64] {
        for workload in graphs::workloads(instances) {
            for capacity in [Capacity::Distinct, Capacity::Any] {
                let (mut planner, mut made) = (Planner::default(), Plan::default());
                let mut again =
                    || allocations(|| plan(&workload, capacity, &mut planner, &mut made));
                assert!(again() > 0, "the first time allocates");
                assert_eq!(again(), 0, "{} × {instances}, {capacity:?}", workload.name);
            }
        }
    }
}

#[test]
fn a_smaller_mini_batch_allocates_nothing_after_a_larger_one() {
    for (larger, smaller) in graphs::workloads(64).iter().zip(&graphs::workloads(8)) {
        let (mut planner, mut made) = (Planner::default(), Plan::default());
        plan(larger, Capacity::Distinct, &mut planner, &mut made);
        let after = allocations(|| plan(smaller, Capacity::Distinct, &mut planner, &mut made));
        assert_eq!(after, 0, "{}", larger.name);
    }
}

#[test]
fn clone_from_reuses_memory() {
    for workload in graphs::workloads(8) {
        let (mut made, mut copy) = (Plan::default(), Plan::default());
        plan(&workload, Capacity::Distinct, &mut Planner::default(), &mut made);
        assert!(allocations(|| copy.clone_from(&made)) > 0);
        assert_eq!(allocations(|| copy.clone_from(&made)), 0);
        assert_eq!(copy, made, "{}", workload.name);
    }
}
