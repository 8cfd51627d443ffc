//! Seeded generators: inputs with the statistics of real data sets, for benchmarks and tests that
//! must run without a download.
//!
//! The generators match the statistics of the real sets that determine the sizes of batches:
//! lengths, depths of trees, how often words repeat within a mini-batch of 64, and the number of
//! words in a lattice and how they nest and cross. They do not match grammar, meaning or word
//! order.
//!
//! | generator | model of | length | shape | distinct |
//! |---|---|---|---|---|
//! | [`binary_trees`] | SST train | 19.1 leaves | depth 10.8 | 51 % |
//! | [`nary_trees`] | GUM constituents | 23.4 leaves | depth 10.3, 1.8 nodes per leaf | 38 % |
//! | [`tagged_sentences`] | WikiNER, WikiGold | 24.8 words | 16 % inside names | 43 % |
//! | [`pairs`] | IWSLT tst2013 | 21.1 → 26.6 words | ratio 1.26 | 35 % → 32 % |
//! | [`Style::Newswire`] | ED-Batch's lattices | 43.1 characters | 0.54 words a character | 24 % |
//! | [`Style::Weibo`] | Weibo NER | 54.7 characters | 0.31 words per character | 27 % |
//!
//! *Distinct* is the number of distinct words in 64 instances, divided by the number of words; for
//! [`lattices`], of characters.
//!
//! The same seed gives the same instances if the random generator guarantees a stable stream, as
//! `rand::rngs::Xoshiro256PlusPlus` does. *Cost.* A table of word frequencies per call (a
//! millisecond), then microseconds per instance.
//!
//! ```
//! use edbatch_testing::generate;
//! use rand::{SeedableRng, rngs::Xoshiro256PlusPlus};
//!
//! let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
//! let trees = generate::binary_trees(&mut rng, 64);
//! assert!(trees.iter().all(|tree| tree.len() == 2 * tree.leaves() - 1));
//! ```

mod draw;
mod lattices;
mod sentences;
mod trees;

pub use lattices::{Style, lattices};
pub use sentences::{pairs, tagged_sentences};
pub use trees::{binary_trees, nary_trees};

use edbatch_datasets::{Vocabulary, write_lattices, write_pairs, write_sentences, write_trees};
use rand::Rng;

/// Generates every set with `count` instances, and its vocabularies. Returns file names and
/// contents.
///
/// The example `generate` writes these files to a folder. The fixtures of `edbatch-datasets` are
/// made this way.
pub fn files(rng: &mut impl Rng, count: usize) -> Vec<(&'static str, Vec<u8>)> {
    let binary = binary_trees(rng, count);
    let sentences = tagged_sentences(rng, count);
    let pairs = pairs(rng, count);
    let newswire = lattices(rng, count, Style::Newswire);
    let special = ["<s>", "</s>"];
    let sources = special.into_iter().chain(words(pairs.iter().map(|pair| &pair.source)));
    let targets = special.into_iter().chain(words(pairs.iter().map(|pair| &pair.target)));
    let (mut source, mut target) = (Vec::new(), Vec::new());
    write_pairs(&pairs, &mut source, &mut target).expect(WRITABLE);
    vec![
        ("binary.txt", bytes(|file| write_trees(&binary, file))),
        (
            "binary.vocab",
            vocabulary(binary.iter().flat_map(|tree| tree.tokens()).map(String::as_str)),
        ),
        ("nary.ptb", bytes(|file| write_trees(&nary_trees(rng, count), file))),
        ("tagged.txt", bytes(|file| write_sentences(&sentences, file))),
        ("tagged.vocab", vocabulary(words(sentences.iter().map(|sentence| &sentence.words)))),
        ("source.txt", source),
        ("source.vocab", vocabulary(sources)),
        ("target.txt", target),
        ("target.vocab", vocabulary(targets)),
        ("newswire.jsonl", bytes(|file| write_lattices(&newswire, file))),
        ("newswire.chars", vocabulary(words(newswire.iter().map(|lattice| &lattice.chars)))),
        (
            "newswire.words",
            vocabulary(newswire.iter().flat_map(|l| &l.words).map(|arc| arc.word.as_str())),
        ),
        ("weibo.jsonl", bytes(|file| write_lattices(&lattices(rng, count, Style::Weibo), file))),
    ]
}

const WRITABLE: &str = "generated tokens are valid in every format; writes to memory succeed";

fn bytes(write: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>) -> Vec<u8> {
    let mut file = Vec::new();
    write(&mut file).expect(WRITABLE);
    file
}

fn vocabulary<'a>(tokens: impl Iterator<Item = &'a str>) -> Vec<u8> {
    bytes(|file| Vocabulary::from_tokens(tokens).write(file))
}

fn words<'a>(sentences: impl Iterator<Item = &'a Vec<String>>) -> impl Iterator<Item = &'a str> {
    sentences.flatten().map(String::as_str)
}
