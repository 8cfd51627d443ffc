//! Cells that look up the row of a table more than once: its gradient is the sum over all lookups.
//! Only networks as data can have such cells.

use std::sync::Arc;

use edbatch::TrainerOptions;
use edbatch::models::{CallList, network_from_json};
use edbatch_graph::{Kind, Network};
use serde_json::{Value, json};

use super::differences::{Examples, check, trainer};

/// The first operations of each cell: the row of table `t` three times, a row of table `u`, a value
/// and the parameter `w`.
const READ: [&str; 6] = [
    r#"{"op": "lookup", "table": 0}"#,
    r#"{"op": "lookup", "table": 0}"#,
    r#"{"op": "lookup", "table": 0}"#,
    r#"{"op": "lookup", "table": 1}"#,
    r#"{"op": "input", "port": 0, "field": 0}"#,
    r#"{"op": "parameter", "name": "w"}"#,
];

/// For each case: the operations after [`READ`]. The last one is the output.
const CASES: [(&str, &[&str]); 10] = [
    ("without a product", &["tanh 0", "mul 1 6"]),
    ("one of two in a product", &["matmul 5 1", "tanh 0", "mul 6 7"]),
    ("both in products", &["matmul 5 0", "matmul 5 1", "tanh 6", "mul 7 8"]),
    ("in the same product", &["mul 0 1", "matmul 5 6", "tanh 7"]),
    ("a product and the rows", &["matmul 5 1", "mul 0 6", "add 7 2"]),
    ("three", &["tanh 0", "mul 6 1", "mul 7 2"]),
    ("as an output", &["add 0 4", "mul 6 1"]),
    ("beside a value", &["mul 4 0", "sigmoid 1", "mul 6 7", "add 8 2"]),
    ("beside another table", &["mul 3 0", "matmul 5 1", "add 6 7", "mul 8 2"]),
    ("with dropout", &["dropout 0", "dropout 1", "mul 6 7", "matmul 5 2", "add 8 9"]),
];

/// Returns a network with a cell of these operations, and a cell that returns the table's row and
/// its sigmoid. With `again` unset, all operations read the variable of the first lookup.
fn network(operations: &[&str], tied: bool, again: bool) -> Network {
    let read = |operand: &str| match operand.parse::<u32>().unwrap() {
        1 | 2 if !again => 0,
        operand => operand,
    };
    let operation = |text: &&str| {
        let mut words = text.split(' ');
        let op = words.next().unwrap();
        let mut operation = json!({"op": op, "operands": words.map(read).collect::<Vec<_>>()});
        if op == "dropout" {
            operation["rate"] = json!(0.5);
        }
        operation
    };
    let first = READ.iter().map(|text| serde_json::from_str(text).unwrap());
    let all: Vec<Value> = first.chain(operations.iter().map(operation)).collect();
    let vector = json!([{"name": "h", "shape": [3]}]);
    let pair = json!([{"name": "a", "shape": [3]}, {"name": "b", "shape": [3]}]);
    let state = json!([{"name": "previous", "record": "state"}]);
    let both = json!([{"name": "both", "record": "pair"}]);
    let other = if tied { "t" } else { "u" };
    let tables = json!([{"name": "x", "parameter": "t"}, {"name": "y", "parameter": other}]);
    let second = read("1");
    let text = json!({
        "edbatch_network": 1,
        "records": [{"name": "state", "fields": vector}, {"name": "pair", "fields": pair}],
        "parameters": [
            {"name": "t", "shape": [5, 3]}, {"name": "u", "shape": [5, 3]},
            {"name": "w", "shape": [3, 3]}, {"name": "start", "shape": [3]},
        ],
        "initial_values": [{"record": "state", "parameters": ["start"]}],
        "cells": [
            {"name": "step", "record": "state", "tables": tables, "ports": state,
                "operations": all, "outputs": [all.len() - 1]},
            {"name": "leaf", "record": "pair", "tables": [tables[0]], "ports": [],
                "operations": [all[0], all[0], {"op": "sigmoid", "operands": [0]}],
                "outputs": [second, 2]},
            {"name": "join", "record": "state", "tables": [], "ports": both,
                "operations": [{"op": "input", "port": 0, "field": 0},
                    {"op": "input", "port": 0, "field": 1}, {"op": "mul", "operands": [0, 1]}],
                "outputs": [2]},
        ],
    });
    network_from_json(&text.to_string()).unwrap()
}

/// Returns inputs with calls at one row and at several, and their targets.
fn examples(network: &Arc<Network>) -> Examples {
    let kind = |name: &str| network.kind_names().iter().position(|it| it == name).unwrap();
    let [step, leaf, join] = ["step", "leaf", "join"].map(|name| Kind::new(kind(name)));
    let input = |rows: &[u32]| {
        let mut list = CallList::new(network.clone());
        let mut last = network.initial_value(0).unwrap();
        for (index, &row) in rows.iter().enumerate() {
            last = list.call(step, &[row, rows[0]], &[last]).unwrap();
            list.emit(last).unwrap();
            if index % 2 == 1 {
                let both = list.call(leaf, &[row], &[]).unwrap();
                last = list.call(join, &[], &[both]).unwrap();
                list.emit(last).unwrap();
            }
        }
        list
    };
    let inputs = [&[4][..], &[0, 3], &[2, 2, 2], &[1, 4, 1, 0]].map(input);
    let targets = inputs.iter().map(|list| {
        (0..list.emitted().len() as u32).map(|row| (row % 5 != 4).then_some(row % 3)).collect()
    });
    let targets = targets.collect();
    (inputs.into(), targets)
}

/// Returns the gradients of a trainer, of each input alone and of all inputs at once, and its
/// parameters after a step.
fn trained(network: &Arc<Network>, options: TrainerOptions) -> Vec<Vec<Vec<f32>>> {
    let (inputs, targets) = examples(network);
    let mut trainer = trainer(network, options);
    let parts =
        (0..inputs.len()).map(|index| index..index + 1).chain(std::iter::once(0..inputs.len()));
    let each = parts.map(|part| {
        trainer.clear_gradients();
        trainer.accumulate(&inputs[part.clone()], &targets[part], 0.25).unwrap();
        trainer.gradients().unwrap().to_dense(network)
    });
    let mut all: Vec<_> = each.collect();
    trainer.train(&inputs, &targets).unwrap();
    let updated = trainer.parameters().unwrap();
    all.push(updated.slices().into_iter().map(<[f32]>::to_vec).collect());
    all
}

#[test]
fn gradients_of_several_lookups_equal_central_differences() {
    for (name, operations) in CASES {
        for tied in [false, true] {
            let network = Arc::new(network(operations, tied, true));
            check(&format!("{name}, tied {tied}"), &network, &examples(&network));
        }
    }
}

#[test]
fn several_lookups_train_like_one_lookup_that_is_read_several_times() {
    for (name, operations) in CASES {
        for tied in [false, true] {
            for threads in [1, 2] {
                let options = || TrainerOptions::new().threads(threads).seed(3);
                let [again, once] = [true, false].map(|again| {
                    let network = Arc::new(network(operations, tied, again));
                    [options(), options().without_dropout()].map(|it| trained(&network, it))
                });
                assert_eq!(again, once, "{name}, tied {tied}, {threads} threads");
            }
        }
    }
}
