//! DAGNN (Thost and Chen, ICLR 2021): a node attends to its predecessors, by scores that each
//! computes of itself, and a GRU combines them with the node's own input.
//!
//! `cargo run --release -p edbatch --example dagnn`:
//!
//! ```text
//! the first graph: [0.0082, 0.0119, 0.0253]
//! ```

use std::sync::Arc;

use edbatch::graph::{CellBuilder, CellError, Kind, Network, RecordId, Shape, Tensor, Value};
use edbatch::models::{Build, BuildError, Model};
use edbatch::{Engine, runtime::Parameters};
use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};

const CLASSES: usize = 3;

pub(crate) struct Dagnn {
    pub(crate) network: Arc<Network>,
    none: Value,
    embed: Kind,
    layers: [Kind; 2],
    classify: Kind,
}

impl Dagnn {
    pub(crate) fn new(types: usize, hidden: usize) -> Result<Self, CellError> {
        let mut network = Network::new();
        let fields = [("h", Shape::Vector(hidden as u32)), ("score", Shape::Vector(1))];
        let state = network.record("state", fields)?;
        let logits = network.record("logits", [("y", Shape::Vector(CLASSES as u32))])?;
        let none = network.initial(state, &["none.h", "none.score"])?;
        let embed = network.cell("embed", state, |cell| {
            let x = cell.lookup("type", "embed", &[types, hidden]);
            vec![x, cell.constant(0.0, Shape::Vector(1))]
        })?;
        let mut layer = |n| network.cell(&format!("layer {n}"), state, |cell| gru(cell, n, state));
        let layers = [layer(0)?, layer(1)?];
        let classify = network.cell("classify", logits, |cell| {
            let [h, _] = cell.many("nodes", state).max();
            vec![cell.parameter("classes", &[CLASSES, hidden]).matmul(h)]
        })?;
        Ok(Self { network: Arc::new(network), none, embed, layers, classify })
    }
}

/// The GRU of a layer: its input is the layer below, its state the message of the predecessors.
fn gru(cell: &CellBuilder, layer: usize, state: RecordId) -> Vec<Tensor<'_>> {
    let [x, _] = cell.one("below", state);
    let h = cell.many("predecessors", state).softmax_sum("score", "h");
    let size = x.shape().elements();
    let weight = |name: &str, rows| cell.parameter(&format!("{layer}.{name}"), &[rows, size]);
    let [r, z] = ["r", "z"].map(|gate| {
        let [w, u] = ["w", "u"].map(|p| weight(&format!("{p}_{gate}"), size));
        (w.matmul(x) + u.matmul(h)).sigmoid()
    });
    let n = (weight("w_n", size).matmul(x) + r * weight("u_n", size).matmul(h)).tanh();
    let next = n + z * (h - n);
    vec![next, weight("score", 1).matmul(next)]
}

impl Model for Dagnn {
    /// Nodes, each with its type and the indices of its predecessors, which are earlier nodes.
    type Input = Vec<(u32, Vec<usize>)>;

    fn network(&self) -> &Arc<Network> {
        &self.network
    }

    async fn build(&self, build: &Build<'_>, dag: &Self::Input) -> Result<(), BuildError> {
        let embed = |(node, _): &(u32, _)| build.call(self.embed, &[*node], &[]);
        let mut states: Vec<Value> = dag.iter().map(embed).collect::<Result<_, _>>()?;
        for layer in &self.layers {
            // From node to node, the state of the layer replaces the one below.
            for (node, (_, before)) in dag.iter().enumerate() {
                let mut values = vec![states[node]];
                values.extend(before.iter().map(|&node| states[node]));
                values.extend(before.is_empty().then_some(self.none));
                states[node] = build.call(*layer, &[], &values)?;
            }
        }
        build.emit(build.call(self.classify, &[], &states)?);
        Ok(())
    }
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut node = |node| {
        let before = (0..node).filter(|_| rng.random_range(0..node + 1) < 2).collect();
        (rng.random_range(0..10), before)
    };
    let dags: Vec<_> = (5..25).map(|nodes| (0..nodes).map(&mut node).collect::<Vec<_>>()).collect();
    let model = Dagnn::new(10, 32)?;
    let parameters = Parameters::random(&model.network, &mut rng);
    let outputs = Engine::new(model, parameters)?.run(&dags)?;
    println!("the first graph: {:.4?}", outputs[0].row(0));
    Ok(())
}
