//! Broken networks: each error names the record, cell, table, port or operation.

use super::*;

/// A network in which every kind of item occurs.
const NETWORK: &str = r#"{"edbatch_network": 1,
"records": [{"name": "state", "fields": [{"name": "h", "shape": [4]}]}],
"parameters": [{"name": "embed", "shape": [9, 4]}, {"name": "w", "shape": [4, 4]},
{"name": "z", "shape": [4]}],
"initial_values": [{"record": "state", "parameters": ["z"]}],
"cells": [{"name": "node", "record": "state",
"tables": [{"name": "word", "parameter": "embed"}, {"name": "side", "size": 4}],
"ports": [{"name": "first", "record": "state"}, {"name": "rest", "record": "state", "many": true}],
"operations": [
{"op": "lookup", "table": 0},
{"op": "reduce", "port": 1, "field": 0, "by": "sum"},
{"op": "parameter", "name": "w"},
{"op": "matmul", "operands": [2, 1]},
{"op": "constant", "value": 1, "shape": [4]},
{"op": "add", "operands": [3, 4]},
{"op": "reshape", "shape": [2, 2], "operands": [5]},
{"op": "reshape", "shape": [4], "operands": [6]}],
"outputs": [7]}]}"#;

/// Changes of the network, each with the item that the error names.
const BROKEN: &str = r#"
"h", "shape": [4] => "h", "shape": [] => record state: field h
"h", "shape": [4] => "h", "shape": [2, 2, 2] => record state: field h
"h", "shape": [4] => "h", "shape": [-4] => record state: field h
"h", "shape": [4] => "h", "shape": [4.0] => record state: field h
"h", "shape": [4] => "h", "shape": 4 => record state: field h
"h", "shape": [4] => "h", "shape": [18446744073709551616] => record state: field h
"h", "shape": [4] => "h" => record state: field h
"h", "shape": [4] => "h", "shape": [4], "kind": 1 => record state: field h
"w", "shape": [4, 4] => "w", "shape": [4294967296, 4294967296] => parameter w
"w", "shape": [4, 4] => "w", "shape": [4, -1] => parameter w
"w", "shape": [4, 4] => "w", "shape": null => parameter w
"w", "shape": [4, 4] => "w" => parameter w
{"name": "w" => {"name": "__metadata__" => parameter __metadata__
{"name": "w" => {"name": 7 => parameter
"parameters": ["z"] => "parameters": ["z", 3] => an initial value
"parameters": ["z"] => "parameters": ["z", "z"] => initial value of state
"parameters": ["z"] => "parameters": "z" => an initial value
"parameters": ["z"] => "parameter": ["z"] => an initial value
"node", "record": "state" => "node", "record": 1 => cell node
"parameter": "embed" => "parameter": 1 => cell node: table word
"parameter": "embed" => "parameter": "embed", "size": 9 => cell node: table word
"parameter": "embed" => "rows": 9 => cell node: table word
"size": 4 => "size": 0 => cell node: index side
"size": 4 => "size": -4 => cell node: table side
"size": 4 => "size": 4294967296 => cell node: table side
"size": 4 => "size": 3000000000 => cell node: index side
"first", "record": "state" => "first", "record": "state", "many": true => cell node: port rest
"first", "record": "state" => "first", "record": "state", "many": null => cell node: port first
"first", "record": "state" => "first", "record": null => cell node: port first
"first", "record": "state" => "first" => cell node: port first
"outputs": [7] => "outputs": [-1] => cell node
"outputs": [7] => "outputs": [70] => cell node: return
"outputs": [7] => "outputs": [7, 7] => cell node: return
"outputs": [7] => "outputs": [] => cell node: return
"outputs": [7] => "output": [7] => cell node
"table": 0 => "table": -1 => cell node: v0, lookup
"table": 0 => "table": "word" => cell node: v0, lookup
"table": 0 => "table": 0, "operands": [] => cell node: v0, lookup
"port": 1 => "port": 2 => cell node: v1, reduce
"port": 1 => "port": 70000 => cell node: v1, reduce
"field": 0 => "field": 1 => cell node: v1, reduce
"field": 0 => "field": 0.5 => cell node: v1, reduce
"value": 1, "shape": [4] => "value": 1, "shape": [0] => cell node: v4, constant
"value": 1, "shape": [4] => "value": 1, "shape": [65536, 65536] => cell node: v4, constant
"value": 1, "shape": [4] => "value": 1, "shape": [9223372036854775808, 2] => cell node: v4, constant
"value": 1, "shape": [4] => "value": 1, "shape": 4 => cell node: v4, constant
"value": 1, "shape": [4] => "value": 1 => cell node: v4, constant
"shape": [2, 2], "operands" => "shape": [2, 3], "operands" => cell node: v6, reshape
"shape": [2, 2], "operands" => "shape": [0, 2], "operands" => cell node: v6, reshape
[3, 4] => [3, 4, 4] => cell node: v5, add
[3, 4] => [3] => cell node: v5, add
[3, 4] => [3, 40] => cell node: v5, add
[3, 4] => [3, -4] => cell node: v5, add
[3, 4] => [3, 4294967296] => cell node: v5, add
[3, 4] => [3, 1e2] => cell node: v5, add
[3, 4] => [3, [4]] => cell node: v5, add
[3, 4] => 3 => cell node: v5, add
"op": "add" => "op": 1 => cell node: v5
"op": "add" => "op": null => cell node: v5
"op": "add",  =>  => cell node: v5
{"op": "add", "operands": [3, 4]} => null => cell node: v5
"#;

#[test]
fn errors_name_the_item() {
    network_from_json(NETWORK).unwrap();
    for line in BROKEN.trim().lines() {
        let [from, to, item] = line.split(" => ").collect::<Vec<_>>()[..] else { panic!("{line}") };
        assert!(NETWORK.contains(from), "{from}");
        let error = network_from_json(&NETWORK.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(error.contains(item), "{line}: {error}");
    }
}

/// Errors quote at most 80 characters of the text, but the item in full.
#[test]
fn long_names_do_not_hide_the_operation() {
    let name = "x".repeat(200);
    for (from, to) in [
        ("[3, 4]", "[3, 40]"),
        ("\"op\": \"add\"", "\"op\": \"added\""),
        ("[3, 4]", "[3, 4, 4]"),
        ("\"op\": \"add\"", "\"op\": 7"),
    ] {
        let text = NETWORK.replacen("\"node\"", &format!("\"{name}\""), 1).replacen(from, to, 1);
        let error = network_from_json(&text).unwrap_err().to_string();
        assert!(error.contains(&format!("cell {name}: v5")), "{error}");
    }
}
