//! Early exit: the depth of the network depends on a computed confidence.
//!
//! After each layer, a sentence awaits its scores. It stops if one class has more than three
//! quarters of the probability, and adds a layer otherwise. The code handles a single sentence; the
//! engine runs the layers of all sentences that continue in one batch.
//!
//! `cargo run --release -p edbatch --example early_exit`:
//!
//! ```text
//! 11 words:  3 layers, scores [0.13, 0.75, 0.12]
//! 15 words:  3 layers, scores [0.08, 0.87, 0.05]
//! 28 words:  8 layers, scores [0.15, 0.84, 0.01]
//! 17 words:  5 layers, scores [0.07, 0.87, 0.06]
//! 265 calls, 26 batches
//! ```

use std::sync::Arc;

use edbatch::Engine;
use edbatch::models::{Build, BuildError, Model};
use edbatch_datasets::{Sentence, fixtures};
use edbatch_graph::{CellError, Kind, Network, Shape};
use edbatch_runtime::Parameters;
use rand::{SeedableRng, rngs::Xoshiro256PlusPlus};

const HIDDEN: usize = 32;
const CLASSES: usize = 3;
const LAYERS: usize = 12;
const CONFIDENCE: f32 = 0.75;

pub(crate) struct EarlyExit {
    network: Arc<Network>,
    word: Kind,
    bag: Kind,
    layer: Kind,
    scores: Kind,
}

impl EarlyExit {
    pub(crate) fn new(words: usize) -> Result<Self, CellError> {
        let mut network = Network::new();
        let state = network.record("state", [("h", Shape::Vector(HIDDEN as u32))])?;
        let scored = network.record("scores", [("p", Shape::Vector(CLASSES as u32))])?;
        let word = network
            .cell("word", state, |cell| vec![cell.lookup("word", "embed", &[words, HIDDEN])])?;
        let bag =
            network.cell("bag", state, |cell| cell.many("words", state).sum::<1>().to_vec())?;
        let layer = network.cell("layer", state, |cell| {
            let [h] = cell.one("below", state);
            let w = cell.parameter("layer.w", &[HIDDEN, HIDDEN]);
            vec![h + (w.matmul(h) + cell.parameter("layer.b", &[HIDDEN])).tanh()]
        })?;
        let scores = network.cell("scores", scored, |cell| {
            let [h] = cell.one("state", state);
            vec![cell.parameter("scores.w", &[CLASSES, HIDDEN]).matmul(h).softmax()]
        })?;
        Ok(Self { network: Arc::new(network), word, bag, layer, scores })
    }
}

impl Model for EarlyExit {
    type Input = Sentence<u32>;

    fn network(&self) -> &Arc<Network> {
        &self.network
    }

    /// Emits the scores of every layer.
    async fn build(&self, build: &Build<'_>, sentence: &Sentence<u32>) -> Result<(), BuildError> {
        let words = sentence.words.iter().map(|&word| build.call(self.word, &[word], &[]));
        let mut state = build.call(self.bag, &[], &words.collect::<Result<Vec<_>, _>>()?)?;
        for _ in 0..LAYERS {
            state = build.call(self.layer, &[], &[state])?;
            let scores = build.call(self.scores, &[], &[state])?;
            build.emit(scores);
            let p;
            (p, [state]) = build.fetch(scores, [state]).await;
            if p.iter().any(|&p| p > CONFIDENCE) {
                break;
            }
        }
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words = fixtures::vocabulary(fixtures::text::SENTENCE_VOCABULARY);
    let sentences = fixtures::sentences();
    let ids: Vec<_> = sentences.iter().map(|s| s.map(|word| words.id(word))).collect();
    let model = EarlyExit::new(words.len())?;
    let parameters = Parameters::random(&model.network, &mut Xoshiro256PlusPlus::seed_from_u64(1));
    let mut engine = Engine::new(model, parameters)?;
    for (sentence, scores) in sentences.iter().zip(engine.run(&ids)?).take(4) {
        let (layers, last) = (scores.len(), scores.row(scores.len() - 1));
        println!("{:2} words: {layers:2} layers, scores {last:.2?}", sentence.len());
    }
    println!("{} calls, {} batches", engine.statistics().nodes, engine.statistics().batches);
    Ok(())
}
