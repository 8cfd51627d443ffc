//! What a mini-batch costs in exact numbers, on fixed inputs: a plan that launches more, reads or
//! writes more, or a run that allocates more, fails here. Times never do.
//!
//! A change that saves something fails too: write its figures into the table, so that they stay.

use std::sync::Arc;

use edbatch_benches::families::FAMILIES;
use edbatch_benches::sets::Source;
use edbatch_benches::systems::System;
use edbatch_benches::throughput::weights;
use edbatch_benches::workload::{MiniBatch, Part, Workload};
use edbatch_graph::Schedule;
use edbatch_layout::{CellStyle, Plan, Planner, Program, Want};
use edbatch_policy::{Encoding, Fsm, Scheduler};
use edbatch_runtime::{Backend, Count, KernelCounts};
use edbatch_testing::{CountingAllocator, allocations};

#[global_allocator]
static COUNTING: CountingAllocator = CountingAllocator;

const MINI_BATCH: MiniBatch = MiniBatch { first: 0, size: 8 };
const HIDDEN: usize = 16;

/// By workload: nodes, batches, kernels, operands read through lists, bytes read through them,
/// bytes written, allocations of a warm mini-batch.
const EXPECTED: [[u64; 7]; FAMILIES.len()] = [
    [476, 14, 52, 25, 72_960, 51_928, 21],
    [476, 20, 76, 32, 72_576, 51_928, 21],
    [476, 14, 78, 26, 58_688, 36_696, 21],
    [476, 14, 64, 25, 391_680, 263_704, 21],
    [925, 153, 318, 90, 149_184, 263_684, 29],
    [2030, 187, 405, 104, 151_744, 371_268, 167],
    [365, 121, 377, 129, 72_448, 1_833_920, 27],
    [365, 121, 377, 129, 72_448, 190_976, 27],
    [839, 154, 618, 309, 326_592, 188_208, 37],
    [1091, 120, 482, 241, 369_152, 220_444, 38],
    [839, 154, 770, 309, 208_512, 130_608, 37],
    [1091, 120, 600, 241, 237_888, 153_500, 38],
];

#[test]
fn a_mini_batch_costs_what_it_cost_before() {
    let costs = FAMILIES.map(|(_, meet)| {
        let workload = meet(&Source::Generated).unwrap().at(HIDDEN).unwrap();
        let (nodes, counts) = planned(&*workload);
        let KernelCounts { batches, kernels, gathers, gathered_bytes, written_bytes, .. } = counts;
        [nodes, batches, kernels, gathers, gathered_bytes, written_bytes, warm(&*workload)]
    });
    let names = FAMILIES.map(|(model, _)| model);
    for ((model, cost), expected) in names.iter().zip(costs).zip(EXPECTED) {
        assert_eq!(cost, expected, "{model}; all: {costs:?}");
    }
}

/// The nodes of a mini-batch, and what a device would be asked to do.
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
        (0..plan.steps.len()).for_each(|step| count.step(&plan, step).unwrap());
    }
    (nodes, count.counts())
}

/// What our own system allocates for a mini-batch that it has run before.
fn warm(workload: &dyn Workload) -> u64 {
    let unlearned = Fsm::new(Encoding::Sort, workload.network().cells().len());
    let contestant =
        workload.contestant(System::Edbatch, &weights(workload), &unlearned, &[MINI_BATCH], 1);
    let mut contestant = contestant.unwrap();
    for _ in 0..3 {
        contestant.run(0).unwrap();
    }
    allocations(|| contestant.run(0).unwrap().len()) as u64
}
