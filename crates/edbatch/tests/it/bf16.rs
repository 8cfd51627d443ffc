//! Products in bf16: every model against the interpreter in bf16 and against an independent float64
//! program, with the same bits for any mini-batch, policy, number of threads and folded tables.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use edbatch::models::{END, FolderModel, Model, ModelName, Stop, ZooInput, arg_max};
use edbatch::{
    Engine, EngineError, EngineOptions, Loaded, Precision, Rows, Trainer, TrainerOptions,
    interpret, load,
};
use edbatch_graph::{Dag, Graph, Network, NodeId, Schedule, Shape};
use edbatch_layout::{CellStyle, MiniBatch, Planner, Program};
use edbatch_runtime::kernels::Level;
use edbatch_runtime::{
    Backend, BackendError, Cpu, Given, Parameters, Part, initial_rows, initial_values,
};
use edbatch_testing::{STYLES, every_value, planned, policies, shared};
use serde_json::Value;

use crate::fn_model::random;
use crate::small::goldens;

/// The accepted differences from the interpreter, from float64, and of the two best scores where a
/// translator chooses another word.
const OF_INTERPRETER: f64 = 1e-3;
const OF_FLOAT64: f64 = 1e-2;
const OF_CHOICE: f32 = 2e-2;

#[test]
fn goldens_are_near_and_their_bits_depend_on_nothing_else() {
    for model in ModelName::ALL.map(ModelName::name) {
        check_folder(&goldens().join(model));
        if let Some(large) = shared(Path::new("goldens").join(model)) {
            check_folder(&large);
        }
    }
}

fn check_folder(folder: &Path) {
    let Loaded { folder: of, model, parameters } = load(folder).unwrap();
    let inputs = of.inputs(&of.input()).unwrap().collect::<Result<Vec<_>, _>>().unwrap();
    let expected = expected(folder);
    assert_eq!(inputs.len(), expected.len());
    let forced: Vec<ZooInput> =
        inputs.iter().zip(&expected).map(|(input, rows)| forced(input, rows)).collect();
    let what = folder.display();
    let interpreted = interpret(&model, &parameters, &forced, Precision::Bf16).unwrap().outputs;
    let outputs = same_bits(&model, &parameters, &forced);
    for (instance, (got, expected)) in outputs.iter().zip(&expected).enumerate() {
        for (index, (row, expected)) in got.iter().zip(expected).enumerate() {
            let far = row.iter().zip(expected).any(|(&a, b)| !near(f64::from(a), *b, OF_FLOAT64));
            assert!(!far, "{what}: row {index} of {instance}: {row:?}, expected {expected:?}");
            let reference = interpreted[instance].row(index);
            let mut pairs = row.iter().zip(reference).map(|(&a, &b)| (a.into(), b.into()));
            let far = pairs.any(|(a, b)| !near(a, b, OF_INTERPRETER));
            assert!(!far, "{what}: row {index} of {instance}: {row:?}, interpreted {reference:?}");
        }
        assert!(got.len() >= expected.len(), "{what}: rows of {instance}");
    }
    let exact = Engine::new(model.clone(), parameters.clone()).unwrap().run(&forced).unwrap();
    assert!(bits(&exact).ne(bits(&outputs)), "{what}: nothing was rounded");
    check_choices(&same_bits(&model, &parameters, &inputs), &expected);
}

/// Returns the rows that a folder's float64 program computed.
fn expected(folder: &Path) -> Vec<Vec<Vec<f64>>> {
    let text = fs::read_to_string(folder.join("expected.jsonl")).unwrap();
    let line = |line| serde_json::from_str::<Value>(line).unwrap()["logits"].take();
    text.lines().map(|text| serde_json::from_value(line(text)).unwrap()).collect()
}

/// Lets a translator read the words of the expected rows instead of its own.
fn forced(input: &ZooInput, expected: &[Vec<f64>]) -> ZooInput {
    let mut input = input.clone();
    if let ZooInput::Source(source) = &mut input {
        let best = |row: &Vec<f64>| {
            let row: Vec<f32> = row.iter().map(|&score| score as f32).collect();
            arg_max(&row)
        };
        let words = expected.iter().map(best).take_while(|&word| word != END);
        source.stop = Stop::Forced(words.collect());
    }
    input
}

fn near(a: f64, b: f64, tolerance: f64) -> bool {
    (a - b).abs() <= tolerance
}

fn bits(outputs: &[Rows]) -> impl Iterator<Item = u32> {
    outputs.iter().flat_map(Rows::iter).flatten().map(|element| element.to_bits())
}

/// Runs inputs in bf16 in many ways, which must give the same bits.
fn same_bits(model: &FolderModel, parameters: &Parameters, inputs: &[ZooInput]) -> Vec<Rows> {
    let mut first: Option<Vec<Rows>> = None;
    let policies = policies().map(|(_, policy)| Some(policy));
    for (index, policy) in [None].into_iter().chain(policies).enumerate() {
        let options = EngineOptions::new().precision(Precision::Bf16).threads(1 + index % 3);
        let options = options.fold_tables([0, u64::MAX, 0, 9000][index % 4]);
        let mut engine = Engine::with_options(model.clone(), parameters.clone(), options).unwrap();
        policy.into_iter().for_each(|policy| engine.set_policy(policy));
        for size in [1, 3, 64] {
            let run = |mini_batch| engine.run(mini_batch).unwrap();
            let outputs: Vec<Rows> = inputs.chunks(size).flat_map(run).collect();
            let first = first.get_or_insert_with(|| outputs.clone());
            assert!(bits(&outputs).eq(bits(first)), "policy {index}, {size}: other bits");
        }
    }
    first.expect("there are policies")
}

/// Checks free decoding up to the first word that differs: there, the two best scores are close.
fn check_choices(outputs: &[Rows], expected: &[Vec<Vec<f64>>]) {
    for (rows, expected) in outputs.iter().zip(expected) {
        for (row, expected) in rows.iter().zip(expected) {
            let far = row.iter().zip(expected).any(|(&a, b)| !near(f64::from(a), *b, OF_FLOAT64));
            assert!(!far, "{row:?}, expected {expected:?}");
            let expected: Vec<f32> = expected.iter().map(|&score| score as f32).collect();
            let [own, other] = [arg_max(row), arg_max(&expected)].map(|word| word as usize);
            if own != other {
                let apart = (expected[own] - expected[other]).abs();
                assert!(apart <= OF_CHOICE, "{own} and not {other}: {apart}");
                break;
            }
        }
    }
}

/// Products of parameters and vectors are rounded, and of transposed parameters; no other product
/// is. A vector is read, overwritten by another one, and read again.
fn products() -> Network {
    let mut network = Network::new();
    let fields = ["plain", "transposed", "matrix", "values", "dot", "deep"];
    let width = [5, 7, 35, 7, 1, 5];
    let fields = fields.into_iter().zip(width).map(|(name, n)| (name, Shape::Vector(n)));
    let record = network.record("results", fields).unwrap();
    network
        .cell("products", record, |cell| {
            let x = cell.lookup("word", "words", &[4, 7]).tanh();
            let w = cell.parameter("w", &[5, 7]);
            let plain = w.matmul(x);
            let other = (plain * plain + plain).sigmoid();
            let transposed = cell.parameter("t", &[5, 7]).transpose().matmul(other);
            let matrix = cell.lookup("matrix", "matrices", &[4, 7, 7]).tanh();
            let values = matrix.matmul(x);
            let matrix = w.matmul(matrix).reshape(Shape::Vector(35));
            let deep =
                w.matmul((transposed + x).tanh()) + cell.parameter("v", &[5, 5]).matmul(other);
            vec![plain, transposed, matrix, values, values.dot(x), deep]
        })
        .unwrap();
    network
}

#[test]
fn only_products_of_parameters_and_vectors_are_rounded() {
    let network = Arc::new(products());
    let parameters = random(&network, 3);
    let mut graph = Graph::new(network.clone());
    for row in 0..4 {
        graph.call(edbatch_graph::Kind::new(0), &[row, row], &[]).unwrap();
    }
    let given = initial_values(&network, &parameters);
    let of = |precision| edbatch_runtime::interpret(&graph, &parameters, &given, precision);
    let (exact, rounded) = (of(Precision::F32), of(Precision::Bf16));
    for (exact, rounded) in exact.iter().zip(&rounded) {
        let same: Vec<bool> = exact.iter().zip(rounded).map(|(a, b)| a == b).collect();
        assert_eq!(same, [false, false, true, true, true, false]);
    }
    let mut schedule = Schedule::new();
    let nodes: Vec<NodeId> = (0..graph.nodes()).map(NodeId::new).collect();
    schedule.push(graph.kind(nodes[0]), &nodes);
    let wanted = every_value(&graph);
    for style in STYLES {
        let program = Arc::new(Program::new(network.clone(), style).unwrap());
        let mini_batch =
            MiniBatch { program: &program, graph: &graph, schedule: &schedule, wanted: &wanted };
        let plan = planned(&mut Planner::default(), &mini_batch);
        let level = Level::detect();
        let mut cpu = Cpu::new(program, &parameters, level, Precision::Bf16).unwrap();
        let given = Given { initial: &initial_rows(&network, &parameters), places: &[], host: &[] };
        cpu.run(&[Part { slot: 0, plan: &plan, given }]).unwrap();
        let outputs = cpu.outputs(0, &plan);
        for (node, expected) in rounded.iter().enumerate() {
            let got = outputs.fields(node).flatten();
            for (got, expected) in got.zip(expected.iter().flatten()) {
                // The order of sums changes less than this; rounding a factor changes 1e-3.
                assert!((got - expected).abs() < 2e-5, "{style:?}: {got}, expected {expected}");
            }
        }
    }
}

fn golden() -> Loaded {
    load(goldens().join("tree_lstm")).unwrap()
}

#[test]
fn backends_have_a_precision_of_their_own() {
    let Loaded { model, parameters, .. } = golden();
    let program = Program::new(model.network().clone(), CellStyle::default()).unwrap();
    let program = Arc::new(program);
    let cpu = || Cpu::new(program.clone(), &parameters, Level::detect(), Precision::Bf16).unwrap();
    for precision in [Precision::F32, Precision::Bf16] {
        let options = EngineOptions::new().precision(precision);
        let (model, cpu) = (model.clone(), Box::new(cpu()));
        let engine = Engine::with_backend(model, &parameters, program.clone(), cpu, options);
        let error = engine.err().unwrap();
        assert!(matches!(error, EngineError::PrecisionOfBackend));
        assert!(error.to_string().contains("its own precision"), "{error}");
    }
}

#[test]
fn training_is_in_f32_alone() {
    let Loaded { model, parameters, .. } = golden();
    let program = Trainer::<FolderModel>::program(model.network(), &TrainerOptions::new()).unwrap();
    let error = Cpu::new(program, &parameters, Level::detect(), Precision::Bf16).unwrap_err();
    assert!(matches!(error, BackendError::TrainingPrecision(Precision::Bf16)));
    assert!(error.to_string().contains("training is in f32 alone"), "{error}");
}

#[test]
fn weights_take_half_the_memory() {
    let Loaded { model, parameters, folder } = golden();
    let inputs = folder.inputs(&folder.input()).unwrap().collect::<Result<Vec<_>, _>>().unwrap();
    let bytes = [Precision::F32, Precision::Bf16].map(|precision| {
        let options = EngineOptions::new().precision(precision);
        let engine = Engine::with_options(model.clone(), parameters.clone(), options);
        let mut engine = engine.unwrap();
        engine.run(&inputs).unwrap();
        engine.statistics().weight_bytes
    });
    let tables: usize =
        model.network().parameters().iter().map(|p| p.dims.iter().product::<usize>()).sum();
    // Tables and biases stay in f32.
    assert!(bytes[1] < bytes[0] && bytes[1] < 4 * tables as u64 + bytes[0] / 2, "{bytes:?}");
}
