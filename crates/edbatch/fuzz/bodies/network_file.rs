//! Networks as text: round trips; and whatever is accepted compiles, runs and equals the
//! interpreter.

use std::sync::Arc;

use edbatch::models::{CallList, CallLists, network_from_json, network_to_json};
use edbatch::{Engine, EngineOptions, RunError, RunOptions, interpret};
use edbatch_graph::{Arity, Kind, Network, Value};
use edbatch_layout::{CellStyle, Program, check_cell};
use edbatch_runtime::{Parameters, Precision};
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

/// The limit on the elements of all tensors of a network that is run, and on its operations:
/// larger ones take longer without covering more code.
const MAX_ELEMENTS: usize = 1 << 14;
const MAX_OPERATIONS: usize = 64;

/// Reads a network. If it is valid, writes and reads it again; and runs it, if it is small.
pub(crate) fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let network = match network_from_json(text) {
        Ok(network) => network,
        Err(fault) => {
            assert!(fault.line > 0 && fault.column > 0);
            return assert!(!fault.expected.is_empty() && !fault.got.is_empty(), "{fault}");
        }
    };
    let written = network_to_json(&network).expect("what was read can be written");
    let again = network_from_json(&written).expect("what was written can be read");
    assert_eq!(again, network);
    assert_eq!(network_to_json(&again).as_ref(), Ok(&written));
    if is_small(&network) {
        run_network(Arc::new(network));
    }
}

fn is_small(network: &Network) -> bool {
    let parameters = network.parameters().iter().map(|parameter| parameter.elements());
    let fields = network.records().iter().flat_map(|record| &record.fields);
    let operations = || network.cells().iter().flat_map(|cell| cell.instructions());
    let shapes = fields.map(|field| field.shape).chain(operations().map(|of| of.shape));
    let elements = parameters.chain(shapes.map(|shape| shape.elements()));
    let elements = elements.fold(0_usize, usize::saturating_add);
    elements <= MAX_ELEMENTS && operations().count() <= MAX_OPERATIONS
}

/// Checks the compiled cells, and runs a list with calls of all cells for which there are values.
fn run_network(network: Arc<Network>) {
    for style in [CellStyle::Hoisted, CellStyle::Declaration] {
        let program = Program::new(network.clone(), style).expect("the network is small");
        for (kind, cell) in program.cells().iter().enumerate() {
            check_cell(&program, Kind::new(kind), cell).expect("the cell computes its declaration");
        }
    }
    let mut list = CallList::new(network.clone());
    let mut values: Vec<Value> = Vec::new();
    values.extend((0..network.initial_values().len()).filter_map(|i| network.initial_value(i)));
    for (record, declared) in (0..).map(edbatch_graph::RecordId).zip(network.records()) {
        let elements = declared.fields.iter().map(|field| field.shape.elements()).sum();
        values.push(list.give(record, &vec![0.5; elements]).expect("elements of the record"));
    }
    for kind in (0..network.cells().len()).map(Kind::new) {
        let cell = &network[kind];
        let rows: Vec<u32> = cell.tables().iter().map(|table| table.rows - 1).collect();
        let mut arguments = Vec::new();
        for port in cell.ports() {
            let fits = |value: &&Value| list.graph().record_of(**value) == Some(port.record);
            let count = if port.arity == Arity::Many { 2 } else { 1 };
            arguments.extend(values.iter().rev().filter(fits).take(count));
        }
        let made = list.call(kind, &rows, &arguments).expect("a value of each record was given");
        list.emit(made).expect("a value of the list");
        values.push(made);
    }
    let model = CallLists::new(network.clone());
    let parameters = Parameters::random(&network, &mut Xoshiro256PlusPlus::seed_from_u64(1));
    let options = EngineOptions::new().memory_limit(64 << 20);
    let engine = Engine::with_options(model.clone(), parameters.clone(), options);
    let inputs = [list.clone(), list];
    let outputs = engine.expect("the network is small").run_each(&inputs, &RunOptions::new());
    let outputs = outputs.expect("the inputs are small");
    let interpreted = interpret(&model, &parameters, &inputs, Precision::F32);
    let interpreted = match interpreted {
        Ok(interpreted) => interpreted.outputs,
        Err(RunError::Input { error, .. }) => panic!("{error}"),
        Err(error) => panic!("{error}"),
    };
    for (rows, expected) in outputs.iter().zip(&interpreted) {
        let rows = rows.as_ref().expect("the calls fit the network");
        assert_eq!(rows.len(), expected.len());
        let small = expected.iter().flatten().all(|x| x.abs() <= 16.0);
        for (e, g) in expected.iter().flatten().zip(rows.iter().flatten()) {
            assert!(!small || (e - g).abs() <= 1e-2, "expected {e}, got {g}");
        }
    }
}
