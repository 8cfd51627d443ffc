//! Waves, phases and command lists of plans, without a device.

use std::sync::Arc;

use edbatch_cuda::{
    CommandList, CudaError, Phase, PhaseTable, check_phases, check_waves, phases, waves,
};
use edbatch_graph::{
    Dag, Graph, Kind, Network, NodeId, Schedule, Shape, Source, Value, training_network,
};
use edbatch_layout::{CellPart, CellStyle, Lifetimes, MiniBatch, Plan, Planner, Program, Want};
use edbatch_testing::networks::Random;
use edbatch_testing::{STYLES, Subject, every_value, planned};
use rand::SeedableRng;
use rand::seq::SliceRandom;

/// Random networks in all styles, also with all tables folded, and with adjoints.
fn programs(subject: &Subject) -> impl Iterator<Item = Program> {
    let ways = STYLES.map(|style| (style, 0)).into_iter().chain([(CellStyle::Hoisted, u64::MAX)]);
    let training = training_network(&subject.network, |_| true, |_| true).unwrap();
    let training = Program::for_training(Arc::new(training)).unwrap();
    let programs = ways.map(|(style, folded)| {
        Program::new(subject.network.clone(), style).unwrap().fold_tables(folded)
    });
    programs.chain([training])
}

#[test]
fn waves_of_random_networks_are_legal_and_as_early_as_possible() {
    for seed in 0..48 {
        let mut subject = Subject::random(seed);
        // Batches may list their nodes in any order.
        let mut rng = Random::seed_from_u64(seed);
        let batches = 0..subject.schedule.len();
        batches.for_each(|batch| subject.schedule.nodes_mut(batch).shuffle(&mut rng));
        let Subject { graph, schedule, .. } = &subject;
        let wanted = every_value(graph);
        for program in programs(&subject) {
            let mini_batch = MiniBatch { program: &program, graph, schedule, wanted: &wanted };
            check_earliest_waves(&mini_batch);
        }
    }
}

fn check_earliest_waves(mini_batch: &MiniBatch<'_>) {
    let &MiniBatch { program, graph, schedule, .. } = mini_batch;
    let plan = planned(&mut Planner::new(Lifetimes::Distinct), mini_batch);
    let waves = waves(program, &plan);
    check_waves(&plan, &waves, mini_batch).unwrap();
    let prologues: Vec<Kind> =
        plan.steps.iter().filter(|step| !step.is_batch()).map(|step| step.cell).collect();
    let mut wave_of = vec![0; graph.nodes()];
    let mut expected = Vec::new();
    for batch in schedule.batches() {
        let before = batch.nodes.iter().flat_map(|&node| graph.values(node));
        let readable = |value: Value| match value.source() {
            Source::Node(node) => wave_of[node.index()] + 1,
            Source::Given(_) => 1,
        };
        let wave = before.map(readable).max().unwrap_or(0);
        let wave = wave.max(u32::from(prologues.contains(&batch.kind)));
        batch.nodes.iter().for_each(|node| wave_of[node.index()] = wave);
        expected.push(wave);
    }
    let got = plan.steps.iter().zip(&waves).filter(|(step, _)| step.is_batch());
    assert_eq!(got.map(|(_, &wave)| wave).collect::<Vec<_>>(), expected);
    for step in 0..plan.steps.len() {
        let mut earlier = waves.clone();
        if earlier[step] > 0 {
            earlier[step] -= 1;
            check_waves(&plan, &earlier, mini_batch).expect_err("the step is before an operand");
        }
    }
}

/// The phases of each cell are legal, and no two neighbours can be joined.
#[test]
fn phases_of_random_networks_are_legal_and_as_long_as_possible() {
    for seed in 0..96 {
        let subject = Subject::random(seed);
        for program in programs(&subject) {
            for kind in (0..program.cells().len()).map(Kind::new) {
                for part in [CellPart::Whole, CellPart::Prologue, CellPart::Body] {
                    let Some(cell) = program.part(kind, part) else { continue };
                    let phases = phases(program.network(), cell);
                    check_phases(cell, &phases).unwrap();
                    for first in 1..phases.len() {
                        let pair = &phases[first - 1..=first];
                        let steps = pair[0].steps.start..pair[1].steps.end;
                        let units = [&pair[0].units[..], &pair[1].units].concat();
                        let joined = Phase { steps, units };
                        let all = [&phases[..first - 1], &[joined], &phases[first + 1..]].concat();
                        check_phases(cell, &all).expect_err("units that depend on each other");
                    }
                }
            }
        }
    }
}

/// The largest number of elements that a command list can have.
const MAX: u64 = u32::MAX as u64;

/// Plans calls of a cell, in batches of 64.
fn plan_calls(program: &Program, calls: u64, wanted: &[(Value, Want)]) -> Plan {
    let mut graph = Graph::new(program.network().clone());
    (0..calls).for_each(|_| _ = graph.call(Kind(0), &[], &[]).unwrap());
    let mut schedule = Schedule::new();
    let nodes: Vec<NodeId> = (0..graph.nodes()).map(NodeId::new).collect();
    nodes.chunks(64).for_each(|nodes| schedule.push(Kind(0), nodes));
    let (graph, schedule) = (&graph, &schedule);
    let mut plan = Plan::default();
    let mini_batch = MiniBatch { program, graph, schedule, wanted };
    let planned = Planner::new(Lifetimes::Distinct).plan(&mini_batch, &mut plan);
    planned.expect("the arena is small enough");
    plan
}

#[test]
fn results_have_fewer_than_two_to_the_32_elements() {
    let mut network = Network::new();
    let shape = Shape::Vector(1 << 28);
    let record = network.record("large", [("x", shape)]).unwrap();
    network.cell("large", record, |cell| vec![cell.constant(0.5, shape)]).unwrap();
    let program = Program::new(Arc::new(network), CellStyle::default()).unwrap();
    let write = |values: usize| {
        let wanted = vec![(NodeId(0).into(), Want::Elements); values];
        let plan = plan_calls(&program, 1, &wanted);
        let mut commands = CommandList::default();
        let written = commands.write(&program, &PhaseTable::new(&program), &plan, (0, &[]));
        written.map(|()| commands.outputs() as u64)
    };
    assert_eq!(write(15), Ok(15 << 28));
    let error = write(16).unwrap_err();
    assert_eq!(error, CudaError::TooLarge { what: "results", elements: MAX + 1 });
    assert_eq!(
        error.to_string(),
        "the mini-batch has 4294967296 elements of results, expected fewer than 2^32: make \
         mini-batches smaller"
    );
}

#[test]
fn values_and_scratch_have_fewer_than_two_to_the_32_elements() {
    let mut network = Network::new();
    let shape = Shape::Vector(1 << 26);
    let record = network.record("scores", [("y", shape)]).unwrap();
    let cell = network.cell("scores", record, |cell| {
        vec![cell.constant(0.5, shape).tanh().softmax().log_softmax()]
    });
    let cell = cell.unwrap();
    let program = Program::new(Arc::new(network), CellStyle::default()).unwrap();
    let scratch: u64 = program.cell(cell).regions.iter().map(|&width| u64::from(width)).sum();
    assert!(scratch > 0, "the cell needs scratch");
    let call = scratch + u64::from(program.record(record).stride);
    let (most, table) = (MAX / call, PhaseTable::new(&program));
    for (calls, fits) in [(most, true), (most + 1, false)] {
        let plan = plan_calls(&program, calls, &[]);
        let mut commands = CommandList::default();
        let written = commands.write(&program, &table, &plan, (0, &[]));
        let elements = call * calls;
        match fits {
            true => assert_eq!((written, commands.arena() as u64), (Ok(()), elements)),
            false => {
                let what = "values and scratch";
                assert_eq!(written, Err(CudaError::TooLarge { what, elements }));
            }
        }
    }
}
