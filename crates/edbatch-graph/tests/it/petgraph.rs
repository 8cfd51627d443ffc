//! petgraph's algorithms on the view agree with naive ones on the graph.

use edbatch_graph::{Dag, NodeId, Petgraph, parse_text};
use petgraph::Direction;
use petgraph::algo::{dijkstra, has_path_connecting, is_cyclic_directed, toposort};
use petgraph::dot::Dot;
use petgraph::visit::{
    Bfs, Dfs, EdgeCount, EdgeIndexable, EdgeRef, GraphProp, IntoEdgeReferences, IntoEdges,
    IntoEdgesDirected, IntoNeighbors, IntoNeighborsDirected, IntoNodeIdentifiers,
    IntoNodeReferences, NodeCount, NodeIndexable, Reversed, Topo, VisitMap, Visitable, Walker,
};
use proptest::prelude::*;

use crate::dags::{graphs, plain_dags};

/// The length of the longest path to every node.
fn depths(dag: &impl Dag) -> Vec<u32> {
    let mut depths = Vec::with_capacity(dag.nodes());
    for node in (0..dag.nodes()).map(NodeId::new) {
        let depth = dag.arguments(node).map(|a| depths[a.index()] + 1).max();
        depths.push(depth.unwrap_or(0));
    }
    depths
}

/// The nodes that depend on `root`.
fn reachable(dag: &impl Dag, root: NodeId) -> Vec<bool> {
    let mut seen = vec![false; dag.nodes()];
    for node in (0..dag.nodes()).map(NodeId::new) {
        seen[node.index()] = node == root || dag.arguments(node).any(|a| seen[a.index()]);
    }
    seen
}

fn agrees(dag: &impl Dag) {
    let view = Petgraph::new(dag);
    let nodes = || (0..dag.nodes()).map(NodeId::new);
    assert!(view.is_directed());
    assert_eq!(view.node_count(), dag.nodes());
    assert_eq!(view.node_bound(), dag.nodes());
    assert!((&view).node_identifiers().eq(nodes()));
    for (node, kind) in view.node_references() {
        assert_eq!(*kind, dag.kind(node));
    }

    // Every argument is one edge, and both of its ends list it.
    let mut edges = view.edge_references();
    for node in nodes() {
        let arguments: Vec<NodeId> = dag.arguments(node).collect();
        for (position, &argument) in arguments.iter().enumerate() {
            let edge = edges.next().expect("an edge per argument");
            assert_eq!((edge.source(), edge.target()), (argument, node));
            assert_eq!(*edge.weight(), position as u32);
            assert_eq!(view.edge(edge.id()), edge);
            assert_eq!(EdgeIndexable::from_index(&view, edge.id().0 as usize), edge.id());
            assert!(view.edges(argument).any(|other| other == edge));
        }
        let incoming = view.edges_directed(node, Direction::Incoming);
        assert!(incoming.map(|edge| edge.source()).eq(arguments.iter().copied()));
        assert!(view.neighbors_directed(node, Direction::Incoming).eq(arguments));
        assert!(view.neighbors(node).eq(view.edges(node).map(|edge| edge.target())));
    }
    assert!(edges.next().is_none());
    assert_eq!(view.edge_count(), view.edge_bound());

    let order = toposort(&view, None).expect("no cycle");
    let mut place = vec![0; dag.nodes()];
    for (i, node) in order.iter().enumerate() {
        place[node.index()] = i;
    }
    assert_eq!(order.len(), dag.nodes());
    for node in nodes() {
        assert!(dag.arguments(node).all(|a| place[a.index()] < place[node.index()]));
    }
    assert!(!is_cyclic_directed(&view));

    // Longest paths, in petgraph's order and along its edges.
    let mut longest = vec![0; dag.nodes()];
    for node in Topo::new(&view).iter(&view) {
        for edge in view.edges(node) {
            let through = longest[node.index()] + 1;
            let known = &mut longest[edge.target().index()];
            *known = through.max(*known);
        }
    }
    assert_eq!(longest, depths(dag));

    for root in nodes().take(3) {
        let expected = reachable(dag, root);
        let count = expected.iter().filter(|&&seen| seen).count();
        let dfs: Vec<NodeId> = Dfs::new(&view, root).iter(&view).collect();
        assert_eq!(dfs.len(), count);
        assert!(dfs.iter().all(|node| expected[node.index()]));
        assert_eq!(Bfs::new(&view, root).iter(&view).count(), count);
        assert_eq!(dijkstra(&view, root, None, |_| 1).len(), count);
        for node in nodes() {
            let connected = has_path_connecting(&view, root, node, None);
            assert_eq!(connected, expected[node.index()]);
            assert_eq!(connected, has_path_connecting(Reversed(&view), node, root, None));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn petgraph_agrees_with_the_arguments(dag in plain_dags(), graph in graphs()) {
        agrees(&dag);
        agrees(&graph);
    }
}

#[test]
fn visited_nodes_can_be_reset() {
    let view = Petgraph::new(&parse_text("2\n0 0\n0 1 0\n").unwrap());
    let mut seen = view.visit_map();
    assert!(seen.visit(NodeId(1)) && !seen.visit(NodeId(1)));
    assert!(seen.unvisit(NodeId(1)) && !seen.unvisit(NodeId(1)));
    seen.visit(NodeId(0));
    view.reset_map(&mut seen);
    assert!(!seen.is_visited(&NodeId(0)));
}

#[test]
fn dot_shows_kinds_and_argument_positions() {
    let view = Petgraph::new(&parse_text("2\n0 0\n1 2 0 0\n").unwrap());
    assert_eq!(
        Dot::new(&view).to_string(),
        "digraph {\n    \
             0 [ label = \"k0\" ]\n    \
             1 [ label = \"k1\" ]\n    \
             0 -> 1 [ label = \"0\" ]\n    \
             0 -> 1 [ label = \"1\" ]\n\
         }\n"
    );
}
