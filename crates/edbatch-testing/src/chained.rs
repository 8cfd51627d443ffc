//! Graphs whose calls name rows by the argmax of values.

use std::sync::Arc;

use edbatch_graph::{CellError, Dag, Graph, Kind, Network, NodeId, Row, Shape, Source, Value};
use edbatch_runtime::kernels::{Level, arg_max};
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use crate::Subject;
use crate::networks::Random;

/// The elements of scores, and the rows of the smallest table.
const SCORES: usize = 9;

/// Returns a subject whose calls name about half of their rows by the argmax of an earlier value,
/// which may be a given one or have two fields. Odd seeds have states of 64 elements, which may run
/// as unit tiles.
///
/// # Panics
/// Never: the calls fit.
#[must_use]
pub fn chained(seed: u64) -> Subject {
    let mut rng = Random::seed_from_u64(seed);
    let (network, start) = network([7, 64][seed as usize % 2]).expect("cells whose shapes fit");
    let network = Arc::new(network);
    let mut graph = Graph::new(network.clone());
    let mut values = vec![start];
    // The first call makes scores, and the next ones read these.
    let (mut small, scores) = (Vec::new(), Kind(1));
    for call in 0..rng.random_range(10..60) {
        let kind = if call == 0 { scores } else { Kind(rng.random_range(0..3)) };
        let cell = &network[kind];
        let rows = cell.tables().iter().map(|table| match small.choose(&mut rng) {
            Some(&value) if rng.random_bool(0.5) => Row::ArgMax(value),
            _ => Row::Index(rng.random_range(0..table.rows)),
        });
        let rows: Vec<Row> = rows.collect();
        let count = if cell.is_variadic() { rng.random_range(1..4) } else { 1 };
        let arguments: Vec<Value> =
            (0..count).map(|_| *values.choose(&mut rng).expect("a state")).collect();
        let made = graph.call_by(kind, &rows, &arguments).expect("rows and arguments that fit");
        match kind {
            Kind(0) => values.push(made),
            _ => small.push(made),
        }
        if call == 0 && elements(&graph, start) <= SCORES {
            small.push(start);
        }
    }
    Subject::of(network, graph, &mut rng)
}

/// A recurrent cell that reads a word, a cell of scores, and a cell that reads two tables and any
/// number of states.
fn network(width: usize) -> Result<(Network, Value), CellError> {
    let mut network = Network::new();
    let vector = |elements: usize| Shape::Vector(elements as u32);
    let state = network.record("state", [("h", vector(width))])?;
    let scores = network.record("scores", [("y", vector(SCORES))])?;
    let pair = network.record("pair", [("a", vector(3)), ("b", vector(4))])?;
    let start = network.initial(state, &["h0"])?;
    network.cell("step", state, |cell| {
        let (word, [h]) = (cell.lookup("word", "words", &[SCORES, width]), cell.one("h", state));
        let [w, u] = ["w", "u"].map(|name| cell.parameter(name, &[width, width]));
        vec![(w.matmul(word) + u.matmul(h)).tanh()]
    })?;
    network.cell("score", scores, |cell| {
        let [h] = cell.one("h", state);
        vec![cell.parameter("out", &[SCORES, width]).matmul(h)]
    })?;
    network.cell("pair", pair, |cell| {
        let left = cell.lookup("left", "left", &[SCORES, 3]);
        let right = cell.lookup("right", "right", &[SCORES + 2, 4]);
        let [sum] = cell.many("all", state).sum();
        let v = cell.parameter("v", &[3, width]).matmul(sum);
        vec![left + v, cell.parameter("s", &[4, 4]).matmul(right).tanh()]
    })?;
    Ok((network, start))
}

/// Returns the graph of a subject with an index in place of each argmax. `bits` has all fields of
/// all nodes.
///
/// # Panics
/// If there are fewer bits.
#[must_use]
pub fn resolved(subject: &Subject, bits: &[u32]) -> Graph {
    let Subject { graph, initial, .. } = subject;
    let mut ends = vec![0];
    for node in (0..graph.nodes()).map(NodeId::new) {
        ends.push(ends[node.index()] + elements(graph, node.into()));
    }
    let mut plain = Graph::new(graph.network().clone());
    for node in (0..graph.nodes()).map(NodeId::new) {
        let row = |table| match graph.row(node, table) {
            Row::Index(index) => index,
            Row::ArgMax(value) => {
                let row: Vec<f32> = match value.source() {
                    Source::Given(index) => initial.row(index).to_vec(),
                    Source::Node(NodeId(node)) => {
                        let own = &bits[ends[node as usize]..ends[node as usize + 1]];
                        own.iter().map(|&bits| f32::from_bits(bits)).collect()
                    }
                };
                arg_max(Level::Portable, &row).index
            }
        };
        let rows: Vec<u32> = (0..graph.rows(node).len()).map(row).collect();
        let value = |value: Value| match value.source() {
            Source::Node(node) => node.into(),
            Source::Given(index) => plain.given_value(index).expect("an initial value"),
        };
        let values: Vec<Value> = graph.values(node).map(value).collect();
        plain.call(graph.kind(node), &rows, &values).expect("rows and values that fit");
    }
    plain
}

fn elements(graph: &Graph, value: Value) -> usize {
    let record = graph.record_of(value).expect("a value of the graph");
    graph.network().fields(record).fields.iter().map(|field| field.shape.elements()).sum()
}
