//! Planning allocates nothing after the largest mini-batch.

use edbatch_layout::{MiniBatch, Plan, Planner};
use edbatch_testing::{CountingAllocator, allocations};

#[path = "../benches/plan/graphs.rs"]
mod graphs;

#[global_allocator]
static COUNTING: CountingAllocator = CountingAllocator;

/// Plans all graphs of a workload.
fn plan(workload: &graphs::Workload, planner: &mut Planner, plan: &mut Plan) {
    for (graph, schedule, wanted) in &workload.graphs {
        let mini_batch = MiniBatch { program: &workload.program, graph, schedule, wanted };
        planner.plan(&mini_batch, plan).expect("small graphs");
    }
}

#[test]
fn planning_again_allocates_nothing() {
    for instances in [1, 8, 64] {
        for workload in graphs::workloads(instances) {
            let (mut planner, mut made) = (Planner::default(), Plan::default());
            let mut again = || allocations(|| plan(&workload, &mut planner, &mut made));
            assert!(again() > 0, "the first time allocates");
            assert_eq!(again(), 0, "{} × {instances}", workload.name);
        }
    }
}

#[test]
fn a_smaller_mini_batch_allocates_nothing_after_a_larger_one() {
    for (larger, smaller) in graphs::workloads(64).iter().zip(&graphs::workloads(8)) {
        let (mut planner, mut made) = (Planner::default(), Plan::default());
        plan(larger, &mut planner, &mut made);
        let after = allocations(|| plan(smaller, &mut planner, &mut made));
        assert_eq!(after, 0, "{}", larger.name);
    }
}
