//! Exact costs of a mini-batch on fixed inputs: kernels, bytes read and written, allocations. Times
//! are not tested.
//!
//! A change that reduces a cost fails too; then write the new figures into the table.

use std::sync::Arc;

use edbatch_benches::measure::families::FAMILIES;
use edbatch_benches::measure::sets::Source;
use edbatch_benches::measure::systems::weights;
use edbatch_benches::measure::systems::{Setup, System};
use edbatch_benches::measure::workload::{MiniBatch, Part, Workload};
use edbatch_graph::Schedule;
use edbatch_layout::{CellStyle, Plan, Planner, Program, Want};
use edbatch_policy::{Encoding, Fsm, Scheduler};
use edbatch_runtime::{Count, KernelCounts};
use edbatch_testing::{CountingAllocator, allocations};

#[global_allocator]
static COUNTING: CountingAllocator = CountingAllocator;

const MINI_BATCH: MiniBatch = MiniBatch { first: 0, size: 8 };
const HIDDEN: usize = 16;

/// By workload: nodes, batches, kernels, operands read through lists, bytes read through them,
/// bytes written, allocations of a warm mini-batch.
const EXPECTED: [[u64; 7]; FAMILIES.len()] = [
    [476, 14, 52, 25, 72_960, 51_928, 16],
    [476, 20, 76, 32, 72_576, 51_928, 16],
    [476, 14, 78, 26, 58_688, 36_696, 16],
    [476, 14, 64, 25, 391_680, 263_704, 16],
    [925, 153, 318, 90, 149_184, 263_684, 24],
    [2030, 187, 405, 104, 151_744, 371_268, 162],
    [365, 121, 377, 129, 72_448, 1_833_920, 36],
    [365, 121, 377, 129, 72_448, 190_976, 36],
    [839, 154, 618, 309, 326_592, 188_208, 33],
    [1091, 120, 482, 241, 369_152, 220_444, 33],
    [839, 154, 770, 309, 208_512, 130_608, 33],
    [1091, 120, 600, 241, 237_888, 153_500, 33],
];

#[test]
fn costs_of_a_mini_batch_are_unchanged() {
    let costs = FAMILIES.map(|(_, with_set)| {
        let workload = with_set(&Source::Generated).unwrap().at(HIDDEN).unwrap();
        let (nodes, counts) = planned(&*workload);
        let KernelCounts { batches, kernels, gathers, gathered_bytes, written_bytes, .. } = counts;
        [nodes, batches, kernels, gathers, gathered_bytes, written_bytes, warm(&*workload)]
    });
    let names = FAMILIES.map(|(model, _)| model);
    for ((model, cost), expected) in names.iter().zip(costs).zip(EXPECTED) {
        assert_eq!(cost, expected, "{model}; all: {costs:?}");
    }
}

/// Returns the nodes of a mini-batch, and the counts of its kernels.
fn planned(workload: &dyn Workload) -> (u64, KernelCounts) {
    let program = Program::new(workload.network().clone(), CellStyle::default()).unwrap();
    let mut count = Count::new(Arc::new(program.clone()));
    let (mut scheduler, mut schedule) = (Scheduler::default(), Schedule::new());
    let (mut planner, mut plan, mut nodes) = (Planner::default(), Plan::default(), 0);
    for unrolled in workload.unroll(Part::Test, MINI_BATCH) {
        let graph = &unrolled.graph;
        nodes += edbatch_graph::Dag::nodes(graph) as u64;
        scheduler.schedule(graph, &mut schedule);
        let wanted: Vec<_> =
            unrolled.wanted.into_iter().map(|value| (value, Want::Elements)).collect();
        let schedule = &schedule;
        let planned =
            edbatch_layout::MiniBatch { program: &program, graph, schedule, wanted: &wanted };
        planner.plan(&planned, &mut plan).unwrap();
        (0..plan.steps.len()).for_each(|step| count.step(&plan, step));
    }
    (nodes, count.counts())
}

/// Returns the allocations of our system for a mini-batch that it has run before.
fn warm(workload: &dyn Workload) -> u64 {
    let unlearned = Fsm::new(Encoding::Sort, workload.network().cells().len());
    let setup = Setup::new(System::Edbatch, &unlearned, 1);
    let parameters = weights(workload.network());
    let mut contestant = workload.contestant(&setup, &parameters, &[MINI_BATCH]).unwrap();
    for _ in 0..3 {
        contestant.run(0).unwrap();
    }
    allocations(|| contestant.run(0).unwrap().len()) as u64
}
