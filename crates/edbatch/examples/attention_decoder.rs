//! A greedy decoder that attends to its source: LSTMs with bilinear attention.
//!
//! `cargo run --release -p edbatch --example attention_decoder`:
//!
//! ```text
//! the first: [99, 30, 7, 7, 7, 7]
//! ```

use std::sync::Arc;

use edbatch::datasets::{Pair, fixtures};
use edbatch::graph::{CellBuilder, CellError, Kind, Network, RecordId, Shape, Tensor, Value};
use edbatch::models::{Build, BuildError, Model, arg_max};
use edbatch::{Engine, runtime::Parameters};
use rand::{SeedableRng, rngs::Xoshiro256PlusPlus};

const LIMIT: usize = 6; // The maximum number of words of a translation.
const END: u32 = 2; // The number of the end of a sentence in a vocabulary.

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
            let mix = cell.parameter("mix", &[hidden, 2 * hidden]);
            let mixed = mix.matmul(cell.concat(&[h, context])).tanh();
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
        let [w, u] =
            ["w", "u"].map(|p| cell.parameter(&format!("{name}.{p}_{gate}"), &[size, size]));
        w.matmul(x) + u.matmul(h) + cell.parameter(&format!("{name}.b_{gate}"), &[size])
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
        // The last state, and then the states of the source.
        let mut values = vec![self.none];
        for &word in words {
            values[0] = build.call(self.encode, &[word], &values[..1])?;
            values.push(values[0]);
        }
        let mut word = END;
        for _ in 0..LIMIT {
            values[0] = build.call(self.decode, &[word], &values[..1])?;
            let scores = build.call(self.scores, &[], &values)?;
            build.emit(scores);
            (word, values) = build.arg_max_vec(scores, &values).await;
            if word == END {
                break;
            }
        }
        Ok(())
    }
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words = fixtures::vocabulary(fixtures::text::SOURCE_VOCABULARY);
    let ids = |pair: &Pair| pair.source.iter().map(|word| words.id(word)).collect();
    let sentences: Vec<Vec<u32>> = fixtures::pairs().iter().map(ids).collect();
    let model = Decoder::new(words.len(), 32)?;
    let parameters = Parameters::random(&model.network, &mut Xoshiro256PlusPlus::seed_from_u64(1));
    let outputs = Engine::new(model, parameters)?.run(&sentences)?;
    println!("the first: {:?}", outputs[0].iter().map(arg_max).collect::<Vec<u32>>());
    Ok(())
}
