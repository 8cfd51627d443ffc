//! Waves and phases of plans of gradients.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use edbatch_graph::{Dag, Network, NodeId, training_network};
use edbatch_layout::{
    Lifetimes, MiniBatch, Plan, Planner, Program, TrainingPlan, ValueRow, Want, check_training,
};
use edbatch_runtime::kernels::Level;
use edbatch_runtime::{Backend, Cpu, Given, Part, Precision, Rows};
use edbatch_testing::Subject;
use edbatch_testing::networks::Random;
use edbatch_zoo::Stop;
use rand::{RngExt, SeedableRng};

use super::levels::{Emitting, graphs};
use super::{assert_same_bits, compiled_or_skip, levels};
use crate::backend::Cuda;
use crate::command_list::CommandList;
use crate::device::{Device, Source};
use crate::emulated::Emulated;
use crate::loaded::{CompiledKernels, Generated};
use crate::phase_table::Way;
use crate::{CudaError, CudaOptions, Driver, check_phases, check_training_waves, phases, waves};

/// The graphs of the nine models, and of random networks, whose loss depends on some of the values.
pub(super) fn subjects() -> impl Iterator<Item = (String, Emitting)> {
    let nine = graphs(16, Stop::Forced([0; 5].into())).unwrap();
    let nine = nine.into_iter().map(|(name, of)| (name.to_owned(), of));
    let random = (0..48).map(|seed| {
        let graph = Subject::random(seed).graph;
        let mut rng = Random::seed_from_u64(seed);
        let nodes = (0..graph.nodes()).filter(|_| rng.random_bool(0.3));
        let emitted = nodes.map(|node| NodeId::new(node).into()).collect();
        (format!("random network {seed}"), (graph, emitted))
    });
    nine.chain(random)
}

pub(super) fn for_training(network: &Network) -> Program {
    let training = training_network(network, |_| true, |_| true).unwrap();
    Program::for_training(Arc::new(training)).unwrap()
}

/// Returns a plan of the gradients of all emitted values, with batches by depth, and the waves of
/// both ways. The plan is legal, and no step can be in an earlier wave.
pub(super) fn planned(
    program: &Program,
    (graph, emitted): &Emitting,
) -> (TrainingPlan, [Vec<u32>; 2]) {
    let (network, mut rng) = (graph.network().clone(), Random::seed_from_u64(1));
    let Subject { graph, schedule, .. } = &Subject::of(network, graph.clone(), &mut rng);
    let wanted: Vec<_> = emitted.iter().map(|&value| (value, Want::Elements)).collect();
    let mini_batch = MiniBatch { program, graph, schedule, wanted: &wanted };
    let mut plan = TrainingPlan::default();
    let has_gradient = vec![true; wanted.len()];
    let mut planner = Planner::new(Lifetimes::Distinct);
    planner.plan_training(&mini_batch, &has_gradient, &mut plan).unwrap();
    check_training(&plan, &mini_batch, &has_gradient).unwrap();
    let of = [&plan.forward, &plan.back].map(|plan| waves(program, plan));
    check_training_waves(&plan, [&of[0], &of[1]], &mini_batch).unwrap();
    for (way, first) in [0, plan.forward.steps.len()].into_iter().enumerate() {
        for step in (0..of[way].len()).filter(|&step| of[way][step] > 0) {
            let mut earlier = of.clone();
            earlier[way][step] -= 1;
            let checked = check_training_waves(&plan, [&earlier[0], &earlier[1]], &mini_batch);
            let error = checked.expect_err("the step is before an operand");
            assert_eq!(error.step, first + step, "{error:?}");
        }
    }
    (plan, of)
}

/// Returns the number of waves in which a plan has steps, and the number of these waves if each
/// phase of its cells has one of its own.
fn counts(program: &Program, plan: &Plan, waves: &[u32]) -> [usize; 2] {
    let mut phases_of = BTreeMap::new();
    for (step, &wave) in plan.steps.iter().zip(waves) {
        let phases = phases(program.network(), program.carried_out(step)).len();
        let of_wave = phases_of.entry(wave).or_insert(0);
        *of_wave = phases.max(*of_wave);
    }
    [phases_of.len(), phases_of.values().sum()]
}

#[test]
fn waves_of_gradients_are_legal_and_as_early_as_possible() {
    let mut got = String::new();
    for (name, emitting) in subjects() {
        let program = for_training(emitting.0.network());
        let (TrainingPlan { forward, back, .. }, [of_forward, of_back]) =
            planned(&program, &emitting);
        if !name.starts_with("random") {
            let [steps, phases] = counts(&program, &forward, &of_forward);
            let [steps_back, phases_back] = counts(&program, &back, &of_back);
            let batches = forward.steps.iter().filter(|step| step.is_batch()).count();
            write!(got, "{name}: {batches} batches, {steps} waves, {steps_back} back").unwrap();
            writeln!(got, "; of phases {phases}, {phases_back} back").unwrap();
        }
    }
    assert_eq!(got, WAVES);
}

/// Exact counts of the graphs of eight inputs, and of one sentence of the translator.
const WAVES: &str = "\
tree_lstm: 18 batches, 19 waves, 18 back; of phases 19, 34 back
tree_lstm_2type: 28 batches, 19 waves, 18 back; of phases 19, 34 back
tree_gru: 18 batches, 19 waves, 18 back; of phases 36, 50 back
mv_rnn: 18 batches, 18 waves, 18 back; of phases 34, 82 back
bilstm_tagger: 513 batches, 131 waves, 130 back; of phases 132, 261 back
bilstm_tagger_char: 547 batches, 141 waves, 140 back; of phases 142, 281 back
lstm_nmt: 17 batches, 18 waves, 17 back; of phases 19, 33 back
lattice_lstm: 138 batches, 76 waves, 75 back; of phases 76, 149 back
lattice_gru: 138 batches, 76 waves, 75 back; of phases 150, 223 back
";

/// Slopes and the sums of contributions are one phase, and products with their results the next
/// one. Each layer of an output, or each product in a row, adds one.
#[test]
fn an_adjoint_has_a_phase_for_each_product_in_a_row() {
    let mut got = String::new();
    for (name, (graph, _)) in graphs(16, Stop::Forced([0; 5].into())).unwrap() {
        let program = for_training(graph.network());
        write!(got, "{name}:").unwrap();
        for cell in program.cells() {
            let phases = phases(program.network(), cell);
            check_phases(cell, &phases).unwrap();
            if cell.name.contains("adjoint") {
                write!(got, " {} {},", cell.name, phases.len()).unwrap();
            }
        }
        got += "\n";
    }
    assert_eq!(got.replace(" (adjoint)", "").replace("row adjoint of ", ""), PHASES);
}

const PHASES: &str = "\
tree_lstm: leaf 1, leaf (token) 1, node 2, output 1,
tree_lstm_2type: leaf 1, leaf (token) 1, node0 2, node1 2, output 1,
tree_gru: leaf 1, leaf (token) 2, node 3, output 1,
mv_rnn: leaf 1, node 5, output 1,
bilstm_tagger: fwd.0 2, fwd.0 (token) 1, fwd.1 2, bwd.0 2, bwd.0 (token) 1, bwd.1 2, output 3,
bilstm_tagger_char: embed 1, cfwd.0 2, cfwd.0 (token) 1, cfwd.1 2, cbwd.0 2, cbwd.0 (token) 1, \
cbwd.1 2, spell 2, fwd.0 2, fwd.1 2, bwd.0 2, bwd.1 2, output 3,
lstm_nmt: encoder 2, encoder (word) 2, decoder 2, decoder (word) 2, output 1,
lattice_lstm: char 2, char (char) 1, word 2, word (word) 1, output 1,
lattice_gru: char 3, char (char) 1, word 3, word (word) 1, output 1,
";

/// Returns the kernels of both passes of a program for training.
fn sources(program: &Program) -> [Source; 2] {
    [Way::Forward, Way::Back].map(|way| {
        let options = CudaOptions::new();
        let source = Generated::of(program, way, &options, None, "sm_90").source;
        let names: Vec<&str> = source.text.lines().filter(|line| line.starts_with("// ")).collect();
        let has_its_cells = names.iter().all(|name| name.contains("adjoint") == (way == Way::Back));
        assert!(has_its_cells && !names.is_empty(), "{names:?}");
        source
    })
}

/// The bounds of forward kernels hold for the kernels of adjoints.
#[test]
fn kernels_of_adjoints_compile_for_hopper() {
    for (name, (graph, _)) in graphs(256, Stop::AtEnd).unwrap() {
        // The ones with the most tiles.
        let is_edge = ["bilstm_tagger_char", "lattice_gru"].contains(&name);
        if !is_edge && !edbatch_testing::all_cases() {
            continue;
        }
        let [_, back] = sources(&for_training(graph.network()));
        let compiled = CompiledKernels::of(&back, "sm_90", None);
        let Some(kernels) = compiled_or_skip(compiled) else { return };
        let usage = kernels.usage.expect("the log contains it");
        println!("{name}: {usage}; {} lines, {} bytes", kernels.longest_function, kernels.bytes);
        assert_eq!(usage.spilled, 0, "{name}");
        assert!(usage.registers <= 255 && usage.stack <= 128, "{name}: {usage}");
        assert!((100..=30_000).contains(&kernels.longest_function), "{name}");
        assert!(kernels.bytes <= 1 << 20, "{name}: {} bytes", kernels.bytes);
    }
}

/// Random networks have operations that no model of the zoo has, such as attention.
#[test]
fn kernels_of_random_adjoints_compile_for_the_host() {
    let seeds = if edbatch_testing::all_cases() { 30 } else { 3 };
    for seed in 0..seeds {
        let program = for_training(&Subject::random(seed).network);
        for source in sources(&program) {
            if compiled_or_skip(Emulated::new(1).compile(&source, None)).is_none() {
                return;
            }
        }
    }
}

/// The rows that steps of a plan write. Of forward cells these are whole rows, with what is saved.
fn written<'a>(program: &'a Program, plan: &'a Plan) -> impl Iterator<Item = ValueRow> + 'a {
    plan.steps.iter().filter(|step| step.is_batch()).flat_map(move |step| {
        let record = program.network()[step.cell].row();
        let stride = program.carried_out(step).output_stride;
        (0..step.calls).map(move |call| ValueRow { record, start: step.out + call * stride })
    })
}

/// Runs a plan and returns the elements of its wanted values, field by field.
fn run(backend: &mut dyn Backend, plan: &Plan, host: &[f32]) -> Vec<f32> {
    let given = Given { initial: &Rows::new(), places: &[], host };
    backend.run(&[Part { slot: 0, plan, given }]).unwrap();
    let outputs = backend.outputs(0, plan);
    let fields = (0..plan.wanted.len()).flat_map(|value| outputs.fields(value));
    fields.flatten().copied().collect()
}

/// The CPU runs forward. Then it and the device run the same backward plan, over the same rows.
/// Returns the numbers of phases with unit tiles, of waves that have unit tiles alone, and of all
/// waves; or `None` without a compiler.
fn check_back(
    level: Level,
    seed: u32,
    (name, emitting): &(String, Emitting),
) -> Option<[usize; 3]> {
    let program = Arc::new(for_training(emitting.0.network()));
    let (TrainingPlan { mut forward, back, .. }, _) = planned(&program, emitting);
    let (network, mut rng) = (emitting.0.network().clone(), Random::seed_from_u64(seed.into()));
    let parameters = Subject::of(network, emitting.0.clone(), &mut rng).parameters;
    let mut numbers = |rows: &[ValueRow]| -> Vec<f32> {
        let widths = rows.iter().flat_map(|row| &program.record(row.record).widths);
        (0..widths.sum()).map(|_| rng.random_range(-1.0..1.0)).collect()
    };
    let (given, outputs) = (numbers(&forward.given), numbers(&back.given));
    let mut cpu = Cpu::new(program.clone(), &parameters, level, Precision::F32).unwrap();
    forward.wanted = written(&program, &forward).map(|row| (row, Want::Elements)).collect();
    let host = [&given[..], &run(&mut cpu, &forward, &given), &outputs].concat();
    let before = forward.wanted.iter().map(|&(row, _)| row);
    let mut all = Plan {
        given: forward.given.iter().copied().chain(before).collect(),
        wanted: written(&program, &back).map(|row| (row, Want::Elements)).collect(),
        ..back.clone()
    };
    all.given.extend(&back.given);
    let expected = run(&mut cpu, &all, &host);
    let driver = [Driver::Teams, Driver::Barriers][seed as usize % 2];
    let (options, of) = (CudaOptions::new().driver(driver), (program.clone(), Way::Back));
    let loaded = Cuda::of_way(Arc::new(Emulated::new(seed + 1)), of, &parameters, &options);
    let lacks = |error: &_| matches!(CudaError::of(error), Some(CudaError::NoCompiler { .. }));
    let mut cuda = edbatch_testing::or_skip(loaded, lacks)?;
    // Each launch has a different order of threads, blocks and jobs.
    for _ in 0..2 {
        let got = run(&mut cuda, &all, &host);
        assert_same_bits(&got, &expected, || format!("{name} at {level}"));
    }
    let placed = cuda.loaded.placed();
    let mut commands = CommandList::default();
    commands.write(&program, &placed.table, &back, (0, &[])).unwrap();
    let waves = commands.waves();
    let tiles_only = (0..waves).filter(|&wave| commands.has_tiles_only(wave)).count();
    Some([placed.placement.places.iter().flatten().count(), tiles_only, waves])
}

#[test]
fn rows_of_adjoints_have_the_bits_of_the_cpu() {
    let Some(&level) = levels().first() else { return };
    let most = if edbatch_testing::all_cases() { 48 } else { 4 };
    let random = subjects().filter(|(name, _)| name.starts_with("random"));
    for (seed, subject) in (0..).zip(random.take(most)) {
        if check_back(level, seed, &subject).is_none() {
            return;
        }
    }
}

/// Products of a state's gradient run as unit tiles, and so do the other phases of their cells. The
/// tiles wait for rows of each other, or blocks meet at barriers.
#[test]
fn unit_tiles_of_adjoints_have_the_bits_of_the_cpu() {
    let Some(&level) = levels().first() else { return };
    let mut got = String::new();
    for (seed, (name, emitting)) in (0..).zip(graphs(64, Stop::Forced([0; 5].into())).unwrap()) {
        let Some([tiles, of_tiles, waves]) = check_back(level, seed, &(name.into(), emitting))
        else {
            return;
        };
        write!(got, "{name}: {tiles}, {of_tiles} of {waves} waves; ").unwrap();
    }
    let expected = "tree_lstm: 2, 32 of 35 waves; tree_lstm_2type: 4, 32 of 35 waves; \
                    tree_gru: 3, 48 of 51 waves; mv_rnn: 0, 0 of 83 waves; \
                    bilstm_tagger: 7, 2 of 262 waves; bilstm_tagger_char: 7, 2 of 282 waves; \
                    lstm_nmt: 4, 32 of 34 waves; lattice_lstm: 4, 148 of 150 waves; \
                    lattice_gru: 6, 222 of 224 waves; ";
    assert_eq!(got, expected);
}
