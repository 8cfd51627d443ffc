//! `Graph::call` rejects exactly the invalid calls, with the right message.

use std::sync::Arc;

use edbatch_graph::{CallErrorReason, Dag, Graph, Kind, Network, NodeId, Shape, Source, Value};
use proptest::collection::vec;
use proptest::prelude::*;

/// A network with two records, so that a value can have the wrong one.
struct Zoo {
    graph: Graph,
    start: Value,
    leaf: Kind,
    score: Kind,
    mix: Kind,
}

fn zoo() -> Zoo {
    let mut network = Network::new();
    let state = network.record("state", [("h", Shape::Vector(2))]).unwrap();
    let logits = network.record("logits", [("y", Shape::Vector(3))]).unwrap();
    let start = network.initial(state, &["h0"]).unwrap();
    let leaf = network.cell("leaf", state, |cell| {
        let token = cell.lookup("token", "embed", &[10, 2]);
        vec![token + cell.lookup("position", "places", &[4, 2])]
    });
    let score = network.cell("score", logits, |cell| {
        let [h] = cell.one("state", state);
        vec![cell.parameter("w", &[3, 2]).matmul(h)]
    });
    let mix = network.cell("mix", state, |cell| {
        let [y] = cell.one("scores", logits);
        let [h] = cell.many("states", state).mean();
        vec![h + y.slice(0, 2)]
    });
    Zoo {
        leaf: leaf.unwrap(),
        score: score.unwrap(),
        mix: mix.unwrap(),
        start,
        graph: Graph::new(Arc::new(network)),
    }
}

#[test]
fn invalid_calls_are_errors() {
    let Zoo { mut graph, start, leaf, score, mix } = zoo();
    let h = graph.call(leaf, &[9, 3], &[]).unwrap();
    let y = graph.call(score, &[], &[h]).unwrap();
    let before = graph.to_string();
    let mut check = |cell: Kind, rows: &[u32], values: &[Value], expected: &str| {
        let error = graph.call(cell, rows, values).unwrap_err();
        assert_eq!(error.to_string(), expected);
        assert_eq!(graph.to_string(), before, "a refused call changes nothing");
    };
    check(Kind(3), &[], &[], "call of cell 3: does not exist: the network has 3 cells");
    check(leaf, &[1], &[], "call of leaf: expected 2 rows of tables, got 1");
    check(leaf, &[1, 1, 1], &[], "call of leaf: expected 2 rows of tables, got 3");
    check(score, &[7], &[h], "call of score: expected 0 rows of tables, got 1");
    check(leaf, &[10, 0], &[], "call of leaf: token: row 10 does not exist: the table has 10");
    check(
        leaf,
        &[0, u32::MAX],
        &[],
        "call of leaf: position: row 4294967295 does not exist: the table has 4",
    );
    check(leaf, &[0, 0], &[h], "call of leaf: expected 0 values, got 1");
    check(score, &[], &[], "call of score: expected 1 value, got 0");
    check(score, &[], &[h, h], "call of score: expected 1 value, got 2");
    check(mix, &[], &[], "call of mix: expected at least 2 values, got 0");
    check(mix, &[], &[y], "call of mix: states: expected at least one value, got none");
    check(
        score,
        &[],
        &[y],
        "call of score: state: expected a value of record state, got one of logits",
    );
    check(
        mix,
        &[],
        &[y, h, start, y],
        "call of mix: states: expected a value of record state, got one of logits",
    );
    let carry = "a value that is used after an await must be carried across it";
    check(
        score,
        &[],
        &[NodeId(2).into()],
        &format!(
            "call of score: state: expected a value of this graph, got Node(NodeId(2)); {carry}"
        ),
    );
    let other = zoo().graph.give(graph.network()[leaf].record());
    let error = graph.call(score, &[], &[other]).unwrap_err();
    let (port, value) = ("state".into(), Source::Given(1));
    assert_eq!(error.reason, CallErrorReason::NotInGraph { port, value });

    let mut network = Network::new();
    let one = network.record("one", [("x", Shape::Vector(1))]).unwrap();
    let pick = network
        .cell("pick", one, |cell| vec![cell.parameter("w", &[3]).select(cell.index("class", 3))]);
    let error = Graph::new(Arc::new(network)).call(pick.unwrap(), &[3], &[]).unwrap_err();
    assert_eq!(error.to_string(), "call of pick: class: expected a number below 3, got 3");
}

/// The expected error of a call, derived from the network alone; `None` if the call is valid.
fn naive(graph: &Graph, cell: Kind, rows: &[u32], values: &[Value]) -> Option<String> {
    let network = graph.network();
    let Some(called) = network.cells().get(cell.index()) else {
        return Some("does not exist".into());
    };
    if rows.len() != called.tables().len() {
        return Some("rows of tables".into());
    }
    for (table, &row) in called.tables().iter().zip(rows) {
        if row >= table.rows {
            return Some(format!("{}: row {row} does not exist", table.name));
        }
    }
    let (ports, got) = (called.ports(), values.len());
    let counts = if called.is_variadic() { got >= ports.len() } else { got == ports.len() };
    if called.is_variadic() && got + 1 == ports.len() {
        return Some(format!("{}: expected at least one value", ports[got].name));
    }
    if !counts {
        return Some(format!("got {got}"));
    }
    for (i, value) in values.iter().enumerate() {
        let port = ports.get(i).or(ports.last())?;
        let is = match value.source() {
            Source::Node(node) if node.index() < graph.nodes() => {
                network[graph.kind(node)].record()
            }
            Source::Given(index) if index < graph.given().len() => graph.given()[index],
            _ => return Some(format!("{}: expected a value of this graph", port.name)),
        };
        if is != port.record {
            return Some(format!("{}: expected a value of record", port.name));
        }
    }
    None
}

proptest! {
    #[test]
    fn exactly_the_invalid_calls_are_errors(
        calls in vec((0u16..5, vec(0u32..12, 0..3), vec(0usize..40, 0..4)), 0..60),
    ) {
        let Zoo { mut graph, start, leaf, score, .. } = zoo();
        // Includes a value of another graph, and nodes that do not exist.
        let foreign = zoo().graph.give(graph.network()[score].record());
        let mut pool = vec![start, foreign, NodeId(1 << 20).into(), NodeId((1 << 28) - 1).into()];
        pool.push(graph.call(leaf, &[0, 0], &[])?);
        pool.push(graph.call(score, &[], &[start])?);
        for (cell, rows, picks) in calls {
            let picked = picks.iter().map(|pick| pool[pick % pool.len()]);
            let values: Vec<Value> = picked.collect();
            let nodes = graph.nodes();
            let expected = naive(&graph, Kind(cell), &rows, &values);
            let mut other = graph.clone();
            let called = graph.call(Kind(cell), &rows, &values);
            if rows.is_empty() {
                prop_assert_eq!(&other.call_with(Kind(cell), &values, |&value| value), &called);
                prop_assert_eq!(&other, &graph);
            }
            match (called, expected) {
                (Ok(value), None) => {
                    prop_assert_eq!(value.source(), Source::Node(NodeId::new(nodes)));
                    let node = NodeId::new(nodes);
                    prop_assert_eq!(graph.rows(node), &rows[..]);
                    prop_assert!(graph.values(node).eq(values));
                    pool.push(value);
                }
                (Err(error), Some(part)) => {
                    let message = error.to_string();
                    prop_assert!(message.contains(&part), "{message:?} should say {part:?}");
                    prop_assert_eq!(graph.nodes(), nodes);
                }
                (got, expected) => prop_assert!(false, "{got:?}, but expected {expected:?}"),
            }
        }
    }
}
