//! Inputs with rows of floats: trees whose leaves are vectors computed by another model.
//!
//! `cargo run --release -p edbatch --example word_vectors`:
//!
//! ```text
//! 3 words: [-0.204, 0.238, -0.319, -0.735]
//! 2 words: [0.645, -0.499, -0.279, 0.158]
//! 3 nodes in 2 batches
//! ```

use std::error::Error;
use std::sync::Arc;

use edbatch::Engine;
use edbatch::datasets::{Tree, parse_binary_trees};
use edbatch::graph::{CellError, Kind, Network, RecordId, Shape, Value};
use edbatch::models::{Build, BuildError, Model};
use edbatch::runtime::Parameters;
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

const WIDTH: usize = 4;

/// Combines the vectors of a tree's leaves, two children at a time.
pub(crate) struct Joined {
    network: Arc<Network>,
    vector: RecordId,
    join: Kind,
}

impl Joined {
    pub(crate) fn new() -> Result<Self, CellError> {
        let mut network = Network::new();
        let vector = network.record("vector", [("v", Shape::Vector(WIDTH as u32))])?;
        let join = network.cell("join", vector, |cell| {
            let [left] = cell.one("left", vector);
            let [right] = cell.one("right", vector);
            let (l, r) = (cell.parameter("l", &[WIDTH; 2]), cell.parameter("r", &[WIDTH; 2]));
            vec![(l.matmul(left) + r.matmul(right)).tanh()]
        })?;
        Ok(Self { network: Arc::new(network), vector, join })
    }
}

/// A tree, and the vectors of its leaves from left to right.
pub(crate) struct Vectors {
    tree: Tree,
    leaves: Vec<[f32; WIDTH]>,
}

impl Model for Joined {
    type Input = Vectors;

    fn network(&self) -> &Arc<Network> {
        &self.network
    }

    async fn build(&self, build: &Build<'_>, input: &Vectors) -> Result<(), BuildError> {
        let mut leaves = input.leaves.iter();
        let mut values: Vec<Value> = Vec::new();
        // Children come before their parents.
        for node in 0..input.tree.len() {
            let children = input.tree.children(node).iter();
            let children: Vec<Value> = children.map(|&child| values[child as usize]).collect();
            values.push(match children.as_slice() {
                // A vector of the wrong length would be an error of this input only.
                [] => build.give(self.vector, leaves.next().expect("a vector for each leaf"))?,
                children => build.call(self.join, &[], children)?,
            });
        }
        values.last().into_iter().for_each(|&root| build.emit(root));
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let text = "(3 (2 not) (3 (2 so) (3 bad)))\n(2 (2 a) (2 film))\n";
    // In place of vectors from a file or from another network.
    let vector = |word: &str| {
        let bytes = word.bytes().chain([0; WIDTH]).take(WIDTH);
        let numbers: Vec<f32> = bytes.map(|byte| f32::from(byte) / 128.0).collect();
        [0, 1, 2, 3].map(|i| numbers[i])
    };
    let mut inputs = Vec::new();
    for tree in parse_binary_trees(text.as_bytes(), "text") {
        let tree = tree?;
        let leaves = tree.tokens().map(|word| vector(word)).collect();
        inputs.push(Vectors { tree, leaves });
    }

    let model = Joined::new()?;
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let parameters = Parameters::random(model.network(), &mut rng);
    let mut engine = Engine::new(model, parameters)?;
    for (input, rows) in inputs.iter().zip(engine.run(&inputs)?) {
        println!("{} words: {:.3?}", input.leaves.len(), rows.row(0));
    }
    let statistics = engine.statistics();
    println!("{} nodes in {} batches", statistics.nodes, statistics.batches);
    Ok(())
}
