//! Random networks, graphs and schedules: batched execution agrees with the interpreter.

use std::sync::Arc;

use edbatch_graph::{Graph, Kind, Schedule};
use edbatch_layout::{
    CellStyle, Lifetimes, MiniBatch, Plan, Planner, Program, check_cell, check_folding,
};
use edbatch_policy::schedule;
use edbatch_runtime::kernels::Level;
use edbatch_runtime::{
    Backend, Count, Cpu, Given, Parameters, Part, Precision, ThreadPool, initial_rows,
    initial_values, interpret,
};
use edbatch_testing::networks::{Random, random_graph, random_network};
use edbatch_testing::{STYLES, cases, every_value, planned, policies};
use proptest::prelude::*;
use rand::SeedableRng;
use rand::seq::SliceRandom;

fn check_seed(seed: u64) {
    let mut rng = Random::seed_from_u64(seed);
    let (network, initial) = random_network(&mut rng);
    let network = Arc::new(network);
    let parameters = Parameters::random(&network, &mut rng);
    let graph = random_graph(&network, initial, &mut rng);
    let expected =
        interpret(&graph, &parameters, &initial_values(&network, &parameters), Precision::F32);
    let levels = Level::available();
    let level = levels[seed as usize % levels.len()];
    let mut first: Option<Vec<Vec<f32>>> = None;
    let mut first_rounded: Option<Vec<Vec<f32>>> = None;
    for (_, mut policy) in policies() {
        let schedule = schedule(&graph, &mut policy);
        schedule.check(&graph).unwrap();
        // Also with folded tables: all of them, and about half of them.
        let unfolded = STYLES.map(|style| (style, 0));
        let folded = [u64::MAX, 4000].map(|bytes| (CellStyle::Hoisted, bytes));
        for (style, folded) in unfolded.into_iter().chain(folded) {
            let program = Program::new(network.clone(), style).unwrap().fold_tables(folded);
            let program = Arc::new(program);
            check_folding(&program.folding_plan(), &program).unwrap();
            for (kind, cell) in program.cells().iter().enumerate() {
                check_cell(&program, Kind::new(kind), cell).unwrap();
            }
            // Batches may list their nodes in any order.
            let mut schedule = schedule.clone();
            (0..schedule.len()).for_each(|batch| schedule.nodes_mut(batch).shuffle(&mut rng));
            schedule.check(&graph).unwrap();
            let cpu = Cpu::new(program.clone(), &parameters, level, Precision::F32).unwrap();
            let cpu = cpu.with_pool(ThreadPool::new(1 + seed as usize % 2));
            let got = run(cpu, &program, &parameters, &graph, &schedule);
            for (node, (expected, got)) in expected.iter().zip(&got).enumerate() {
                for (e, g) in expected.iter().flatten().zip(got) {
                    let close = (e - g).abs() <= 1e-4 * e.abs().max(1.0);
                    assert!(close, "{style:?}, n{node}: expected {e}, got {g}\n{graph}");
                }
            }
            assert_eq!(
                first.get_or_insert(got.clone()),
                &got,
                "the bits depend on the policy or the cell style"
            );
            let cpu = Cpu::new(program.clone(), &parameters, level, Precision::Bf16).unwrap();
            let rounded = run(cpu, &program, &parameters, &graph, &schedule);
            let first = first_rounded.get_or_insert_with(|| rounded.clone());
            assert_eq!(first, &rounded, "bf16: the bits depend on the policy or the cell style");
        }
    }
}

/// Returns all fields of all nodes, computed on the CPU.
fn run(
    mut cpu: Cpu,
    program: &Arc<Program>,
    parameters: &Parameters,
    graph: &Graph,
    schedule: &Schedule,
) -> Vec<Vec<f32>> {
    let wanted = every_value(graph);
    let mini_batch = MiniBatch { program, graph, schedule, wanted: &wanted };
    let mut planner = Planner::default();
    let plan = planned(&mut planner, &mini_batch);
    // If only the last value is wanted, rows of the other values are reused.
    let last = MiniBatch { wanted: &wanted[wanted.len() - 1..], ..mini_batch };
    let reusing = planned(&mut planner, &last);
    assert!(reusing.arena <= plan.arena);
    let alone = read(&mut cpu, program, parameters, &last, &reusing);
    let all = read(&mut cpu, program, parameters, &mini_batch, &plan);
    assert_eq!(alone.last(), all.last(), "the bits depend on the reuse of rows");
    let in_blocks = planned(&mut Planner::default().block(1), &mini_batch);
    assert!(in_blocks.steps.len() >= plan.steps.len() && in_blocks.arena == plan.arena);
    let in_blocks = read(&mut cpu, program, parameters, &mini_batch, &in_blocks);
    assert_eq!(in_blocks, all, "the bits depend on the blocks of a prologue");
    let distinct = planned(&mut Planner::new(Lifetimes::Distinct), &mini_batch);
    let distinct = read(&mut cpu, program, parameters, &mini_batch, &distinct);
    assert_eq!(distinct, all, "distinct rows change no bit");
    all
}

/// Runs a plan and returns all fields of the wanted values.
fn read(
    cpu: &mut Cpu,
    program: &Arc<Program>,
    parameters: &Parameters,
    &MiniBatch { schedule, wanted, .. }: &MiniBatch<'_>,
    plan: &Plan,
) -> Vec<Vec<f32>> {
    let initial = initial_rows(program.network(), parameters);
    let given = Given { initial: &initial, places: &[], host: &[] };
    let mut count = Count::new(program.clone());
    count.run(&[Part { slot: 0, plan, given }]).unwrap();
    assert_eq!(count.counts().batches, schedule.len() as u64);
    let zeros = count.outputs(0, plan);
    assert!((0..wanted.len()).flat_map(|value| zeros.fields(value)).flatten().all(|&x| x == 0.0));
    cpu.run(&[Part { slot: 0, plan, given }]).unwrap();
    let outputs = cpu.outputs(0, plan);
    (0..wanted.len()).map(|value| outputs.fields(value).flatten().copied().collect()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(96), failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn batched_execution_agrees_with_the_interpreter(seed: u64) {
        check_seed(seed);
    }
}

/// Results depend on the instruction set. `cargo xtask ci` also runs this module with other sets
/// than the best one.
mod at_a_level {
    #[test]
    fn batched_execution_of_sixteen_networks_agrees_with_the_interpreter() {
        (0..16).for_each(super::check_seed);
    }
}

#[test]
#[ignore = "takes minutes"]
fn compiled_cells_of_ten_thousand_networks_compute_their_declaration() {
    for seed in 0..10_000 {
        let (network, _) = random_network(&mut Random::seed_from_u64(seed));
        let network = Arc::new(network);
        for style in STYLES {
            let program = Program::new(network.clone(), style).unwrap();
            for (kind, cell) in program.cells().iter().enumerate() {
                let checked = check_cell(&program, Kind::new(kind), cell);
                checked.unwrap_or_else(|error| panic!("seed {seed}, {style:?}: {error}"));
            }
        }
    }
}
