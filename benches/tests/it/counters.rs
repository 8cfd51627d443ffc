//! Exact costs of a mini-batch on fixed inputs: kernels, bytes, allocations. No times.
//!
//! A change that reduces a cost fails too; then write the new figures into the table.

use edbatch_benches::measure::families::FAMILIES;
use edbatch_benches::measure::policies::TrainingGraphs;
use edbatch_benches::measure::sets::Source;
use edbatch_benches::measure::systems::{Setup, System, weights};
use edbatch_benches::measure::workload::{MiniBatch, Part, Workload};
use edbatch_graph::Schedule;
use edbatch_layout::{CellStyle, Program};
use edbatch_policy::{Encoding, Fsm, Scheduler};
use edbatch_runtime::KernelCounts;
use edbatch_testing::{CountingAllocator, allocations};

#[global_allocator]
static COUNTING: CountingAllocator = CountingAllocator;

const MINI_BATCH: MiniBatch = MiniBatch { first: 0, size: 8 };
const HIDDEN: usize = 16;

/// System, index in `FAMILIES`, and costs: nodes, batches, kernels, operands read through lists,
/// bytes read through them, bytes moved by kernels that only copy, bytes written, and our
/// allocations for a warm mini-batch.
const EXPECTED: &[(System, usize, [u64; 8])] = &[
    (System::Edbatch, 0, [476, 14, 51, 25, 72_960, 0, 51_928, 16]),
    (System::Edbatch, 1, [476, 20, 75, 32, 72_576, 0, 51_928, 16]),
    (System::Edbatch, 2, [476, 14, 77, 26, 58_688, 0, 36_696, 16]),
    (System::Edbatch, 3, [476, 14, 63, 25, 391_680, 133_824, 263_704, 16]),
    (System::Edbatch, 4, [925, 153, 317, 90, 149_184, 23_680, 263_684, 24]),
    (System::Edbatch, 5, [2030, 187, 404, 104, 151_744, 35_520, 371_268, 162]),
    (System::Edbatch, 6, [365, 121, 333, 129, 72_448, 0, 1_833_920, 36]),
    (System::Edbatch, 7, [365, 121, 333, 129, 72_448, 0, 190_976, 36]),
    (System::Edbatch, 8, [839, 155, 618, 310, 293_760, 0, 188_208, 33]),
    (System::Edbatch, 9, [1091, 121, 483, 243, 329_472, 0, 220_444, 33]),
    (System::Edbatch, 10, [839, 155, 771, 310, 208_512, 0, 130_608, 33]),
    (System::Edbatch, 11, [1091, 121, 602, 243, 237_888, 0, 153_500, 33]),
    (System::Unbatched, 0, [476, 476, 944, 123, 7872, 0, 35_224, 0]),
    (System::VanillaDepth, 0, [5295, 290, 290, 133, 154_624, 7872, 317_936, 0]),
    (System::VanillaAgenda, 0, [5295, 403, 403, 211, 186_688, 7872, 317_936, 0]),
    (System::CellsDepth, 0, [476, 26, 359, 23, 36_416, 58_880, 35_224, 0]),
    (System::CellsAgenda, 0, [476, 20, 347, 26, 38_784, 58_880, 35_224, 0]),
    (System::Paper, 0, [476, 14, 345, 23, 36_416, 0, 35_224, 0]),
    (System::Unbatched, 7, [365, 365, 1309, 236, 15_104, 0, 162_304, 0]),
    (System::VanillaDepth, 7, [7102, 1672, 1672, 315, 176_768, 15_104, 702_208, 0]),
    (System::VanillaAgenda, 7, [7102, 1689, 1689, 378, 186_560, 15_104, 702_208, 0]),
    (System::CellsDepth, 7, [365, 135, 1698, 90, 18_944, 0, 162_304, 0]),
    (System::CellsAgenda, 7, [365, 133, 1843, 89, 18_944, 30_208, 162_304, 0]),
    (System::Paper, 7, [365, 122, 1102, 86, 20_352, 0, 162_304, 0]),
    (System::Unbatched, 10, [839, 839, 3730, 1352, 118_080, 0, 56_304, 0]),
    (System::VanillaDepth, 10, [11_384, 4801, 4956, 1292, 419_456, 63_040, 733_792, 0]),
    (System::VanillaAgenda, 10, [11_384, 3846, 3926, 1007, 419_840, 63_040, 733_792, 0]),
    (System::CellsDepth, 10, [839, 300, 4338, 491, 118_080, 131_328, 56_304, 0]),
    (System::CellsAgenda, 10, [839, 217, 3603, 381, 118_080, 131_328, 56_304, 0]),
    (System::Paper, 10, [839, 195, 2290, 350, 118_080, 0, 56_304, 0]),
];

#[test]
fn costs_of_a_mini_batch_are_unchanged() {
    let got = EXPECTED.iter().map(|&(system, number, _)| {
        let workload = workload(number);
        (system, number, costs(&*workload, system, &learned(&*workload, system)))
    });
    assert_eq!(got.collect::<Vec<_>>(), EXPECTED);
}

fn workload(number: usize) -> Box<dyn Workload> {
    (FAMILIES[number].1)(&Source::Generated).unwrap().at(HIDDEN).unwrap()
}

/// Returns the policy of the paper's system, or an empty one for other systems.
fn learned(workload: &dyn Workload, system: System) -> Fsm {
    match system {
        System::Paper => TrainingGraphs::new(workload, 8).learn(Encoding::Sort, |_| {}).policy,
        _ => Fsm::new(Encoding::Sort, workload.network().cells().len()),
    }
}

/// Returns the costs of a mini-batch, and the allocations of running it again.
fn costs(workload: &dyn Workload, system: System, learned: &Fsm) -> [u64; 8] {
    let setup = Setup::new(system, learned, 1);
    let parameters = weights(workload.network());
    let mut contestant = workload.contestant(&setup, &parameters, &[MINI_BATCH]).unwrap();
    for _ in 0..3 {
        contestant.run(0).unwrap();
    }
    let mut warm = allocations(|| contestant.run(0).unwrap().len()) as u64;
    let KernelCounts {
        batches, kernels, gathers, gathered_bytes, moved_bytes, written_bytes, ..
    } = contestant.work(0).counts;
    let nodes = contestant.work(0).nodes;
    if system.is_plain() {
        // Libraries may allocate once for a product; the backend allocates nothing for a kernel.
        assert!(2 * warm < 5 * kernels, "{system:?}: {warm} allocations, {kernels} kernels");
        warm = 0;
    }
    [nodes, batches, kernels, gathers, gathered_bytes, moved_bytes, written_bytes, warm]
}

#[test]
fn paper_schedules_by_its_fsm_and_lays_cells_out_by_algorithm_2() {
    let workload = workload(8);
    let fsm = learned(&*workload, System::Paper);
    let mut schedule = Schedule::new();
    let graphs = workload.unroll(Part::Test, MINI_BATCH);
    Scheduler::by(Box::new(fsm.clone())).schedule(&graphs[0].graph, &mut schedule);
    let batches = [System::Paper, System::CellsDepth, System::CellsAgenda, System::Unbatched]
        .map(|system| costs(&*workload, system, &fsm)[1]);
    assert_eq!(batches[0], schedule.len() as u64);
    assert!(batches[1..].iter().all(|&others| others > batches[0]), "{batches:?}");

    let network = workload.network();
    let schedules = edbatch::cell_schedules(network);
    let [planned, batched] = [CellStyle::Paper, CellStyle::Batched]
        .map(|style| Program::scheduled(network.clone(), style, &schedules).unwrap());
    let paper = format!("{:?}", System::Paper.program(network).unwrap().cells());
    assert_eq!(paper, format!("{:?}", planned.cells()));
    assert_ne!(paper, format!("{:?}", batched.cells()));
}
