//! Texts of networks: faults with their places, limits, and all operations.

use edbatch_graph::{Op, Shape, training_network};

use super::*;

/// A network in which every kind of item occurs.
const TREE: &str = r#"{"edbatch_network": 1,
 "records": [
  {"name": "state", "fields": [{"name": "h", "shape": [4]}]},
  {"name": "pair", "fields": [{"name": "v", "shape": [4]}, {"name": "M", "shape": [2, 4]}]}],
 "parameters": [
  {"name": "embed", "shape": [100, 4]},
  {"name": "w", "shape": [4, 4]},
  {"name": "none.h", "shape": [4]},
  {"name": "matrices", "shape": [9, 2, 4]}],
 "initial_values": [
  {"record": "state", "parameters": ["none.h"]}],
 "cells": [
  {"name": "node", "record": "state",
   "tables": [{"name": "word", "parameter": "embed"}],
   "ports": [{"name": "children", "record": "state", "many": true}],
   "operations": [
    {"op": "lookup", "table": 0},
    {"op": "reduce", "port": 0, "field": 0, "by": "sum"},
    {"op": "parameter", "name": "w"},
    {"op": "matmul", "operands": [2, 1]},
    {"op": "add", "operands": [3, 0]},
    {"op": "tanh", "operands": [4]}],
   "outputs": [5]},
  {"name": "other \"node\"", "record": "pair",
   "tables": [{"name": "matrix", "parameter": "matrices"}],
   "ports": [{"name": "one", "record": "pair"}],
   "operations": [
    {"op": "lookup", "table": 0},
    {"op": "input", "port": 0, "field": 1},
    {"op": "constant", "value": 0.1, "shape": [1]},
    {"op": "constant", "value": "-Infinity", "shape": [2, 4]},
    {"op": "scale", "factor": 1e-10, "operands": [2]},
    {"op": "sub", "operands": [0, 4]},
    {"op": "slice", "start": 1, "rows": 1, "operands": [5]},
    {"op": "concat", "operands": [6, 6]},
    {"op": "input", "port": 0, "field": 0}],
   "outputs": [8, 7]}]}
"#;

#[test]
fn a_network_is_read_and_written() {
    let network = network_from_json(TREE).unwrap();
    assert_eq!(network_to_json(&network).unwrap(), TREE);
    assert_eq!(
        network.cells()[0].display(&network).to_string(),
        "node:\n  v0 = embed[word] : [4]\n  v1 = sum children.h : [4]\n  v2 = w : [4, 4]\n  \
         v3 = matmul v2 v1 : [4]\n  v4 = add v3 v0 : [4]\n  v5 = tanh v4 : [4]\n  return v5\n"
    );
    assert_eq!(network_from_json(&format!("\u{FEFF}{TREE}")).unwrap(), network);
    let empty = network_to_json(&Network::new()).unwrap();
    assert_eq!(network_from_json(&empty).unwrap(), Network::new());
}

/// Checks the error for `TREE` with one text replaced by another.
fn check(from: &str, to: &str, expected: &str) {
    assert!(TREE.contains(from), "{from}");
    let error = network_from_json(&TREE.replacen(from, to, 1)).unwrap_err();
    assert_eq!(error.to_string(), expected, "{from} -> {to}");
}

/// Changes of [`TREE`], each above the error.
const FAULTS: &str = include_str!("faults.txt");

#[test]
fn faults_have_a_place_and_an_expectation() {
    let eof = network_from_json("").unwrap_err().to_string();
    assert!(eof.ends_with("got the end of the text (EOF while parsing a value)"), "{eof}");
    for case in FAULTS.lines().collect::<Vec<_>>().chunks(2) {
        let (from, to) = case[0].split_once(" =>").unwrap();
        check(from, to.trim_start(), case[1]);
    }
    check(
        "\"records\": [",
        "\"records\": [],\n \"records\": [",
        "3:10: expected the member `records` once, got it a second time",
    );
    let members: String = (0..16).map(|i| format!("\"{i}\": 0, ")).collect();
    let members = format!("{{{members}\"op\": \"tanh\"");
    check(
        "{\"op\": \"tanh\"",
        &members,
        "22:143: expected at most 16 members, got more (cell node: v5)",
    );
}

#[test]
fn numbers_are_rounded_once() {
    for (text, value) in [
        ("1e-60", 0.0_f32),
        ("-0.0", -0.0),
        ("16777217.000000000000000000000000000000000000000001", 16_777_218.0),
        ("3.4028235e38", f32::MAX),
        ("\"Infinity\"", f32::INFINITY),
    ] {
        let network = network_from_json(&TREE.replacen("0.1", text, 1)).unwrap();
        let Op::Constant(read) = network.cells()[1].instructions()[2].op else { panic!() };
        assert_eq!(read.to_bits(), value.to_bits(), "{text}");
    }
}

#[test]
fn adjoint_cells_and_nan_are_not_written() {
    let network = network_from_json(TREE);
    let training = training_network(&network.unwrap(), |_| true, |_| false);
    let error = network_to_json(&training.unwrap().network).unwrap_err().to_string();
    assert!(error.starts_with("expected a network without adjoint cells"), "{error}");

    let mut network = Network::new();
    let one = network.record("one", [("x", Shape::Vector(1))]).unwrap();
    network.cell("nan", one, |cell| vec![cell.constant(f32::NAN, Shape::Vector(1))]).unwrap();
    let error = network_to_json(&network).unwrap_err().to_string();
    assert_eq!(error, "cell nan: v0, constant NaN: expected a value other than NaN");
}

/// A text with this number of cells of this number of operations each.
fn chains(cells: usize, operations: usize) -> String {
    let chain: String = (1..operations)
        .map(|op| format!(",{{\"op\":\"neg\",\"operands\":[{}]}}", op - 1))
        .collect();
    let cells: Vec<String> = (0..cells)
        .map(|cell| {
            format!(
                "{{\"name\":\"c{cell}\",\"record\":\"r\",\"tables\":[],\"ports\":[],\
                 \"operations\":[{{\
                 \"op\":\"constant\",\"value\":1,\"shape\":[1]}}{chain}],\"outputs\":[0]}}"
            )
        })
        .collect();
    with_cells(&cells.join(","))
}

fn with_cells(cells: &str) -> String {
    format!(
        "{{\"edbatch_network\":1,\"records\":[{{\"name\":\"r\",\"fields\":[{{\"name\":\"x\",\
         \"shape\":[1]}}]}}],\"parameters\":[],\"initial_values\":[],\"cells\":[{cells}]}}"
    )
}

/// A text with this number of records of one field, and nothing else.
fn records(count: usize) -> String {
    let record = |i| format!("{{\"name\":\"{i}\",\"fields\":[{{\"name\":\"x\",\"shape\":[1]}}]}}");
    let records: Vec<String> = (0..count).map(record).collect();
    format!(
        "{{\"edbatch_network\":1,\"records\":[{}],\"parameters\":[],\"initial_values\":[],\
         \"cells\":[]}}",
        records.join(",")
    )
}

/// The expectation of the error for a text, or nothing if it is accepted.
fn refused(text: &str) -> String {
    network_from_json(text).map_or_else(|error| error.expected, |_| String::new())
}

#[test]
fn limits_of_cells_and_operations() {
    assert_eq!(refused(&chains(1 << 10, 1)), "");
    assert_eq!(refused(&chains((1 << 10) + 1, 1)), "a list of at most 1024 items");
    assert_eq!(refused(&chains(1, 1 << 11)), "");
    assert_eq!(refused(&chains(1, (1 << 11) + 1)), "a list of at most 2048 items");
    assert_eq!(refused(&chains(8, 1 << 11)), "");
    // Eight cells of 2,048 operations, and one of one.
    let cell = |text: &str| {
        let (_, cells) = text.split_once("\"cells\":[").unwrap();
        cells.strip_suffix("]}").unwrap().to_string()
    };
    let one_more = [cell(&chains(8, 1 << 11)), cell(&chains(1, 1).replace("\"c0\"", "\"c8\""))];
    let one_more = with_cells(&one_more.join(","));
    assert_eq!(refused(&one_more), "at most 16384 operations in a network");
    let concat = |operations: usize, operands: usize| {
        let concat =
            format!(",{{\"op\":\"concat\",\"operands\":[{}]}}", vec!["0"; operands].join(","));
        let cell = chains(1, 1);
        let constant = "\"shape\":[1]}],\"outputs\"";
        assert!(cell.contains(constant));
        let operations = concat.repeat(operations);
        cell.replace(constant, &format!("\"shape\":[1]}}{operations}],\"outputs\""))
    };
    assert_eq!(refused(&concat(1, 1 << 12)), "");
    assert_eq!(refused(&concat(1, (1 << 12) + 1)), "a list of at most 4096 items");
    assert_eq!(refused(&concat(1 << 8, 1 << 12)), "");
    let last = ",{\"op\":\"neg\",\"operands\":[0]}],\"outputs\"";
    let one_more = concat(1 << 8, 1 << 12).replace("],\"outputs\"", last);
    assert_eq!(refused(&one_more), "at most 1048576 operands in a network");
}

#[test]
fn limits_of_names_items_and_bytes() {
    let named = |name: &str| TREE.replacen("\"h\"", &format!("\"{name}\""), 1);
    assert_eq!(refused(&named(&"x".repeat(256))), "");
    assert_eq!(refused(&named(&"x".repeat(257))), "a name of at most 256 bytes");
    assert_eq!(refused(&named(&"\\u0041".repeat(256))), "");
    assert_eq!(refused(&named(&"x".repeat(1 << 20))), "a name of at most 256 bytes");
    for (code, is_allowed) in
        [(0x00, false), (0x1f, false), (0x20, true), (0x7e, true), (0x7f, false), (0x9f, false)]
    {
        let expected = if is_allowed { "" } else { "a name without control characters" };
        assert_eq!(refused(&named(&format!("\\u{code:04x}"))), expected, "{code:x}");
    }
    assert_eq!(refused(&named("\u{a0}")), "");

    let parameters = |count: usize| {
        let items: Vec<String> =
            (0..count).map(|i| format!("{{\"name\":\"{i}\",\"shape\":[1]}}")).collect();
        let items = items.join(",");
        with_cells("").replace("\"parameters\":[", &format!("\"parameters\":[{items}"))
    };
    assert_eq!(refused(&parameters(1 << 16)), "");
    assert_eq!(refused(&parameters((1 << 16) + 1)), "a list of at most 65536 items");
    let fields = |counts: &[usize]| {
        let records: String = (0..)
            .zip(counts)
            .map(|(i, &count)| {
                let fields = vec!["{\"name\":\"x\",\"shape\":[1]}"; count].join(",");
                format!("{{\"name\":\"r{i}\",\"fields\":[{fields}]}},")
            })
            .collect();
        with_cells("").replace("\"records\":[", &format!("\"records\":[{records}"))
    };
    assert_eq!(refused(&fields(&[1 << 15, (1 << 15) - 1])), "");
    assert_eq!(refused(&fields(&[1 << 15, 1 << 15])), "at most 65536 fields in a network");
    assert_eq!(refused(&records(1 << 16)), "");
    assert_eq!(refused(&records((1 << 16) + 1)), "a list of at most 65536 items");
    let initial = |count: usize| {
        let items = vec!["{\"record\":\"r\",\"parameters\":[\"p\"]}"; count].join(",");
        with_cells("")
            .replace("\"parameters\":[", "\"parameters\":[{\"name\":\"p\",\"shape\":[1]}")
            .replace("\"initial_values\":[", &format!("\"initial_values\":[{items}"))
    };
    assert_eq!(refused(&initial(1 << 16)), "");
    assert_eq!(refused(&initial((1 << 16) + 1)), "a list of at most 65536 items");
    let ports = |count: usize| {
        let ports = vec!["{\"name\":\"p\",\"record\":\"r\"}"; count].join(",");
        chains(2, 1).replacen("\"ports\":[]", &format!("\"ports\":[{ports}]"), 1).replacen(
            "\"ports\":[]",
            "\"ports\":[{\"name\":\"p\",\"record\":\"r\"}]",
            1,
        )
    };
    assert_eq!(refused(&ports((1 << 16) - 1)), "");
    assert_eq!(refused(&ports(1 << 16)), "at most 65536 tables and ports in a network");

    let padded = |bytes: usize| format!("{TREE}{}", " ".repeat(bytes - TREE.len()));
    assert_eq!(refused(&padded(MAX_BYTES)), "");
    assert_eq!(refused(&padded(MAX_BYTES + 1)), "at most 67108864 bytes");
    // Values of members that do not exist are not parsed, however deep.
    for deep in ["[", "{\"a\":"] {
        assert_ne!(refused(&TREE.replacen("100, 4", &deep.repeat(1 << 20), 1)), "");
    }
}

#[test]
fn limits_of_shapes_and_numbers() {
    let field = |dims: &str| {
        let field =
            format!("{{\"name\": \"x\", \"fields\": [{{\"name\": \"x\", \"shape\": {dims}}}]}}");
        TREE.replacen("\"records\": [", &format!("\"records\": [{field},"), 1)
    };
    for (dims, is_allowed) in [
        ("[2147483647]", true),
        ("[2147483648]", false),
        ("[32767, 65537]", true),
        ("[32768, 65536]", false),
        ("[18446744073709551615, 18446744073709551615]", false),
    ] {
        assert_eq!(refused(&field(dims)).is_empty(), is_allowed, "{dims}");
    }
    let constant = |number: &str| TREE.replacen("0.1", number, 1);
    for (number, is_allowed) in [
        ("3.4028235e38", true),
        ("3.4028236e38", false),
        ("-3.4028235e38", true),
        ("-3.4028236e38", false),
    ] {
        assert_eq!(refused(&constant(number)).is_empty(), is_allowed, "{number}");
    }
}
