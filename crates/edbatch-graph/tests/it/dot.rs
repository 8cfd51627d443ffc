//! Pictures, as text: no Graphviz is needed to know what it would be given.

use std::sync::Arc;

use edbatch_graph::{Graph, Kind, Network, PlainDag, Shape};

use crate::dags;

#[test]
fn a_graph() {
    let (network, [leaf, pair, any], start) = dags::network();
    let mut graph = Graph::new(network);
    let carried = graph.give(graph.given()[0]);
    let x = graph.call(leaf, &[7], &[]).unwrap();
    let y = graph.call(pair, &[], &[start, x]).unwrap();
    graph.call(any, &[], &[x, y, carried]).unwrap();
    assert_eq!(
        graph.dot().to_string(),
        r#"digraph {
  node [shape=box, style=filled, colorscheme=set312]
  g0 [shape=note, style=solid, label="g0\nh0"]
  g1 [shape=note, style=solid, label="g1\nstate"]
  n0 [label="n0\nleaf\ntoken #7", fillcolor=1]
  n1 [label="n1\npair", fillcolor=2]
  n2 [label="n2\nany", fillcolor=3]
  g0 -> n1 [label="left"]
  n0 -> n1 [label="right"]
  n0 -> n2
  n1 -> n2
  g1 -> n2
}
"#
    );
}

#[test]
fn a_cell() {
    let mut network = Network::new();
    let state = network.record("state", [("h", Shape::Vector(2))]).unwrap();
    let cell = network.cell("step", state, |cell| {
        let x = cell.lookup("token", "embed", &[9, 3]);
        let [h] = cell.many("arcs", state).mean();
        vec![(cell.parameter("w", &[2, 3]).matmul(x) + h).tanh()]
    });
    assert_eq!(
        network[cell.unwrap()].dot(&network).to_string(),
        r#"digraph {
  label="step"
  node [shape=box, style=filled, colorscheme=set312]
  v0 [shape=note, style=solid, label="embed[token]\n[3]"]
  v1 [shape=note, style=solid, label="mean arcs*.h\n[2]"]
  v2 [shape=note, style=solid, label="w\n[2, 3]"]
  v3 [label="matmul\n[2]", fillcolor=1]
  v4 [label="add\n[2]", fillcolor=2]
  v5 [label="tanh\n[2]", fillcolor=3]
  r0 [shape=ellipse, style=solid, label="h\n[2]"]
  v2 -> v3 [label="0"]
  v0 -> v3 [label="1"]
  v3 -> v4 [label="0"]
  v1 -> v4 [label="1"]
  v4 -> v5
  v5 -> r0
}
"#
    );
}

#[test]
fn hostile_names_stay_inside_their_quotes() {
    let mut dag = PlainDag::new(["a\"]; x -> y [\"\\", "二\n\u{0}\\N"]);
    dag.push(Kind(0), &[]).unwrap();
    dag.push(Kind(1), &[]).unwrap();
    assert_eq!(
        dag.dot().to_string(),
        "digraph {\n  node [shape=box, style=filled, colorscheme=set312]\n  \
         n0 [label=\"n0\\na\\\"]; x -> y [\\\"\\\\\", fillcolor=1]\n  \
         n1 [label=\"n1\\n二\\n\u{fffd}\\\\N\", fillcolor=2]\n}\n"
    );
}

#[test]
fn an_empty_graph() {
    let graph = Graph::new(Arc::new(Network::new()));
    assert_eq!(graph.dot().to_string(), PlainDag::new(["a"]).dot().to_string());
}
