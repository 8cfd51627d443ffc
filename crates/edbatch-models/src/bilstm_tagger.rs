//! A tagger: stacks of LSTMs from both ends of the sentence, and a small network on top.
//!
//! *Source*: Huang, Xu and Yu, 2015, in the form that the ED-Batch authors benchmark: the two
//! directions are separate stacks, each layer reading the one below in its own stack.

use std::sync::Arc;

use edbatch_datasets::Sentence;
use edbatch_graph::{CellError, Kind, Network, RecordId, Value};

use crate::Build;
use crate::cells::{linear, logits, lstm, lstm_state};
use crate::model::{BuildError, Model};

/// See the [module's documentation](self).
#[derive(Clone, Debug)]
pub struct BiLstmTagger {
    network: Arc<Network>,
    forward: Vec<Layer>,
    backward: Vec<Layer>,
    output: Kind,
}

/// The sizes of a [`BiLstmTagger`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaggerSizes {
    /// Number of words.
    pub vocabulary: usize,
    /// Elements of an embedding.
    pub embed: usize,
    /// Elements of a hidden vector.
    pub hidden: usize,
    /// LSTMs in each stack.
    pub layers: usize,
    /// Elements between the stacks and the scores.
    pub mlp: usize,
    /// Number of tags.
    pub tags: usize,
}

/// One LSTM of a stack, and where it begins.
#[derive(Clone, Copy, Debug)]
struct Layer {
    cell: Kind,
    start: Value,
}

impl BiLstmTagger {
    /// Declares the cells.
    ///
    /// # Errors
    /// If a size is zero or too large.
    pub fn new(sizes: TaggerSizes) -> Result<Self, CellError> {
        let TaggerSizes { hidden, layers, mlp, tags, .. } = sizes;
        let mut network = Network::new();
        let state = lstm_state(&mut network, hidden)?;
        let scores = logits(&mut network, tags)?;
        let mut stack = |direction: &str| -> Result<Vec<Layer>, CellError> {
            (0..layers).map(|k| layer(&mut network, direction, k, state, sizes)).collect()
        };
        let (forward, backward) = (stack("fwd")?, stack("bwd")?);
        let output = network.cell("output", scores, |cell| {
            let [f, _] = cell.one("forward", state);
            let [b, _] = cell.one("backward", state);
            let hidden = linear(cell, "mlp", mlp, cell.concat(&[f, b])).tanh();
            vec![linear(cell, "out", tags, hidden)]
        })?;
        Ok(Self { network: Arc::new(network), forward, backward, output })
    }

    /// The top states of a stack that reads `words` in the given order.
    fn stack(
        build: &Build<'_>,
        stack: &[Layer],
        words: impl Iterator<Item = u32>,
    ) -> Result<Vec<Value>, BuildError> {
        let (bottom, above) = stack.split_first().expect("checked: at least one layer");
        let mut state = bottom.start;
        let mut states = Vec::with_capacity(words.size_hint().0);
        for word in words {
            state = build.call(bottom.cell, &[word], &[state])?;
            states.push(state);
        }
        for layer in above {
            let mut state = layer.start;
            for below in &mut states {
                state = build.call(layer.cell, &[], &[*below, state])?;
                *below = state;
            }
        }
        Ok(states)
    }
}

fn layer(
    network: &mut Network,
    direction: &str,
    k: usize,
    state: RecordId,
    sizes: TaggerSizes,
) -> Result<Layer, CellError> {
    let name = format!("{direction}.{k}");
    let cell = network.cell(&name, state, |cell| {
        let x = match k {
            0 => cell.lookup("word", "embed.weight", &[sizes.vocabulary, sizes.embed]),
            _ => {
                let [h, _] = cell.one("below", state);
                h
            }
        };
        lstm(cell, &name, x, cell.one("previous", state))
    })?;
    let start = network.initial(state, &[&format!("{name}.h0"), &format!("{name}.c0")])?;
    Ok(Layer { cell, start })
}

impl Model for BiLstmTagger {
    type Input = Sentence<u32>;

    fn network(&self) -> &Arc<Network> {
        &self.network
    }

    async fn build(&self, build: &Build<'_>, sentence: &Sentence<u32>) -> Result<(), BuildError> {
        let words = sentence.words.iter().copied();
        let forward = Self::stack(build, &self.forward, words.clone())?;
        let backward = Self::stack(build, &self.backward, words.rev())?;
        for (&f, &b) in forward.iter().zip(backward.iter().rev()) {
            build.emit(build.call(self.output, &[], &[f, b])?);
        }
        Ok(())
    }
}
