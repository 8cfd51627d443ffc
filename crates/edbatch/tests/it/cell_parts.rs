//! Random changes of cells: they are refused by name, in the same words as the same equations, or
//! compile, run and equal the interpreter.

mod equations;

use std::sync::Arc;

use edbatch_graph::{
    AdjointOp, Arity, At, Binary, CellParts, Function, Graph, Instruction, Kind, Network,
    Normalization, Op, ParameterId, RecordId, Reduction, Schedule, Shape, Slope, Value, Var,
};
use edbatch_layout::{CellStyle, Lifetimes, MiniBatch, Planner, Program, check_cell};
use edbatch_policy::Scheduler;
use edbatch_runtime::kernels::Level;
use edbatch_runtime::{
    Backend, Cpu, Given, Parameters, Part, Precision, initial_rows, initial_values, interpret,
};
use edbatch_testing::networks::{Random, random_network, without_cells};
use edbatch_testing::{cases, every_value, planned};
use proptest::prelude::*;
use rand::seq::IndexedRandom;
use rand::{Rng, RngExt, SeedableRng};

fn with_cells(network: &Network) -> Network {
    let mut copy = without_cells(network);
    for cell in network.cells() {
        copy.add_cell(cell.to_parts()).unwrap();
    }
    copy
}

/// Changes a part. The result may be valid or not.
fn change(parts: &mut CellParts, network: &Network, rng: &mut impl Rng) {
    let operations = parts.instructions.len();
    let var = rng.random_range(0..operations);
    // References to declarations are mostly valid.
    let index = |len: usize, rng: &mut dyn Rng| rng.random_range(0..=len) as u16;
    match rng.random_range(0..12) {
        0 => parts.record = RecordId(rng.random_range(0..3)),
        1 => parts.outputs.rotate_left(1),
        2 if !parts.outputs.is_empty() => {
            let output = rng.random_range(0..parts.outputs.len());
            parts.outputs[output] = similar(parts, parts.outputs[output], rng);
        }
        3..=5 if !parts.instructions[var].operands.is_empty() => {
            let operand = rng.random_range(0..parts.instructions[var].operands.len());
            let other = similar(parts, parts.instructions[var].operands[operand], rng);
            parts.instructions[var].operands[operand] = other;
        }
        6 => parts.instructions[var].shape = Shape::Vector(rng.random_range(0..5)),
        7 => {
            let op = Op::Lookup { table: index(parts.tables.len(), rng) };
            parts.instructions[var] = Instruction { op, ..parts.instructions[var].clone() };
        }
        8 if !parts.ports.is_empty() => {
            let port = rng.random_range(0..parts.ports.len());
            match rng.random_range(0..4) {
                0 => parts.ports[port].record = RecordId(index(2, rng)),
                1 => parts.ports[port].arity = Arity::Many,
                2 => parts.ports[port].arity = Arity::One,
                _ => parts.ports.swap_remove(port).name.clear(),
            }
        }
        9 if !parts.tables.is_empty() => {
            let table = rng.random_range(0..parts.tables.len());
            match rng.random_range(0..4) {
                0 => parts.tables[table].rows += 1,
                1 => {
                    let parameters = network.parameters().len();
                    let parameter = ParameterId(u32::from(index(parameters, rng)));
                    parts.tables[table].parameter = Some(parameter);
                }
                2 => parts.tables[table].parameter = None,
                _ => parts.tables.push(parts.tables[table].clone()),
            }
        }
        10 => {
            // Reads a field twice, or a field that was not read.
            let sources = [
                Op::Input { port: index(1, rng), field: index(1, rng) },
                Op::Reduce { port: index(1, rng), field: index(1, rng), by: Reduction::Max },
                Op::Parameter(ParameterId(u32::from(index(network.parameters().len(), rng)))),
                Op::Constant(f32::INFINITY),
            ];
            parts.instructions[var].op = *sources.choose(rng).expect("sources");
        }
        _ => {
            let ops = [
                Op::Binary(Binary::Add),
                Op::Binary(Binary::Mul),
                Op::Binary(Binary::Div),
                Op::Apply(Function::Tanh),
                Op::Apply(Function::Exp),
                Op::Neg,
                Op::Normalize(Normalization::Softmax),
                Op::Normalize(Normalization::LogSoftmax),
                Op::Apply(Function::Relu),
                Op::MatMul,
                Op::Concat,
                Op::Transpose,
                Op::Slice { start: 0, rows: 2 },
                Op::Adjoint(AdjointOp::Slope(Slope::Tanh)),
                Op::Adjoint(AdjointOp::Outer),
                Op::Binary(Binary::Maximum),
                Op::Apply(Function::Erf),
                Op::Normalize(Normalization::LayerNorm(0.5)),
                Op::Normalize(Normalization::RmsNorm(f32::NAN)),
                Op::Dot,
                Op::Reshape(Shape::Vector(4)),
                Op::Select { table: index(parts.tables.len(), rng) },
                Op::SoftmaxSum {
                    port: index(1, rng),
                    scores: index(1, rng),
                    values: index(1, rng),
                },
                Op::Attention { port: index(1, rng), keys: 0, values: index(1, rng), heads: 1 },
                Op::Adjoint(AdjointOp::OneHot { table: 0 }),
            ];
            parts.instructions[var].op = *ops.choose(rng).expect("operations");
        }
    }
}

/// Returns a variable, mostly one of the same shape.
fn similar(parts: &CellParts, var: Var, rng: &mut impl Rng) -> Var {
    let shape = parts.instructions[var.index().min(parts.instructions.len() - 1)].shape;
    let all = 0..=parts.instructions.len() as u32;
    let same = all.clone().map(Var).filter(|of| {
        parts.instructions.get(of.index()).is_some_and(|instruction| instruction.shape == shape)
    });
    let same: Vec<Var> = same.collect();
    match same.choose(rng) {
        Some(&var) if rng.random_bool(0.9) => var,
        _ => Var(rng.random_range(all)),
    }
}

/// Returns a graph with up to three calls of every cell for which there are values.
fn graph_of(network: &Arc<Network>, initial: Value, rng: &mut impl Rng) -> Graph {
    let mut graph = Graph::new(network.clone());
    let mut values = vec![initial];
    for _ in 0..3 {
        for kind in (0..network.cells().len()).map(Kind::new) {
            let cell = &network[kind];
            let rows: Vec<u32> =
                cell.tables().iter().map(|table| rng.random_range(0..table.rows)).collect();
            let mut arguments = Vec::new();
            for port in cell.ports() {
                let fits = |value: &Value| graph.record_of(*value) == Some(port.record);
                let fitting: Vec<Value> = values.iter().copied().filter(fits).collect();
                let count = if port.arity == Arity::Many { rng.random_range(1..4) } else { 1 };
                arguments.extend((0..count).filter_map(|_| fitting.choose(rng).copied()));
            }
            values.extend(graph.call(kind, &rows, &arguments).ok());
        }
    }
    graph
}

/// Compiles the network in all styles, and runs a graph of it. The bits do not depend on the style,
/// and are close to the interpreter's.
fn run(network: Network, initial: Value, rng: &mut Random) {
    let network = Arc::new(network);
    let parameters = Parameters::random(&network, rng);
    let graph = graph_of(&network, initial, rng);
    let expected =
        interpret(&graph, &parameters, &initial_values(&network, &parameters), Precision::F32);
    let mut schedule = Schedule::new();
    Scheduler::by_depth().schedule(&graph, &mut schedule);
    let wanted = every_value(&graph);
    let mut first: Option<Vec<u32>> = None;
    for (style, folded) in
        [(CellStyle::Hoisted, 0), (CellStyle::Hoisted, u64::MAX), (CellStyle::Declaration, 0)]
    {
        let program = Program::new(network.clone(), style).unwrap().fold_tables(folded);
        for (kind, cell) in program.cells().iter().enumerate() {
            check_cell(&program, Kind::new(kind), cell).unwrap();
        }
        let program = Arc::new(program);
        let mini_batch =
            MiniBatch { program: &program, graph: &graph, schedule: &schedule, wanted: &wanted };
        let plan = planned(&mut Planner::new(Lifetimes::Reuse), &mini_batch);
        let level = *Level::available().last().expect("a level");
        let mut cpu = Cpu::new(program.clone(), &parameters, level, Precision::F32).unwrap();
        let initial = initial_rows(&network, &parameters);
        let given = Given { initial: &initial, places: &[], host: &[] };
        cpu.run(&[Part { slot: 0, plan: &plan, given }]).unwrap();
        let outputs = cpu.outputs(0, &plan);
        let got: Vec<f32> =
            (0..wanted.len()).flat_map(|value| outputs.fields(value)).flatten().copied().collect();
        let all = || expected.iter().flatten().flatten();
        assert_eq!(all().count(), got.len());
        if all().all(|x| x.abs() <= 16.0) {
            for (e, g) in all().zip(&got) {
                assert!((e - g).abs() <= 1e-2, "expected {e}, got {g}\n{graph}");
            }
        }
        // All NaNs count as equal.
        let bits = |x: &f32| if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() };
        let got: Vec<u32> = got.iter().map(bits).collect();
        assert_eq!(first.get_or_insert_with(|| got.clone()), &got, "{style:?} changed a bit");
    }
}

/// The result of a change.
#[derive(Clone, Copy, PartialEq)]
enum Changed {
    Accepted,
    /// The same cell, declared by equations, has the same error.
    RefusedAlike,
    /// Equations cannot have this fault.
    Refused,
}

/// Changes a cell of a random network.
fn check_seed(seed: u64) -> Changed {
    let mut rng = Random::seed_from_u64(seed);
    let (network, initial) = random_network(&mut rng);
    assert_eq!(with_cells(&network), network);
    let changed = rng.random_range(0..network.cells().len());
    let mut spoilt = without_cells(&network);
    for (kind, cell) in network.cells().iter().enumerate() {
        let mut parts = cell.to_parts();
        if kind == changed {
            for _ in 0..rng.random_range(1..3) {
                change(&mut parts, &network, &mut rng);
            }
        }
        let before = spoilt.clone();
        let declared = equations::declare(&mut before.clone(), &parts);
        if let Err(error) = spoilt.add_cell(parts.clone()) {
            assert_eq!(kind, changed, "{error}");
            assert_eq!(spoilt, before, "an invalid cell changes nothing");
            assert_eq!(&*error.cell, cell.name());
            let is_found = match &error.at {
                At::Operation { var, .. } => {
                    var.is_some_and(|v| v.index() < parts.instructions.len())
                }
                At::Declaration(what) => {
                    ["cell", "return", "port", "table"].iter().any(|&part| what.starts_with(part))
                }
            };
            assert!(is_found, "{error}");
            assert!(!error.expected.is_empty());
            let Some(declared) = declared else { return Changed::Refused };
            let declared = declared.expect_err("the parts have a fault");
            assert_eq!(declared.expected, error.expected, "{declared}");
            assert_eq!(declared.shapes, error.shapes, "{declared}");
            return Changed::RefusedAlike;
        }
        assert!(matches!(declared, Some(Ok(_))), "{declared:?}");
        assert_eq!(spoilt.cells().last().unwrap().to_parts(), parts);
    }
    run(spoilt, initial, &mut rng);
    Changed::Accepted
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(256), failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn changed_cells_are_refused_or_run(seed: u64) {
        check_seed(seed);
    }
}

#[test]
fn accepted_and_refused_changes_occur() {
    let changed: Vec<Changed> = (0..128).map(check_seed).collect();
    for kind in [Changed::Accepted, Changed::RefusedAlike, Changed::Refused] {
        let count = changed.iter().filter(|&&changed| changed == kind).count();
        assert!((16..96).contains(&count), "{count}");
    }
}
