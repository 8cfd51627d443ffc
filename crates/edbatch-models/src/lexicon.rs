//! The words that a model reads and writes, as numbers: a folder's vocabulary files.

use std::path::Path;

use edbatch_datasets::{Error, Vocabulary, lines};

use crate::Family;

/// Everything that a model of a [`Family`] needs to read an input and to name its outputs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Lexicon {
    /// For binary trees.
    Trees {
        /// `vocab.txt`: the leaves.
        words: Vocabulary,
    },
    /// For sentences of words with tags.
    Tagged {
        /// `vocab.txt`: the words.
        words: Vocabulary,
        /// `tags.txt`: the names of the outputs.
        tags: Vec<String>,
    },
    /// For lattices.
    Lattices {
        /// `chars.txt`: the characters.
        chars: Vocabulary,
        /// `words.txt`: the words between them.
        words: Vocabulary,
    },
}

impl Lexicon {
    /// Reads the files of a folder.
    ///
    /// # Errors
    /// If one is missing, or no vocabulary: names file and line.
    pub fn read(family: Family, folder: &Path) -> Result<Self, Error> {
        let vocabulary = |name: &str| Vocabulary::read(folder.join(name));
        Ok(match family {
            Family::Trees => Self::Trees { words: vocabulary(VOCAB)? },
            Family::Tagged => {
                Self::Tagged { words: vocabulary(VOCAB)?, tags: names(&folder.join(TAGS))? }
            }
            Family::Lattices => {
                Self::Lattices { chars: vocabulary(CHARS)?, words: vocabulary(WORDS)? }
            }
        })
    }

    /// The files that [`read`](Self::read) reads, by name.
    #[must_use]
    pub fn files(&self) -> Vec<(&'static str, Vec<u8>)> {
        match self {
            Self::Trees { words } => vec![(VOCAB, list(words.tokens()))],
            Self::Tagged { words, tags } => {
                vec![(VOCAB, list(words.tokens())), (TAGS, list(tags))]
            }
            Self::Lattices { chars, words } => {
                vec![(CHARS, list(chars.tokens())), (WORDS, list(words.tokens()))]
            }
        }
    }
}

const VOCAB: &str = "vocab.txt";
const TAGS: &str = "tags.txt";
const CHARS: &str = "chars.txt";
const WORDS: &str = "words.txt";

/// A name a line, in the order of their numbers.
fn names(path: &Path) -> Result<Vec<String>, Error> {
    lines(path)?.collect()
}

fn list(tokens: &[String]) -> Vec<u8> {
    tokens.iter().flat_map(|token| [token, "\n"]).flat_map(str::bytes).collect()
}
