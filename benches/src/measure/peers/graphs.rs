//! The graphs given to a peer, as JSON.

use edbatch_graph::{Dag, Graph, NodeId, Source, Value};
use serde::Serialize;

use crate::measure::unrolled::Unrolled;
use crate::measure::workload::{MiniBatch, Part, Workload};

/// All mini-batches.
#[derive(Serialize)]
pub(super) struct Graphs<'a> {
    model: &'a str,
    cells: Vec<String>,
    mini_batches: Vec<Calls>,
}

/// The calls of a mini-batch.
#[derive(Serialize)]
struct Calls {
    /// For each call: the cell, the rows of tables, and the values. A value is the index of a call,
    /// or a negative number for an initial value.
    calls: Vec<(usize, Vec<u32>, Vec<i64>)>,
    wanted: Vec<i64>,
}

impl<'a> Graphs<'a> {
    pub(super) fn new(model: &'a str, workload: &dyn Workload, mini_batches: &[MiniBatch]) -> Self {
        let cells = workload.network().cells().iter().map(|cell| cell.name().into()).collect();
        let calls = |&mini_batch: &MiniBatch| {
            let unrolled = workload.unroll(Part::Test, mini_batch);
            let [Unrolled { graph, wanted }] = &unrolled[..] else {
                unreachable!("none of these models awaits a value");
            };
            Calls::new(graph, wanted)
        };
        Self { model, cells, mini_batches: mini_batches.iter().map(calls).collect() }
    }
}

impl Calls {
    fn new(graph: &Graph, wanted: &[Value]) -> Self {
        let number = |value: Value| match value.source() {
            Source::Given(index) => -1 - index as i64,
            Source::Node(node) => node.index() as i64,
        };
        let call = |node: NodeId| {
            let values = graph.values(node).map(number).collect();
            (graph.kind(node).index(), graph.rows(node).to_vec(), values)
        };
        Self {
            calls: (0..graph.nodes()).map(|node| call(NodeId::new(node))).collect(),
            wanted: wanted.iter().map(|&value| number(value)).collect(),
        }
    }
}
