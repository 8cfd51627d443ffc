//! Measures the cost of a call: builds a tree and a lattice, and prints the minimum time per node.
//!
//! ```text
//! cargo run --release -p edbatch-graph --example build_cost
//! ```

use std::sync::Arc;
use std::time::{Duration, Instant};

use edbatch_graph::{CallError, CellError, Dag, Graph, Kind, Network, RecordId, Shape, Value};

/// The approximate number of calls in each graph.
const NODES: usize = 10_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut network = Network::new();
    let state = network.record("state", [("h", Shape::Vector(8)), ("c", Shape::Vector(8))])?;
    let start = network.initial(state, &["h0", "c0"])?;
    let tree = tree_cells(&mut network, state)?;
    let word = lattice_cell(&mut network, state)?;
    let mut graph = Graph::new(Arc::new(network));

    measure("tree, two children a node", &mut graph, |graph| build_tree(graph, tree).map(drop))?;
    let mut states = Vec::new();
    measure("lattice, 1 to 4 values a call", &mut graph, |graph| {
        build_lattice(graph, word, start, &mut states)
    })?;
    Ok(())
}

/// Prints the minimum time per node of `build`, over many repetitions.
fn measure(
    what: &str,
    graph: &mut Graph,
    mut build: impl FnMut(&mut Graph) -> Result<(), CallError>,
) -> Result<(), CallError> {
    let mut least = Duration::MAX;
    for _ in 0..2_000 {
        graph.clear();
        let start = Instant::now();
        build(graph)?;
        least = least.min(start.elapsed());
    }
    let nodes = graph.nodes();
    let each = least.as_nanos() as f64 / nodes as f64;
    println!("{what}: {each:.1} ns a node ({nodes} nodes)");
    Ok(())
}

fn tree_cells(network: &mut Network, state: RecordId) -> Result<[Kind; 2], CellError> {
    let leaf = network.cell("leaf", state, |cell| {
        let h = cell.lookup("token", "embed", &[1000, 8]);
        vec![h, h.tanh()]
    })?;
    let inner = network.cell("inner", state, |cell| {
        let [lh, lc] = cell.one("left", state);
        let [rh, rc] = cell.one("right", state);
        vec![lh + rh, lc + rc]
    })?;
    Ok([leaf, inner])
}

fn lattice_cell(network: &mut Network, state: RecordId) -> Result<Kind, CellError> {
    network.cell("word", state, |cell| {
        let x = cell.lookup("word", "embed", &[1000, 8]);
        let [h, c] = cell.many("arcs", state).mean();
        vec![h + x, c]
    })
}

/// Builds a complete binary tree in post-order.
fn build_tree(graph: &mut Graph, [leaf, inner]: [Kind; 2]) -> Result<Value, CallError> {
    let mut stack = Vec::with_capacity(32);
    for token in 0..NODES as u32 / 2 {
        let mut value = graph.call(leaf, &[token % 1000], &[])?;
        for _ in 0..token.trailing_ones() {
            let left = stack.pop().expect("an earlier sibling for every carry");
            value = graph.call(inner, &[], &[left, value])?;
        }
        stack.push(value);
    }
    let mut root = stack.pop().expect("at least one leaf");
    while let Some(left) = stack.pop() {
        root = graph.call(inner, &[], &[left, root])?;
    }
    Ok(root)
}

/// Builds a lattice in which every state reads one to four predecessors.
fn build_lattice(
    graph: &mut Graph,
    word: Kind,
    start: Value,
    states: &mut Vec<Value>,
) -> Result<(), CallError> {
    states.clear();
    states.push(start);
    for position in 0..NODES as u32 {
        let arcs = states.len().min(1 + (position as usize & 3));
        let latest = &states[states.len() - arcs..];
        states.push(graph.call(word, &[position % 1000], latest)?);
    }
    Ok(())
}
