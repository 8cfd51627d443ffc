//! Lines with graphs: they are the lists of [`Graphs`], and errors have a place.

use super::tests::network;
use super::*;
use crate::{Feature, GraphCell, GraphEmit, Graphs};

fn read(line: &str) -> Result<CallList, String> {
    CallList::from_json(&network(), line).map_err(|fault| fault.to_string())
}

fn text(line: &str) -> String {
    let list = read(line).unwrap_or_else(|error| panic!("{error}"));
    let emitted = list.emitted().iter().map(|value| format!(" {:?}", value.source()));
    format!("{}emit{}", list.graph(), emitted.collect::<String>())
}

#[test]
fn a_line_with_a_graph_is_a_call_list() {
    let network = network();
    let line = r#"{"nodes": ["leaf", "halves", "sum", "sum"], "edges": [[1, 2], [0, 2], [2, 3]],
        "give": {"pair": [[1, 2, 3], [0.1, -0.0, 1e-45], [4, 5, 6], [7, 8, 9]]},
        "rows": [[4], [], [7, 7]  , []], "absent": -1, "emit": [3, 0, 3],
        "targets": [1, null, 0]}"#;
    let cells = [0, 2, 1].map(|kind| GraphCell::new(&network, Kind(kind)));
    let elements = [1.0, 2.0, 3.0, 0.1, -0.0, 1e-45, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0];
    let graphs = Graphs {
        cells: &cells,
        kinds: &[0, 1, 2, 2],
        edges: [&[1, 0, 2], &[2, 2, 3]],
        features: &[Feature { port: "pair", rows: Some((&[4, 3], &elements)) }],
        rows: Some((1, &[4, 0, 0, 0])),
        absent: Some(-1),
        emit: GraphEmit::Nodes(&[3, 0, 3]),
        ..Graphs::default()
    };
    let [mut expected] = graphs.call_lists(&network).unwrap().try_into().unwrap();
    expected.set_targets(Some(vec![Some(1), None, Some(0)])).unwrap();
    let list = read(line).unwrap();
    assert_eq!(list, expected);
    let calls = list.to_json().unwrap();
    assert!(calls.contains("\"calls\""), "{calls}");
    assert_eq!(read(&calls).unwrap(), list);
}

#[test]
fn options_of_a_line() {
    let line = r#"{"nodes": ["leaf", "sum", "leaf"], "edges": [[1, 0], [1, 2]],
        "rows": [[1], [], [2]], "reverse": true, "readout": "sum", "emit": "sinks"}"#;
    let list = "n0 = leaf(#1)\nn1 = leaf(#2)\nn2 = sum(n0, n1)\n";
    let with_many = line.replace(", \"readout\": \"sum\"", "");
    assert_eq!(text(&with_many), format!("{list}emit Node(NodeId(2))"));
    assert_eq!(
        text(&with_many.replace("sinks", "all")),
        format!("{list}emit Node(NodeId(0)) Node(NodeId(2)) Node(NodeId(1))")
    );
    let error = "1:1: expected a graph that fits its cells, got readout: cell sum: expected one \
                 port for values that are no features, got 2 (first, rest)";
    assert_eq!(read(line), Err(error.into()));
    let edges = r#"{"nodes": ["halves", "sum"], "edges": [[0, 1]], "absent": -1,
        "give": {"pair": [[1, 2, 3], [4, 5, 6]]}, "edge_cells": ["leaf"], "edge_rows": [[3]]}"#;
    assert!(read(edges).unwrap_err().contains("edge_cells: cell leaf: expected one port"));
    assert_eq!(text("{\"nodes\": []}"), "emit");
    assert_eq!(text("{\"nodes\": [], \"give\": {\"pair\": []}}"), "emit");
}

#[test]
fn faults_of_graphs_have_a_place() {
    for (line, expected) in [
        (r#"{"nodes": ["leaf"], "calls": []}"#, "1:1: expected nodes or calls, got both"),
        (r#"{"nodes": ["leaf", "x"]}"#, "1:1: expected a cell of the network, got \"x\""),
        (
            r#"{"nodes": ["leaf"]}"#,
            "1:1: expected a graph that fits its cells, got node 0: cell leaf reads the tables \
             ['token'], but there are no rows",
        ),
        (
            r#"{"nodes": ["leaf", "sum"], "rows": [[1]]}"#,
            "1:1: expected a graph that fits its cells, got rows: expected 2 rows, got 1",
        ),
        (
            r#"{"nodes": ["sum", "sum"], "edges": [[0, 1], [1, 0]]}"#,
            "1:1: expected a graph that fits its cells, got graph 0: cycle: 0 → 1 → 0",
        ),
        (
            r#"{"nodes": ["sum"], "edges": [[0, 1, 2]]}"#,
            "1:37: expected valid JSON, got \"2]]}\" (trailing characters)",
        ),
        (
            r#"{"nodes": ["sum"], "absent": 0}"#,
            "1:1: expected a graph that fits its cells, got absent: expected an initial value, got \
             0",
        ),
        (
            r#"{"nodes": ["halves"], "give": {"pair": [[1, 2]]}}"#,
            "1:1: expected a graph that fits its cells, got features pair: expected rows of 3 \
             elements, as record pair has, got an array of shape [1, 2]",
        ),
        (
            r#"{"nodes": ["halves", "leaf"], "give": {"pair": [[1, 2, 3], [1]]}}"#,
            "1:64: expected rows of 3 elements for pair, got another number in row 1",
        ),
        (
            r#"{"nodes": ["halves"], "give": {"pair": [[1, "2", 3]]}}"#,
            "1:53: expected a number, got \"2\" (element 1 of a pair)",
        ),
        (
            r#"{"nodes": ["halves"], "give": [["pair", [1, 2, 3]]]}"#,
            "1:30: expected an object, {\"port\": [[element, …], …]}, got \
             sequence",
        ),
        (
            r#"{"nodes": ["leaf"], "rows": [[1]], "targets": [2]}"#,
            "1:1: expected a graph that fits its cells, got targets: expected a class below 2 for \
             emitted value 0, got 2",
        ),
        (
            r#"{"nodes": ["leaf"], "rows": [[1]], "emit": "sink"}"#,
            "1:49: expected a list of items, got string \"sink\"",
        ),
    ] {
        assert_eq!(read(line), Err(expected.into()), "{line}");
    }
    let unknown = read(r#"{"nodes": ["leaf"], "node": 1}"#).unwrap_err();
    assert!(
        unknown.contains("`edge_give`") && unknown.contains("unknown member `node`"),
        "{unknown}"
    );
    let calls = read(r#"{"calls": [["leaf", "nodes"]]}"#).unwrap_err();
    assert!(calls.contains("a row of table token"), "{calls}");
}

#[test]
fn limits_of_a_graph() {
    let nodes = |count| format!("{{\"nodes\":[{}]}}", vec!["\"halves\""; count].join(","));
    assert!(read(&nodes((1 << 20) + 1)).unwrap_err().contains("at most 1048576 items"));
    let rows = format!("[{}]", vec!["1"; 1 << 12].join(","));
    let rows = [vec!["[]"; 1 << 12].join(","), rows].join(",");
    let line = format!("{{\"nodes\":[],\"rows\":[{rows}]}}");
    assert!(read(&line).unwrap_err().contains("at most 16777216 operands"));
    let nested = format!("{{\"nodes\":{}", "[".repeat(1 << 20));
    assert!(read(&nested).is_err());
}
