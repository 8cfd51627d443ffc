//! The vocabularies of a model: which token has which number, as the files of its folder say.

use std::path::Path;

use edbatch_datasets::{Error, Position, Vocabulary, lines};

use crate::Family;
#[cfg(doc)]
use crate::{BEGIN, END, PAD};

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
    /// The same, with the characters of which unknown words are made.
    Spelled {
        /// `vocab.txt`: the words that are not spelled.
        words: Vocabulary,
        /// `chars.txt`: the characters; number 1 is [`PAD`].
        chars: Vocabulary,
        /// `tags.txt`: the names of the outputs.
        tags: Vec<String>,
    },
    /// For sentences to translate. In both, number 1 is [`BEGIN`] and number 2 is [`END`].
    Translation {
        /// `src_vocab.txt`: the words that are read.
        source: Vocabulary,
        /// `tgt_vocab.txt`: the words that are written.
        target: Vocabulary,
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
            Family::Spelled => Self::Spelled {
                words: vocabulary(VOCAB)?,
                chars: beginning(&folder.join(CHARS), &[PAD_TOKEN])?,
                tags: names(&folder.join(TAGS))?,
            },
            Family::Translation => Self::Translation {
                source: beginning(&folder.join(SOURCE), &SENTENCE_TOKENS)?,
                target: beginning(&folder.join(TARGET), &SENTENCE_TOKENS)?,
            },
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
            Self::Spelled { words, chars, tags } => {
                vec![
                    (VOCAB, list(words.tokens())),
                    (CHARS, list(chars.tokens())),
                    (TAGS, list(tags)),
                ]
            }
            Self::Translation { source, target } => {
                vec![(SOURCE, list(source.tokens())), (TARGET, list(target.tokens()))]
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
const SOURCE: &str = "src_vocab.txt";
const TARGET: &str = "tgt_vocab.txt";

/// How [`PAD`] is written.
pub(crate) const PAD_TOKEN: &str = "<pad>";

/// How [`BEGIN`] and [`END`] are written.
pub(crate) const SENTENCE_TOKENS: [&str; 2] = ["<s>", "</s>"];

/// A vocabulary that begins with `<unk>` and these tokens.
fn beginning(path: &Path, tokens: &[&str]) -> Result<Vocabulary, Error> {
    let vocabulary = Vocabulary::read(path)?;
    for (&token, id) in tokens.iter().zip(1..) {
        if vocabulary.token(id) != Some(token) {
            let at =
                Position { file: path.display().to_string(), line: u64::from(id) + 1, column: 1 };
            let got =
                vocabulary.token(id).map_or("the end of the file".into(), |t| format!("{t:?}"));
            return Err(Error::Format { at, expected: format!("{token:?}"), got });
        }
    }
    Ok(vocabulary)
}

/// A name a line, in the order of their numbers.
fn names(path: &Path) -> Result<Vec<String>, Error> {
    lines(path)?.collect()
}

fn list(tokens: &[String]) -> Vec<u8> {
    tokens.iter().flat_map(|token| [token, "\n"]).flat_map(str::bytes).collect()
}
