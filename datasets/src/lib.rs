//! Inputs for models whose shape differs from instance to instance: trees, sentences, pairs and lattices.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod arcs;
mod binary;
mod brackets;
mod error;
pub mod fixtures;
pub mod generate;
mod lattice;
mod lattice_json;
mod lines;
mod nary;
mod pair;
mod sentence;
mod tree;
mod vocabulary;
mod write;

pub use arcs::{Arcs, MAX_ARCS, parse_arcs, read_arcs};
pub use binary::{BinaryTrees, parse_binary_trees, read_binary_trees};
pub use error::{Error, Position};
pub use lattice::{Lattice, WordArc};
pub use lattice_json::{parse_lattices, read_lattices};
pub use lines::{Lines, MAX_LINE, lines, open};
pub use nary::{NaryTrees, parse_nary_trees, read_nary_trees};
pub use pair::{Pair, Pairs, parse_pairs, read_pairs};
pub use sentence::{Sentence, parse_plain, parse_sentences, read_plain, read_sentences};
pub use tree::{Tree, TreeBuilder};
pub use vocabulary::{UNKNOWN, Vocabulary};
pub use write::{write_arcs, write_lattices, write_pairs, write_sentences, write_trees};
