//! Tiny generated data sets for tests and examples, compiled into the library: eight instances
//! each, under this project's licence.
//!
//! The files are in `fixtures/`. The example `generate` of `edbatch-testing` generates them again,
//! and a test compares them byte by byte with the output of the generators.

use crate::{Error, Lattice, Pair, Sentence, Tree, Vocabulary};
use crate::{parse_binary_trees, parse_lattices, parse_nary_trees, parse_pairs, parse_sentences};

/// The contents of the fixture files.
pub mod text {
    /// Binary trees.
    pub const BINARY_TREES: &str = include_str!("../fixtures/binary.txt");
    /// The vocabulary of [`BINARY_TREES`].
    pub const BINARY_VOCABULARY: &str = include_str!("../fixtures/binary.vocab");
    /// N-ary trees.
    pub const NARY_TREES: &str = include_str!("../fixtures/nary.ptb");
    /// Tagged sentences.
    pub const SENTENCES: &str = include_str!("../fixtures/tagged.txt");
    /// The vocabulary of [`SENTENCES`].
    pub const SENTENCE_VOCABULARY: &str = include_str!("../fixtures/tagged.vocab");
    /// The sources of the pairs.
    pub const SOURCES: &str = include_str!("../fixtures/source.txt");
    /// The vocabulary of [`SOURCES`].
    pub const SOURCE_VOCABULARY: &str = include_str!("../fixtures/source.vocab");
    /// The targets of the pairs.
    pub const TARGETS: &str = include_str!("../fixtures/target.txt");
    /// The vocabulary of [`TARGETS`].
    pub const TARGET_VOCABULARY: &str = include_str!("../fixtures/target.vocab");
    /// Dense lattices.
    pub const NEWSWIRE: &str = include_str!("../fixtures/newswire.jsonl");
    /// The characters of [`NEWSWIRE`].
    pub const NEWSWIRE_CHARACTERS: &str = include_str!("../fixtures/newswire.chars");
    /// The words of [`NEWSWIRE`].
    pub const NEWSWIRE_WORDS: &str = include_str!("../fixtures/newswire.words");
    /// Sparse lattices.
    pub const WEIBO: &str = include_str!("../fixtures/weibo.jsonl");
}

/// The number of instances in each fixture.
pub const COUNT: usize = 8;

/// The seed of the `Xoshiro256PlusPlus` generator that made the fixtures.
pub const SEED: u64 = 2023;

const READABLE: &str = "fixtures are valid";

/// Binary trees, like the Stanford Sentiment Treebank's.
///
/// ```
/// let trees = edbatch_datasets::fixtures::binary_trees();
/// assert_eq!(trees.len(), edbatch_datasets::fixtures::COUNT);
/// ```
pub fn binary_trees() -> Vec<Tree> {
    all(parse_binary_trees(text::BINARY_TREES.as_bytes(), "binary.txt"))
}

/// N-ary trees, like the Penn Treebank's.
pub fn nary_trees() -> Vec<Tree> {
    all(parse_nary_trees(text::NARY_TREES.as_bytes(), "nary.ptb"))
}

/// Tagged sentences, like WikiNER's.
pub fn sentences() -> Vec<Sentence> {
    all(parse_sentences(text::SENTENCES.as_bytes(), "tagged.txt"))
}

/// Pairs of sentences, like IWSLT's.
pub fn pairs() -> Vec<Pair> {
    let (source, target) = (text::SOURCES.as_bytes(), text::TARGETS.as_bytes());
    all(parse_pairs((source, "source.txt"), (target, "target.txt")))
}

/// Dense lattices, like the newswire lattices of the ED-Batch authors.
pub fn newswire() -> Vec<Lattice> {
    all(parse_lattices(text::NEWSWIRE.as_bytes(), "newswire.jsonl"))
}

/// Sparse lattices, like Weibo's.
pub fn weibo() -> Vec<Lattice> {
    all(parse_lattices(text::WEIBO.as_bytes(), "weibo.jsonl"))
}

/// Parses one of the vocabularies in [`text`].
///
/// ```
/// use edbatch_datasets::fixtures;
///
/// let words = fixtures::vocabulary(fixtures::text::SOURCE_VOCABULARY);
/// assert_eq!((words.id("<s>"), words.id("</s>")), (1, 2));
/// ```
///
/// # Panics
///
/// If the text is not a vocabulary.
pub fn vocabulary(text: &str) -> Vocabulary {
    Vocabulary::parse(text.as_bytes(), "vocabulary").expect(READABLE)
}

fn all<T>(items: impl Iterator<Item = Result<T, Error>>) -> Vec<T> {
    items.collect::<Result<_, _>>().expect(READABLE)
}
