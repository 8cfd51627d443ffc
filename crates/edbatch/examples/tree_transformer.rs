//! A transformer over trees: each node attends to itself and its children, in four heads.
//!
//! The key and the value of a child depend on its position: a cell computes them for each edge.
//!
//! `cargo run --release -p edbatch --example tree_transformer`:
//!
//! ```text
//! the first root: [0.0352, -0.0215, -0.0200] …
//! ```

use std::sync::Arc;

use edbatch::datasets::{Tree, Vocabulary, fixtures};
use edbatch::graph::{CellBuilder, CellError, Kind, Network, Shape, Tensor, Value};
use edbatch::models::{Build, BuildError, Model};
use edbatch::{Engine, runtime::Parameters};
use rand::{SeedableRng, rngs::Xoshiro256PlusPlus};

const HEADS: usize = 4;
const POSITIONS: usize = 8; // Further children share the last one.

pub(crate) struct TreeTransformer {
    pub(crate) network: Arc<Network>,
    word: Kind,
    part: Kind,
    block: Kind,
}

impl TreeTransformer {
    pub(crate) fn new(words: usize, hidden: usize) -> Result<Self, CellError> {
        let shape = Shape::Vector(hidden as u32);
        let mut network = Network::new();
        let state = network.record("state", [("h", shape)])?;
        let edge = network.record("edge", [("k", shape), ("v", shape)])?;
        let word =
            network.cell("word", state, |c| vec![c.lookup("word", "embed", &[words, hidden])])?;
        let part = network.cell("part", edge, |cell| {
            let position = cell.lookup("position", "positions", &[POSITIONS, hidden]);
            let [h] = cell.one("state", state);
            let x = norm(cell, "attend.norm", h + position);
            vec![linear(cell, "k", hidden, x), linear(cell, "v", hidden, x)]
        })?;
        let block = network.cell("block", state, |cell| {
            let [h] = cell.one("own", state);
            let query = linear(cell, "q", hidden, norm(cell, "attend.norm", h));
            let scale = 1.0 / ((hidden / HEADS) as f32).sqrt();
            let attended = cell.many("parts", edge).attention(query, "k", "v", HEADS, scale);
            let h = h + linear(cell, "attended", hidden, attended);
            let inner = linear(cell, "up", 2 * hidden, norm(cell, "feed.norm", h)).gelu();
            vec![h + linear(cell, "down", hidden, inner)]
        })?;
        Ok(Self { network: Arc::new(network), word, part, block })
    }
}

fn norm<'c>(cell: &'c CellBuilder, name: &str, x: Tensor<'c>) -> Tensor<'c> {
    let size = x.shape().elements();
    let [gain, bias] = ["gain", "bias"].map(|p| cell.parameter(&format!("{name}.{p}"), &[size]));
    x.layer_norm(1e-5) * gain + bias
}

fn linear<'c>(cell: &'c CellBuilder, name: &str, rows: usize, x: Tensor<'c>) -> Tensor<'c> {
    let w = cell.parameter(&format!("{name}.w"), &[rows, x.shape().elements()]);
    w.matmul(x) + cell.parameter(&format!("{name}.b"), &[rows])
}

impl Model for TreeTransformer {
    type Input = Tree<u32>;

    fn network(&self) -> &Arc<Network> {
        &self.network
    }

    async fn build(&self, build: &Build<'_>, tree: &Tree<u32>) -> Result<(), BuildError> {
        let mut states: Vec<Value> = Vec::with_capacity(tree.len());
        for i in 0..tree.len() {
            let own = build.call(self.word, &[*tree.label(i)], &[])?;
            let children = tree.children(i).iter().map(|&child| states[child as usize]);
            let mut values = vec![own];
            for (position, value) in [own].into_iter().chain(children).enumerate() {
                let position = position.min(POSITIONS - 1) as u32;
                values.push(build.call(self.part, &[position], &[value])?);
            }
            states.push(build.call(self.block, &[], &values)?);
        }
        build.emit(states[tree.root()]);
        Ok(())
    }
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = Vocabulary::new();
    let trees: Vec<Tree<u32>> =
        fixtures::nary_trees().iter().map(|t| t.map(|word| words.insert(word), |_| 0)).collect();
    let model = TreeTransformer::new(words.len(), 32)?;
    let parameters = Parameters::random(&model.network, &mut Xoshiro256PlusPlus::seed_from_u64(1));
    let mut engine = Engine::new(model, parameters)?;
    println!("the first root: {:.4?} …", &engine.run(&trees)?[0].row(0)[..3]);
    Ok(())
}
