//! Drawings in DOT, compared as text.

use std::sync::Arc;

use edbatch_graph::{Graph, Kind, Network, PlainDag, Shape};

use crate::dags;

#[test]
fn a_graph_is_drawn() {
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
    0 [ label = "n0\lleaf\ltoken #7" fillcolor=1]
    1 [ label = "n1\lpair" fillcolor=2]
    2 [ label = "n2\lany" fillcolor=3]
    3 [ label = "g0\lh0" shape=note, style=solid]
    4 [ label = "g1\lstate" shape=note, style=solid]
    3 -> 1 [ label = "left" ]
    0 -> 1 [ label = "right" ]
    0 -> 2 [ label = "" ]
    1 -> 2 [ label = "" ]
    4 -> 2 [ label = "" ]
}
"#
    );
}

#[test]
fn a_cell_is_drawn() {
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
    label = "step"
    node [shape=box, style=filled, colorscheme=set312]
    0 [ label = "v0\lembed[token]\l[3]" shape=note, style=solid]
    1 [ label = "v1\lmean arcs*.h\l[2]" shape=note, style=solid]
    2 [ label = "v2\lw\l[2, 3]" shape=note, style=solid]
    3 [ label = "v3\lmatmul\l[2]" fillcolor=1]
    4 [ label = "v4\ladd\l[2]" fillcolor=2]
    5 [ label = "v5\ltanh\l[2]" fillcolor=3]
    6 [ label = "h\l[2]" shape=ellipse, style=solid]
    2 -> 3 [ label = "0" ]
    0 -> 3 [ label = "1" ]
    3 -> 4 [ label = "0" ]
    1 -> 4 [ label = "1" ]
    4 -> 5 [ label = "" ]
    5 -> 6 [ label = "" ]
}
"#
    );
}

#[test]
fn hostile_names_are_escaped() {
    let mut dag = PlainDag::new(["a\"]; x -> y [\"\\", "二\n\u{0}\\N"]);
    dag.push(Kind(0), &[]).unwrap();
    dag.push(Kind(1), &[]).unwrap();
    assert_eq!(
        dag.dot().to_string(),
        "digraph {\n    node [shape=box, style=filled, colorscheme=set312]\n    \
         0 [ label = \"n0\\la\\\"]; x -> y [\\\"\\\\\" fillcolor=1]\n    \
         1 [ label = \"n1\\l二\\l\u{fffd}\\\\N\" fillcolor=2]\n}\n"
    );
}

#[test]
fn an_empty_graph_is_drawn() {
    let graph = Graph::new(Arc::new(Network::new()));
    assert_eq!(graph.dot().to_string(), PlainDag::new(["a"]).dot().to_string());
}
