//! A translator: an LSTM reads the source, another writes the target word by word.
//!
//! *Source*: Sutskever, Vinyals and Le, NIPS 2014, in the form that the ED-Batch authors benchmark.
//! Decoding is greedy: the most likely word is the input of the next step. So the graph grows while
//! it runs, and the sentences of a mini-batch end at different steps. On a device, up to eight
//! steps share a graph: each reads the most likely word of the step before. Steps after the end of
//! a sentence are dropped.

use edbatch_graph::{CellBuilder, CellError, Kind, Network, RecordId, Row, Tensor, Value};
use edbatch_models::Build;
use smallvec::SmallVec;

use crate::cells::{linear, lstm, lstm_state, output};
use crate::model::{Built, model};

model! {
    /// A translator: an LSTM reads the source, another writes the target word by word.
    ///
    /// It emits the logits of every step. Their [`arg_max`](edbatch_models::arg_max()) are the
    /// words of the translation; a final [`END`] is not one of them.
    pub struct LstmNmt: Translator, NmtSizes, SourceSentence, work
}

/// The cells of a translator, and the state before the first word.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Translator {
    start: Value,
    encoder: Kind,
    decoder: Kind,
    output: Kind,
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
    /// The condition that ends the translation.
    pub stop: Stop,
}

/// The condition that ends a translation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stop {
    /// After the step whose most likely word is [`END`], or after `2 n + 10` steps for a source of
    /// `n` words, whichever comes first.
    AtEnd,
    /// After this number of steps, whatever the words are: for benchmarks with random weights.
    After(usize),
    /// After these words and [`END`]. Each step reads the given word instead of the most likely
    /// one (*teacher forcing*), so nothing is awaited.
    Forced(Box<[u32]>),
}

/// The number of the token that begins a sentence, in both vocabularies.
pub const BEGIN: u32 = 1;

/// The number of the token that ends a sentence, in both vocabularies.
pub const END: u32 = 2;

fn declare(network: &mut Network, sizes: NmtSizes) -> Result<Translator, CellError> {
    let NmtSizes { source, target, embed, hidden } = sizes;
    let state = lstm_state(network, hidden)?;
    let start = network.initial(state, &["enc.h0", "enc.c0"])?;
    let encoder = network.cell("encoder", state, |cell| {
        let e = cell.lookup("word", "src_embed.weight", &[source, embed]);
        step(cell, "enc", e, state, hidden)
    })?;
    let decoder = network.cell("decoder", state, |cell| {
        let e = cell.lookup("word", "tgt_embed.weight", &[target, embed]);
        step(cell, "dec", e, state, hidden)
    })?;
    let output = output(network, "state", state, target)?;
    Ok(Translator { start, encoder, decoder, output })
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

fn work(source: &SourceSentence) -> usize {
    source.words.len()
        + match &source.stop {
            Stop::AtEnd => source.words.len(),
            Stop::After(steps) => *steps,
            Stop::Forced(words) => words.len() + 1,
        }
}

impl Translator {
    pub(crate) async fn build(&self, build: &Build<'_>, source: &SourceSentence) -> Built {
        let mut state = self.start;
        for &word in source.words.iter().chain([&END]) {
            state = build.call(self.encoder, &[word], &[state])?;
        }
        let steps = match &source.stop {
            Stop::AtEnd => 2 * source.words.len() + 10,
            Stop::After(steps) => *steps,
            Stop::Forced(words) => {
                for &word in [BEGIN].iter().chain(words) {
                    state = build.call(self.decoder, &[word], &[state])?;
                    build.emit(build.call(self.output, &[], &[state])?);
                }
                return Ok(());
            }
        };
        let end = (source.stop == Stop::AtEnd).then_some(END);
        let (mut word, mut left, mut chain) = (BEGIN, steps, SmallVec::<[Value; 1]>::new());
        while left > 0 {
            chain.clear();
            let mut row = Row::Index(word);
            for _ in 0..left.min(build.chain()) {
                state = build.call_by(self.decoder, &[row], &[state])?;
                let scores = build.call(self.output, &[], &[state])?;
                chain.push(scores);
                row = Row::ArgMax(scores);
            }
            left -= chain.len();
            // The next step needs only the state; all other values are freed.
            (word, [state]) = build.arg_max_chain(&chain, end, [state]).await;
            if end == Some(word) {
                break;
            }
        }
        Ok(())
    }
}
