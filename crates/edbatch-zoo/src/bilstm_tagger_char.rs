//! The BiLSTM tagger with characters: unknown words are read character by character.
//!
//! *Source*: Lample et al., NAACL 2016, in the variant that the ED-Batch authors benchmark. The
//! vector of a known word is its embedding. Any other word is *spelled*: its vector is the
//! concatenation of the last states of two stacks of LSTMs over its characters.
//!
//! The stacks over the sentence read the same record for known and spelled words. If they looked up
//! embeddings themselves, known and spelled words would be different kinds and could not share a
//! batch. So an `embed` cell looks up known words, a `spell` cell joins the two states of a spelled
//! word, and both return this record. Each of them takes one batch per mini-batch.

use edbatch_datasets::Sentence;
use edbatch_graph::{CellError, Kind, Network, Value};
use edbatch_models::{Build, BuildError};

use crate::bilstm_tagger::{Tagger, TaggerSizes};
use crate::cells::vector;
use crate::model::{Built, model};
use crate::stack::{Reads, Stack, Step};

model! {
    /// The BiLSTM tagger with characters: unknown words are read character by character.
    pub struct BiLstmTaggerChar: CharTagger, CharTaggerSizes, Sentence<Word>, Sentence::len
}

/// The cells of a tagger with characters.
#[derive(Clone, Debug)]
pub(crate) struct CharTagger {
    embed: Kind,
    forward: Stack,
    backward: Stack,
    spell: Kind,
    tagger: Tagger,
}

/// The sizes of a [`BiLstmTaggerChar`]. `tagger.embed` must be `2 × char_hidden`, the size of a
/// spelled word's vector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CharTaggerSizes {
    /// The sizes of the tagger without characters.
    pub tagger: TaggerSizes,
    /// Number of characters.
    pub chars: usize,
    /// Elements of a character's embedding.
    pub char_embed: usize,
    /// Elements of a hidden vector of the stacks over characters.
    pub char_hidden: usize,
}

/// A word of an input of a [`BiLstmTaggerChar`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Word {
    /// The number of a word in the vocabulary.
    Known(u32),
    /// The characters of a word that is not in the vocabulary, without padding.
    Spelled(Vec<u32>),
}

/// The padding character before and after every spelled word.
pub const PAD: u32 = 1;

fn declare(network: &mut Network, sizes: CharTaggerSizes) -> Result<CharTagger, CellError> {
    let CharTaggerSizes { tagger, chars, char_embed, char_hidden } = sizes;
    let word = network.record("word", [("x", vector(tagger.embed)?)])?;
    let half = vector(char_hidden)?;
    let spelling = network.record("spelling", [("h", half), ("c", half)])?;
    let embed = network.cell("embed", word, |cell| {
        vec![cell.lookup("word", "embed.weight", &[tagger.vocabulary, tagger.embed])]
    })?;
    let characters = Reads::Table("char_embed.weight", [chars, char_embed]);
    let mut stack = |name| Stack::new(network, name, tagger.layers, spelling, characters);
    let (forward, backward) = (stack("cfwd")?, stack("cbwd")?);
    let spell = network.cell("spell", word, |cell| {
        let [f, _] = cell.one("forward", spelling);
        let [b, _] = cell.one("backward", spelling);
        vec![cell.concat(&[f, b])]
    })?;
    let tagger = Tagger::new(network, tagger, Reads::Record(word))?;
    Ok(CharTagger { embed, forward, backward, spell, tagger })
}

impl CharTagger {
    pub(crate) async fn build(&self, build: &Build<'_>, sentence: &Sentence<Word>) -> Built {
        let words = sentence.words.iter().map(|word| self.word(build, word));
        let words: Vec<Value> = words.collect::<Result<_, _>>()?;
        self.tagger.call(build, words.iter().map(|&word| Step::Value(word)))
    }

    fn word(&self, build: &Build<'_>, word: &Word) -> Result<Value, BuildError> {
        let chars = match word {
            Word::Known(id) => return Ok(build.call(self.embed, &[*id], &[])?),
            Word::Spelled(chars) => chars,
        };
        let padded: Vec<u32> = [&[PAD], chars.as_slice(), &[PAD]].concat();
        let steps = padded.iter().map(|&char| Step::Row(char));
        let forward = self.forward.build(build, steps.clone())?;
        let backward = self.backward.build(build, steps.rev())?;
        let last = padded.len() - 1;
        Ok(build.call(self.spell, &[], &[forward[last], backward[last]])?)
    }
}
