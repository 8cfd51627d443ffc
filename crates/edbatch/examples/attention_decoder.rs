//! A decoder that attends to its source: an LSTM encoder, an LSTM decoder with bilinear attention,
//! and greedy decoding.
//!
//! The cell `scores` reads the states of all source words, so sentences of all lengths share its
//! batches.
//!
//! `cargo run --release -p edbatch --example attention_decoder`:
//!
//! ```text
//! the first: [99, 30, 7, 7, 7, 7]
//! 283 calls, 49 batches
//! ```

use std::sync::Arc;

use edbatch::Engine;
use edbatch_datasets::fixtures;
use edbatch_graph::{CellBuilder, CellError, Kind, Network, RecordId, Shape, Tensor, Value};
use edbatch_models::{Build, BuildError, Model, arg_max};
use edbatch_runtime::Parameters;
use rand::{SeedableRng, rngs::Xoshiro256PlusPlus};

/// The maximum number of words of a translation.
const LIMIT: usize = 6;
/// The number of the end of a sentence in a vocabulary.
const END: u32 = 2;

#[derive(Clone)]
pub(crate) struct Decoder {
    pub(crate) network: Arc<Network>,
    none: Value,
    encode: Kind,
    decode: Kind,
    scores: Kind,
}

impl Decoder {
    pub(crate) fn new(words: usize, hidden: usize) -> Result<Self, CellError> {
        let shape = Shape::Vector(hidden as u32);
        let mut network = Network::new();
        let state = network.record("state", [("h", shape), ("c", shape)])?;
        let logits = network.record("logits", [("y", Shape::Vector(words as u32))])?;
        let none = network.initial(state, &["none.h", "none.c"])?;
        let mut step = |name| network.cell(name, state, |cell| lstm(cell, name, words, state));
        let (encode, decode) = (step("encode")?, step("decode")?);
        let scores = network.cell("scores", logits, |cell| {
            let [h, _] = cell.one("state", state);
            let query = cell.parameter("attend", &[hidden, hidden]).matmul(h);
            let context = cell.many("source", state).attention(query, "h", "h", 1, 1.0);
            let both = cell.concat(&[h, context]);
            let mixed = cell.parameter("mix", &[hidden, 2 * hidden]).matmul(both).tanh();
            vec![cell.parameter("out", &[words, hidden]).matmul(mixed)]
        })?;
        Ok(Self { network: Arc::new(network), none, encode, decode, scores })
    }
}

fn lstm<'c>(cell: &'c CellBuilder, name: &str, words: usize, state: RecordId) -> Vec<Tensor<'c>> {
    let [h, c] = cell.one("before", state);
    let size = h.shape().elements();
    let x = cell.lookup("word", &format!("{name}.embed"), &[words, size]);
    let [i, f, o, g] = ["i", "f", "o", "g"].map(|gate| {
        let parameter = |p, dims: &[usize]| cell.parameter(&format!("{name}.{p}_{gate}"), dims);
        let [w, u] = ["w", "u"].map(|p| parameter(p, &[size, size]));
        w.matmul(x) + u.matmul(h) + parameter("b", &[size])
    });
    let c = f.sigmoid() * c + i.sigmoid() * g.tanh();
    vec![o.sigmoid() * c.tanh(), c]
}

impl Model for Decoder {
    type Input = Vec<u32>;

    fn network(&self) -> &Arc<Network> {
        &self.network
    }

    /// Emits the logits of each step.
    async fn build(&self, build: &Build<'_>, words: &Vec<u32>) -> Result<(), BuildError> {
        let (mut values, mut state) = (Vec::new(), self.none);
        for &word in words {
            state = build.call(self.encode, &[word], &[state])?;
            values.push(state);
        }
        let mut word = END;
        for _ in 0..LIMIT {
            state = build.call(self.decode, &[word], &[state])?;
            let scores = build.call(self.scores, &[], &[&[state], &values[..]].concat())?;
            build.emit(scores);
            values.push(state);
            (word, values) = build.arg_max_vec(scores, &values).await;
            state = values.pop().expect("it was carried");
            if word == END {
                break;
            }
        }
        Ok(())
    }
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words = fixtures::vocabulary(fixtures::text::SOURCE_VOCABULARY);
    let pairs = fixtures::pairs().into_iter();
    let ids = pairs.map(|pair| pair.source.iter().map(|word| words.id(word)).collect());
    let sentences: Vec<Vec<u32>> = ids.collect();
    let model = Decoder::new(words.len(), 32)?;
    let parameters = Parameters::random(&model.network, &mut Xoshiro256PlusPlus::seed_from_u64(1));
    let mut engine = Engine::new(model, parameters)?;
    let outputs = engine.run(&sentences)?;
    println!("the first: {:?}", outputs[0].iter().map(arg_max).collect::<Vec<u32>>());
    println!("{} calls, {} batches", engine.statistics().nodes, engine.statistics().batches);
    Ok(())
}
