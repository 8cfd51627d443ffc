//! The BiLSTM tagger: a forward and a backward stack of LSTMs, and a small network on top.
//!
//! *Source*: Huang, Xu and Yu, 2015, in the variant that the ED-Batch authors benchmark: the two
//! directions are separate stacks; a layer reads only the layer below in its own stack.

use edbatch_datasets::Sentence;
use edbatch_graph::{CellError, Kind, Network, RecordId};
use edbatch_models::Build;

use crate::cells::{linear, logits, lstm_state};
use crate::model::{Built, model};
use crate::stack::{Reads, Stack, Step};

model! {
    /// The BiLSTM tagger: a forward and a backward stack of LSTMs, and a small network on top.
    pub struct BiLstmTagger: Tagger, TaggerSizes, Sentence<u32>, Sentence::len
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
    /// Elements of the hidden layer between the stacks and the scores.
    pub mlp: usize,
    /// Number of tags.
    pub tags: usize,
}

fn declare(network: &mut Network, sizes: TaggerSizes) -> Result<Tagger, CellError> {
    let words = Reads::Table("embed.weight", [sizes.vocabulary, sizes.embed]);
    Tagger::new(network, sizes, words)
}

/// The cells that both taggers share. The argument `words` of [`Tagger::new`] says where the
/// vectors of words come from.
#[derive(Clone, Debug)]
pub(crate) struct Tagger {
    forward: Stack,
    backward: Stack,
    output: Kind,
}

impl Tagger {
    pub(crate) fn new(
        network: &mut Network,
        sizes: TaggerSizes,
        words: Reads<'_>,
    ) -> Result<Self, CellError> {
        let TaggerSizes { hidden, layers, mlp, tags, .. } = sizes;
        let state: RecordId = lstm_state(network, hidden)?;
        let scores = logits(network, tags)?;
        let forward = Stack::new(network, "fwd", layers, state, words)?;
        let backward = Stack::new(network, "bwd", layers, state, words)?;
        let output = network.cell("output", scores, |cell| {
            let [f, _] = cell.one("forward", state);
            let [b, _] = cell.one("backward", state);
            let hidden = linear(cell, "mlp", mlp, cell.concat(&[f, b])).tanh();
            vec![linear(cell, "out", tags, hidden)]
        })?;
        Ok(Self { forward, backward, output })
    }

    pub(crate) async fn build(&self, build: &Build<'_>, sentence: &Sentence<u32>) -> Built {
        self.call(build, sentence.words.iter().map(|&word| Step::Row(word)))
    }

    pub(crate) fn call(
        &self,
        build: &Build<'_>,
        words: impl DoubleEndedIterator<Item = Step> + Clone,
    ) -> Built {
        let forward = self.forward.build(build, words.clone())?;
        let backward = self.backward.build(build, words.rev())?;
        let states = forward.iter().zip(backward.iter().rev()).map(|(&f, &b)| [f, b]);
        Ok(build.emit_each(self.output, states)?)
    }
}
