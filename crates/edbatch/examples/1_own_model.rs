//! A custom model: declare the cells, wire one input, run many inputs.
//!
//! A GRU summarises sentences. These have different lengths, so every mini-batch has a different
//! graph. The program prints the number of cell calls and the number of batches that they ran in.
//!
//! `cargo run --release -p edbatch --example 1_own_model`

use std::error::Error;
use std::sync::Arc;

use edbatch::Engine;
use edbatch::graph::{CellError, Kind, Network, Shape, Value};
use edbatch::models::{Build, BuildError, Model};
use edbatch::runtime::Parameters;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

const WORDS: usize = 1000;
const HIDDEN: usize = 64;

/// The network, its cell, and the initial state.
pub(crate) struct Summary {
    network: Arc<Network>,
    step: Kind,
    start: Value,
}

impl Summary {
    pub(crate) fn new() -> Result<Self, CellError> {
        let mut network = Network::new();
        let state = network.record("state", [("h", Shape::Vector(HIDDEN as u32))])?;
        let start = network.initial(state, &["h0"])?;
        // Equations as in a paper: each gate has its own parameters, and nothing says how to batch.
        let step = network.cell("step", state, |cell| {
            let x = cell.lookup("word", "embed", &[WORDS, HIDDEN]);
            let [h] = cell.one("previous", state);
            let w = |gate| cell.parameter(&format!("w_{gate}"), &[HIDDEN, HIDDEN]);
            let u = |gate| cell.parameter(&format!("u_{gate}"), &[HIDDEN, HIDDEN]);
            let b = |gate| cell.parameter(&format!("b_{gate}"), &[HIDDEN]);
            let z = (w("z").matmul(x) + u("z").matmul(h) + b("z")).sigmoid();
            let r = (w("r").matmul(x) + u("r").matmul(h) + b("r")).sigmoid();
            let c = (w("c").matmul(x) + u("c").matmul(r * h) + b("c")).tanh();
            // z ∘ h + (1 - z) ∘ c
            vec![c + z * (h - c)]
        })?;
        Ok(Self { network: Arc::new(network), step, start })
    }
}

impl Model for Summary {
    type Input = Vec<u32>;

    fn network(&self) -> &Arc<Network> {
        &self.network
    }

    async fn build(&self, build: &Build<'_>, words: &Vec<u32>) -> Result<(), BuildError> {
        let mut state = self.start;
        for &word in words {
            state = build.call(self.step, &[word], &[state])?;
        }
        build.emit(state);
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
    let model = Summary::new()?;
    let parameters = Parameters::random(model.network(), &mut rng);
    let mut engine = Engine::new(model, parameters)?;

    let sentences: Vec<Vec<u32>> = (0..64)
        .map(|_| {
            let length = rng.random_range(1..40);
            (0..length).map(|_| rng.random_range(0..WORDS as u32)).collect()
        })
        .collect();
    let outputs = engine.run(&sentences)?;

    let statistics = engine.statistics();
    println!("{} sentences, {} calls of a cell", statistics.instances, statistics.nodes);
    println!("{} batches, as many as the longest sentence has words", statistics.batches);
    println!("the first sentence's summary begins {:?}", &outputs[0].row(0)[..4]);
    Ok(())
}
