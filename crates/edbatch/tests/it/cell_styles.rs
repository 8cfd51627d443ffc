//! Random cells in several styles, with the schedules of several policies: the plans are valid, and
//! the styles `Planned` and `Paper` copy at most as much as `Declaration`.

use std::sync::Arc;

use edbatch::{cell_schedules, cell_schedules_by};
use edbatch_graph::{Dag, Kind, Network, Value};
use edbatch_layout::{CellStyle, MiniBatch, Moved, Planner, Program, Step, check_cell};
use edbatch_policy::{Agenda, exhaustive, schedule};
use edbatch_runtime::Count;
use edbatch_testing::networks::{Random, random_graph, random_network};
use edbatch_testing::{cases, planned, policies};
use proptest::prelude::*;
use rand::SeedableRng;

/// Checks each cell of a program, and returns the memory that a call of it moves.
fn moved(program: &Program) -> Vec<Moved> {
    for (kind, plan) in program.cells().iter().enumerate() {
        check_cell(program, Kind::new(kind), plan).unwrap();
        let copied = program.copied(Kind::new(kind));
        let bytes = copied.iter().map(|copied| copied.bytes).sum();
        assert_eq!(plan.moved(1), Moved { bytes, kernels: copied.len() }, "{plan}");
    }
    program.cells().iter().map(|plan| plan.moved(1)).collect()
}

/// Checks that the planners copy at most as much as the style `Declaration`, and that no policy
/// finds a shorter schedule than `cell_schedules`.
fn never_worse(network: Network) {
    let network = Arc::new(network);
    let style = |style| moved(&Program::new(network.clone(), style).unwrap());
    let declared = style(CellStyle::Declaration);
    for (planned, declared) in style(CellStyle::Planned).iter().zip(&declared) {
        assert!(planned <= declared, "{planned:?}, {declared:?}");
    }
    let by_policies = policies().map(|(_, mut policy)| cell_schedules_by(&network, &mut policy));
    let best = cell_schedules(&network);
    for schedules in by_policies.iter().chain([&best]) {
        for (best, schedule) in best.iter().zip(schedules) {
            assert!(best.len() <= schedule.len());
        }
        let scheduled = |style| Program::scheduled(network.clone(), style, schedules).unwrap();
        let batched = moved(&scheduled(CellStyle::Batched));
        let paper = moved(&scheduled(CellStyle::Paper));
        for ((paper, batched), declared) in paper.iter().zip(&batched).zip(&declared) {
            assert!(paper <= batched, "{paper:?}, {batched:?}");
            assert!(paper <= declared, "{paper:?}, {declared:?}");
        }
    }
}

/// Checks that the backend `Count` reports the memory kernels and bytes of the plans.
fn counted(network: Network, initial: Value, rng: &mut Random) {
    let network = Arc::new(network);
    let graph = random_graph(&network, initial, rng);
    let schedule = schedule(&graph, &mut Agenda::new());
    for style in [CellStyle::Declaration, CellStyle::Batched, CellStyle::Paper, CellStyle::Planned]
    {
        let program = Arc::new(Program::new(network.clone(), style).unwrap());
        let mini_batch =
            MiniBatch { program: &program, graph: &graph, schedule: &schedule, wanted: &[] };
        let plan = planned(&mut Planner::default(), &mini_batch);
        let mut count = Count::new(program.clone());
        (0..plan.steps.len()).for_each(|step| count.step(&plan, step));
        let moved = |step: &Step| program.cell(step.cell).moved(step.calls.into());
        let moved: Moved = plan.steps.iter().map(moved).sum();
        let counts = count.counts();
        assert_eq!(
            (counts.memory_kernels, counts.moved_bytes),
            (moved.kernels as u64, moved.bytes)
        );
    }
}

#[test]
fn small_cells_have_shortest_schedules() {
    for name in edbatch_layout::PAPER_CELLS {
        let network = edbatch_layout::paper_cell(name, 8).unwrap().unwrap();
        let (dag, _) = network.cells()[0].dag();
        assert_eq!(cell_schedules(&network)[0].len(), exhaustive(&dag).len(), "{name}");
        assert!(schedule(&dag, &mut Agenda::new()).len() >= exhaustive(&dag).len());
        assert!(dag.nodes() > exhaustive(&dag).len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(64), ..ProptestConfig::default() })]

    #[test]
    fn no_planner_copies_more_than_the_declaration(seed: u64) {
        let mut rng = Random::seed_from_u64(seed);
        let (network, initial) = random_network(&mut rng);
        counted(network.clone(), initial, &mut rng);
        never_worse(network);
    }
}
