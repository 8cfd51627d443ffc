//! Inputs for dynamic neural networks, whose shape differs from instance to instance: trees,
//! sentences, pairs and lattices.
//!
//! **What it is.** The types [`Tree`], [`Sentence`], [`Pair`], [`Lattice`] and [`Vocabulary`] as
//! plain data; readers and writers of published formats; and tiny fixtures ([`fixtures`]).
//!
//! **When to use it.** To feed the models of this project, or any program that needs the Stanford
//! Sentiment Treebank, Penn Treebank brackets, `word|TAG`, word lattices, or similar data without a
//! download. It is not a natural-language toolkit: it splits at ASCII spaces and tabs, and has no
//! grammar and no Unicode normalisation.
//!
//! | format | read | write |
//! |---|---|---|
//! | `(label left right)`, `(label token)` | [`parse_binary_trees`] | [`write_trees`] |
//! | `(NP (DT the) (NN cat))`, any arity, over lines | [`parse_nary_trees`] | [`write_trees`] |
//! | `word\|TAG word` | [`parse_sentences`] | [`write_sentences`] |
//! | words, one sentence per line | [`parse_plain`] | |
//! | two line-aligned files | [`parse_pairs`] | [`write_pairs`] |
//! | `{"chars": …, "words": …}` per line | [`parse_lattices`] | [`write_lattices`] |
//! | arc files of numbers | [`parse_arcs`] | |
//! | one token per line | [`Vocabulary::read`], [`read_names`] | [`Vocabulary::write`] |
//! | any lines | [`lines()`], [`Lines::new`] | |
//!
//! **What it costs.** Every `parse_*` function takes any `BufRead` and holds one instance at a
//! time; the corresponding `read_*` function, such as [`read_pairs`], takes a path and reads a
//! whole file, plain or `.gz`, as [`open`] does: without a byte order mark. Trees are flat arrays.
//! Nothing recurses, a line has at most [`MAX_LINE`] bytes, and no memory is reserved for a size
//! that a file declares. Hostile input gives an [`Error`] with file, line and column, what was
//! expected there and what was found.
//!
//! ```
//! use edbatch_datasets::{Vocabulary, parse_binary_trees};
//!
//! let text = "(3 (2 good) (2 film))\n(1 (2 bad) (2 film)\n";
//! let mut trees = parse_binary_trees(text.as_bytes(), "reviews.txt");
//!
//! let tree = trees.next().unwrap()?;
//! let words = Vocabulary::from_tokens(tree.tokens());
//! let ids = tree.map(|label| label.len() as u32, |token| words.id(token));
//! assert_eq!((ids.children(2), ids.token(1)), (&[0, 1][..], Some(&2)));
//!
//! let error = trees.next().unwrap().unwrap_err();
//! let expected = "reviews.txt:2:20: expected \")\" for 1 open \"(\", got the end of the line";
//! assert_eq!(error.to_string(), expected);
//! # Ok::<(), edbatch_datasets::Error>(())
//! ```
//!
//! **Where to read next.** [`Tree`]; then `binary.rs`, a typical reader, `lines.rs`, which all
//! readers use, and `brackets.rs`, the parser of trees.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod arcs;
mod atomic_file;
mod atomic_folder;
mod binary;
mod brackets;
mod error;
pub mod fixtures;
mod lattice;
mod lattice_json;
mod lines;
mod nary;
mod open;
mod pair;
mod sentence;
mod tree;
mod vocabulary;
mod write;

pub use arcs::{ArcNumber, MAX_ARCS, parse_arcs, parse_checked_arcs, read_arcs};
pub use atomic_file::{AtomicFile, partial_files, remove_leftovers, write_atomic};
pub use atomic_folder::AtomicFolder;
pub use binary::{parse_binary_trees, parse_checked_binary_trees, read_binary_trees};
pub use error::{Error, Position};
pub use lattice::{Label, Lattice, WordArc};
pub use lattice_json::{parse_checked_lattices, parse_lattices, read_lattices};
pub use lines::{Lines, MAX_LINE, lines};
pub use nary::{parse_nary_trees, read_nary_trees};
pub use open::{open, open_with};
pub use pair::{Pair, parse_pairs, read_pairs};
pub use sentence::{
    SENTENCE_FORMAT, Sentence, parse_checked_sentences, parse_plain, parse_sentences,
    read_sentences,
};
pub use tree::{Tree, TreeBuilder};
pub use vocabulary::{UNKNOWN, Vocabulary, read_names};
pub use write::{write_lattices, write_pairs, write_sentences, write_trees};

/// The README's example, compiled and run by the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
