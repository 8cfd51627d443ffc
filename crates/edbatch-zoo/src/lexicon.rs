//! The vocabularies of a model, from the files of its folder.

use std::io::ErrorKind;
use std::path::Path;

use edbatch_datasets::{Error, Position, Vocabulary, read_names};
use edbatch_models::CallLists;

use crate::Family;
#[cfg(doc)]
use crate::{BEGIN, END, PAD};

/// The vocabularies of a [`Family`] of models: the numbers of tokens, and the names of outputs.
#[derive(Clone, PartialEq, Debug)]
pub enum Lexicon {
    /// For binary trees.
    Trees {
        /// `vocab.txt`: the leaves.
        words: Vocabulary,
        /// `classes.txt`: the names of the classes, if labels are not their numbers.
        classes: Option<Vec<String>>,
    },
    /// For sentences of words with tags.
    Tagged {
        /// `vocab.txt`: the words.
        words: Vocabulary,
        /// `tags.txt`: the names of the outputs.
        tags: Vec<String>,
    },
    /// For sentences of words with tags, where unknown words are read character by character.
    Spelled {
        /// `vocab.txt`: the words that are not spelled.
        words: Vocabulary,
        /// `chars.txt`: the characters; number 1 is [`PAD`].
        chars: Vocabulary,
        /// `tags.txt`: the names of the outputs.
        tags: Vec<String>,
    },
    /// For sentences to translate. In both vocabularies, number 1 is [`BEGIN`] and number 2 is
    /// [`END`].
    Translation {
        /// `src_vocab.txt`: the words of the source language.
        source: Vocabulary,
        /// `tgt_vocab.txt`: the words of the target language.
        target: Vocabulary,
    },
    /// For lattices.
    Lattices {
        /// `chars.txt`: the characters.
        chars: Vocabulary,
        /// `words.txt`: the dictionary words that span several characters.
        words: Vocabulary,
        /// `classes.txt`: the names of the classes, if labels are not their numbers.
        classes: Option<Vec<String>>,
    },
    /// For call lists, which name cells and rows: no vocabularies.
    CallLists(CallLists),
}

impl Lexicon {
    /// Reads the vocabularies of a folder.
    ///
    /// # Errors
    /// If a file is missing or not a valid vocabulary, or a name is empty or occurs twice. The
    /// error names the file and the line.
    pub fn read(family: Family, folder: &Path) -> Result<Self, Error> {
        let vocabulary = |name: &str| Vocabulary::read(folder.join(name));
        // Name `i` is on line `i`, counted from 0.
        let names = |name: &str| read_names(folder.join(name));
        let classes = || match names(CLASSES) {
            Err(Error::Open { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(None),
            names => names.map(Some),
        };
        Ok(match family {
            Family::Trees => Self::Trees { words: vocabulary(VOCAB)?, classes: classes()? },
            Family::Tagged => Self::Tagged { words: vocabulary(VOCAB)?, tags: names(TAGS)? },
            Family::Spelled => Self::Spelled {
                words: vocabulary(VOCAB)?,
                chars: beginning(&folder.join(CHARS), &[PAD_TOKEN])?,
                tags: names(TAGS)?,
            },
            Family::Translation => Self::Translation {
                source: beginning(&folder.join(SOURCE), &SENTENCE_TOKENS)?,
                target: beginning(&folder.join(TARGET), &SENTENCE_TOKENS)?,
            },
            Family::Lattices => {
                let (chars, words) = (vocabulary(CHARS)?, vocabulary(WORDS)?);
                Self::Lattices { chars, words, classes: classes()? }
            }
        })
    }

    /// Returns the names of the classes of trees or lattices, if their labels are not numbers.
    #[must_use]
    pub fn classes(&self) -> Option<&[String]> {
        match self {
            Self::Trees { classes, .. } | Self::Lattices { classes, .. } => classes.as_deref(),
            _ => None,
        }
    }

    /// Returns the names of a tagger's tags; none for other models.
    #[must_use]
    pub fn tags(&self) -> &[String] {
        match self {
            Self::Tagged { tags, .. } | Self::Spelled { tags, .. } => tags,
            _ => &[],
        }
    }

    /// Returns the names and contents of the files that [`read`](Self::read) reads.
    #[must_use]
    pub fn files(&self) -> Vec<(&'static str, Vec<u8>)> {
        let of = |vocabulary: &Vocabulary| list(vocabulary.tokens());
        let mut files = match self {
            Self::Trees { words, .. } => vec![(VOCAB, of(words))],
            Self::Tagged { words, tags } => vec![(VOCAB, of(words)), (TAGS, list(tags))],
            Self::Spelled { words, chars, tags } => {
                vec![(VOCAB, of(words)), (CHARS, of(chars)), (TAGS, list(tags))]
            }
            Self::Translation { source, target } => {
                vec![(SOURCE, of(source)), (TARGET, of(target))]
            }
            Self::Lattices { chars, words, .. } => vec![(CHARS, of(chars)), (WORDS, of(words))],
            Self::CallLists(_) => vec![],
        };
        files.extend(self.classes().map(|classes| (CLASSES, list(classes))));
        files
    }
}

pub(crate) const CLASSES: &str = "classes.txt";
const VOCAB: &str = "vocab.txt";
const TAGS: &str = "tags.txt";
const CHARS: &str = "chars.txt";
const WORDS: &str = "words.txt";
const SOURCE: &str = "src_vocab.txt";
const TARGET: &str = "tgt_vocab.txt";

/// The names of all files with vocabularies and names of outputs.
pub(crate) const FILES: [&str; 7] = [VOCAB, CHARS, WORDS, SOURCE, TARGET, TAGS, CLASSES];

/// The text of [`PAD`].
pub(crate) const PAD_TOKEN: &str = "<pad>";

/// The texts of [`BEGIN`] and [`END`].
pub(crate) const SENTENCE_TOKENS: [&str; 2] = ["<s>", "</s>"];

/// Reads a vocabulary that must begin with `<unk>` and `tokens`.
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

fn list(tokens: &[String]) -> Vec<u8> {
    tokens.iter().flat_map(|token| [token, "\n"]).flat_map(str::bytes).collect()
}
