//! A translator: an LSTM reads the source, another writes the target word by word.
//!
//! *Source*: Sutskever, Vinyals and Le, NIPS 2014, in the form that the ED-Batch authors benchmark.
//! Decoding is greedy: the likeliest word is the next step's input, so that the graph grows while
//! it runs, and the sentences of a mini-batch end at different steps. A graph may have several
//! steps, each of which reads the likeliest word of the one before where it was computed; those
//! behind a sentence's end are taken back.

use std::sync::Arc;

use edbatch_graph::{CellBuilder, CellError, Kind, Network, RecordId, Tensor, Value};

use crate::Build;
use crate::cells::{linear, logits, lstm, lstm_state};
use crate::model::{BuildError, Model};

/// A translator: an LSTM reads the source, another writes the target word by word.
#[derive(Clone, Debug)]
pub struct LstmNmt {
    network: Arc<Network>,
    sizes: NmtSizes,
    start: Value,
    encoder: Kind,
    decoder: Kind,
    output: Kind,
    /// A decoder's step that reads the scores of the step before it in the same graph; none where a
    /// graph has one step.
    next: Option<Kind>,
    steps_per_graph: usize,
}

/// The sizes of an [`LstmNmt`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NmtSizes {
    /// Number of source words.
    pub source: usize,
    /// Number of target words.
    pub target: usize,
    /// Elements of an embedding.
    pub embed: usize,
    /// Elements of a hidden vector.
    pub hidden: usize,
}

/// A sentence to translate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourceSentence {
    /// Its words, without [`END`].
    pub words: Vec<u32>,
    /// When to stop.
    pub stop: Stop,
}

/// When a translation ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// After the step whose likeliest word is [`END`], and after twice as many steps as the source
    /// has words, and ten, at the latest.
    AtEnd,
    /// After so many steps, whatever they give: for measuring with random weights.
    After(usize),
}

/// The word before the first, in both vocabularies.
pub const BEGIN: u32 = 1;

/// The word after the last, in both vocabularies.
pub const END: u32 = 2;

impl LstmNmt {
    /// Declares the cells.
    ///
    /// # Errors
    /// If a size is zero or too large.
    pub fn new(sizes: NmtSizes) -> Result<Self, CellError> {
        Self::declare(sizes, 1)
    }

    /// The same model, which decodes so many steps before it looks at the words: outputs are the
    /// same, bit by bit, from fewer graphs, and some steps behind a sentence's end are computed in
    /// vain. For devices, which wait for the host after each graph. It takes the same parameters.
    ///
    /// ```
    /// # use edbatch_models::{LstmNmt, Model, NmtSizes};
    /// let model = LstmNmt::new(NmtSizes { source: 9, target: 9, embed: 4, hidden: 4 })?;
    /// let in_eights = model.clone().with_steps_per_graph(8)?;
    /// assert_eq!(model.network().parameters(), in_eights.network().parameters());
    /// # Ok::<(), edbatch_graph::CellError>(())
    /// ```
    ///
    /// # Errors
    /// As [`new`](Self::new).
    ///
    /// # Panics
    /// If `steps` is 0.
    pub fn with_steps_per_graph(self, steps: usize) -> Result<Self, CellError> {
        Self::declare(self.sizes, steps)
    }

    fn declare(sizes: NmtSizes, steps_per_graph: usize) -> Result<Self, CellError> {
        assert!(steps_per_graph > 0, "at least one step a graph");
        let NmtSizes { source, target, embed, hidden } = sizes;
        let mut network = Network::new();
        let state = lstm_state(&mut network, hidden)?;
        let scores = logits(&mut network, target)?;
        let start = network.initial(state, &["enc.h0", "enc.c0"])?;
        let encoder = network.cell("encoder", state, |cell| {
            let e = cell.lookup("word", "src_embed.weight", &[source, embed]);
            step(cell, "enc", e, state, hidden)
        })?;
        let decoder = network.cell("decoder", state, |cell| {
            let e = cell.lookup("word", "tgt_embed.weight", &[target, embed]);
            step(cell, "dec", e, state, hidden)
        })?;
        let output = network.cell("output", scores, |cell| {
            let [h, _] = cell.one("state", state);
            vec![linear(cell, "out", target, h)]
        })?;
        let mut next = None;
        if steps_per_graph > 1 {
            next = Some(network.cell("decoder.next", state, |cell| {
                let [scores] = cell.one("scores", scores);
                let words = cell.parameter("tgt_embed.weight", &[target, embed]);
                step(cell, "dec", cell.lookup_arg_max(words, scores), state, hidden)
            })?);
        }
        let network = Arc::new(network);
        Ok(Self { network, sizes, start, encoder, decoder, output, next, steps_per_graph })
    }
}

/// A step of an LSTM from a word's embedding and the state before it.
fn step<'c>(
    cell: &'c CellBuilder,
    prefix: &str,
    embedding: Tensor<'c>,
    state: RecordId,
    hidden: usize,
) -> Vec<Tensor<'c>> {
    let x = linear(cell, &format!("{prefix}.proj"), hidden, embedding).tanh();
    lstm(cell, prefix, x, cell.one("previous", state))
}

impl Model for LstmNmt {
    type Input = SourceSentence;

    fn network(&self) -> &Arc<Network> {
        &self.network
    }

    fn work(&self, input: &SourceSentence) -> usize {
        input.words.len()
            + match input.stop {
                Stop::AtEnd => input.words.len(),
                Stop::After(steps) => steps,
            }
    }

    /// Emits the logits of every step; the tokens are their [`arg_max`](crate::arg_max), but for a
    /// last [`END`].
    async fn build(&self, build: &Build<'_>, source: &SourceSentence) -> Result<(), BuildError> {
        let mut state = self.start;
        for &word in source.words.iter().chain([&END]) {
            state = build.call(self.encoder, &[word], &[state])?;
        }
        let steps = match source.stop {
            Stop::AtEnd => 2 * source.words.len() + 10,
            Stop::After(steps) => steps,
        };
        let Some(next) = self.next else {
            return self.one_by_one(build, source.stop, state, steps).await;
        };
        let (mut words, mut scores) = (vec![BEGIN], Vec::new());
        let mut done = 0;
        while done < steps {
            scores.clear();
            let word = words[words.len() - 1];
            state = build.call(self.decoder, &[word], &[state])?;
            scores.push(build.call(self.output, &[], &[state])?);
            for step in 1..self.steps_per_graph.min(steps - done) {
                state = build.call(next, &[], &[scores[step - 1], state])?;
                scores.push(build.call(self.output, &[], &[state])?);
            }
            scores.iter().for_each(|&scores| build.emit(scores));
            [state] = build.arg_max_each(&scores, [state], &mut words).await;
            let end = words.iter().position(|&word| word == END);
            if let Some(end) = end.filter(|_| source.stop == Stop::AtEnd) {
                build.take_back(words.len() - end - 1);
                break;
            }
            done += words.len();
        }
        Ok(())
    }
}

impl LstmNmt {
    /// The steps of a decoder that is looked at after each; nothing is allocated for them.
    async fn one_by_one(
        &self,
        build: &Build<'_>,
        stop: Stop,
        mut state: Value,
        steps: usize,
    ) -> Result<(), BuildError> {
        let mut word = BEGIN;
        for _ in 0..steps {
            state = build.call(self.decoder, &[word], &[state])?;
            let scores = build.call(self.output, &[], &[state])?;
            build.emit(scores);
            // Of all values only the state is needed by the next step; the others are freed.
            (word, [state]) = build.arg_max(scores, [state]).await;
            if word == END && stop == Stop::AtEnd {
                break;
            }
        }
        Ok(())
    }
}
