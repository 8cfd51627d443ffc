//! Trains a network of one's own: a GRU that adds the numbers of a list, modulo 5.
//!
//! `cargo run --release -p edbatch --example 4_train`

use std::error::Error;
use std::sync::Arc;

use edbatch::graph::{CellError, Kind, Network, Shape, Value};
use edbatch::models::{Build, BuildError, Model, Targets, arg_max};
use edbatch::runtime::Parameters;
use edbatch::{Engine, Optimizer, Rate, Trainer, TrainerOptions, shuffled};
use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};

const CLASSES: usize = 5;
const HIDDEN: usize = 32;

#[derive(Clone)]
pub(crate) struct Sum {
    network: Arc<Network>,
    step: Kind,
    scores: Kind,
    start: Value,
}

impl Sum {
    pub(crate) fn new() -> Result<Self, CellError> {
        let mut network = Network::new();
        let state = network.record("state", [("h", Shape::Vector(HIDDEN as u32))])?;
        let classes = network.record("classes", [("y", Shape::Vector(CLASSES as u32))])?;
        let start = network.initial(state, &["h0"])?;
        let step = network.cell("step", state, |cell| {
            let x = cell.lookup("number", "embed", &[CLASSES, HIDDEN]);
            let [h] = cell.one("previous", state);
            let gate = |name: &str, h| {
                let matrix = |of| cell.parameter(&format!("{of}_{name}"), &[HIDDEN, HIDDEN]);
                matrix("w").matmul(x) + matrix("u").matmul(h)
            };
            let (z, r) = (gate("z", h).sigmoid(), gate("r", h).sigmoid());
            let c = gate("c", r * h).tanh();
            vec![c + z * (h - c)]
        })?;
        let scores = network.cell("scores", classes, |cell| {
            let [h] = cell.one("state", state);
            vec![cell.parameter("out", &[CLASSES, HIDDEN]).matmul(h)]
        })?;
        Ok(Self { network: Arc::new(network), step, scores, start })
    }
}

impl Model for Sum {
    type Input = Vec<u32>;

    fn network(&self) -> &Arc<Network> {
        &self.network
    }

    /// Emits the scores of the sum after each number.
    async fn build(&self, build: &Build<'_>, numbers: &Vec<u32>) -> Result<(), BuildError> {
        let mut state = self.start;
        for &number in numbers {
            state = build.call(self.step, &[number], &[state])?;
            build.emit(build.call(self.scores, &[], &[state])?);
        }
        Ok(())
    }
}

/// Returns the sums so far of a random list, which are its targets, and the list.
fn example(rng: &mut Xoshiro256PlusPlus) -> (Targets, Vec<u32>) {
    let list: Vec<u32> = (0..rng.random_range(1..20)).map(|_| rng.random_range(0..5)).collect();
    let sum = |end| Some(list[..end].iter().sum::<u32>() % 5);
    ((1..=list.len()).map(sum).collect(), list)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
    let model = Sum::new()?;
    let parameters = Parameters::random(model.network(), &mut rng);
    let options = TrainerOptions::new().optimizer(Optimizer::adam(1e-2)).clip_norm(5.0);
    let options = options.rate(Rate::Cosine { epochs: 10 });
    let mut trainer = Trainer::with_options(model.clone(), parameters, options)?;
    let examples: Vec<_> = (0..2000).map(|_| example(&mut rng)).collect();
    let (expected, test): (Vec<_>, Vec<_>) = (0..500).map(|_| example(&mut rng)).unzip();
    for epoch in 0..10 {
        let mut loss = 0.0;
        for indices in shuffled(examples.len(), 25, 1, epoch) {
            let mini_batch = indices.into_iter().map(|index| examples[index].clone());
            let (targets, inputs): (Vec<_>, Vec<_>) = mini_batch.unzip();
            loss += trainer.train(&inputs, &targets)?.loss / (examples.len() / 25) as f64;
        }
        trainer.end_epoch(loss);
        // An engine for inference, on the parameters so far.
        let outputs = Engine::new(model.clone(), trainer.parameters()?)?.run(&test)?;
        let pairs = || outputs.iter().zip(&expected).flat_map(|(rows, sums)| rows.iter().zip(sums));
        let right = pairs().filter(|(row, sum)| Some(arg_max(row)) == **sum).count();
        println!("epoch {epoch}: loss {loss:.3}, {right} of {} sums right", pairs().count());
    }
    Ok(())
}
