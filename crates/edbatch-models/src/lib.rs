//! The model zoo: nine dynamic neural networks, and the trait that they implement.
//!
//! A [`Model`] declares its cells once. It *wires* one input at a time, which means that it calls
//! the cells; it never sees a batch. Each of the nine models has a file about as short as its
//! equations. [`Zoo`] is an enum of all of them; [`Folder`] reads configuration and vocabularies
//! from a model's folder. Use this crate to run one of these models, or only [`Model`] and
//! [`Build`] for a model of your own.
//!
//! *Cost*: wiring takes one `Graph::call` per node and one allocation per instance.
//!
//! ```
//! use edbatch_models::{Model, TreeLstm, TreeSizes};
//!
//! let sizes = TreeSizes { vocabulary: 100, embed: 8, hidden: 16, classes: 5 };
//! let model = TreeLstm::new(sizes)?;
//! assert_eq!(model.network().kind_names(), ["leaf", "node", "output"]);
//! # Ok::<(), edbatch_graph::CellError>(())
//! ```
//!
//! [`CallLists`] is the tenth model: it runs any network, for example one that
//! [`network_from_json`] reads, and its inputs are data, [`CallList`]s.
//!
//! Read `tree_lstm.rs` next, then [`Build`] for models that await computed values.
#![forbid(unsafe_code)]

mod bilstm_tagger;
mod bilstm_tagger_char;
mod build;
mod call_list;
mod cells;
mod config;
#[cfg(test)]
mod error_texts;
mod folder;
mod input;
mod json_fault;
mod lattice;
mod lattice_gru;
mod lattice_lstm;
mod lexicon;
mod lstm_nmt;
mod model;
mod mv_rnn;
mod network_file;
mod stack;
mod targets;
mod tree;
mod tree_gru;
mod tree_lstm;
mod tree_lstm_2type;
mod vocabularies;
mod zoo;

pub use bilstm_tagger::{BiLstmTagger, TaggerSizes};
pub use bilstm_tagger_char::{BiLstmTaggerChar, CharTaggerSizes, PAD, Word};
pub use build::{Answer, Build, GiveError, Mailbox, Request, arg_max};
pub use call_list::{CallList, CallListError, CallLists};
pub use config::{ConfigError, Family, ModelConfig, ModelName};
pub use folder::{Folder, FolderError};
pub use input::{Inputs, ZooInput, inputs, is_arc_file};
pub use json_fault::JsonFault;
pub use lattice::LatticeSizes;
pub use lattice_gru::LatticeGru;
pub use lattice_lstm::LatticeLstm;
pub use lexicon::Lexicon;
pub use lstm_nmt::{BEGIN, END, LstmNmt, NmtSizes, SourceSentence, Stop};
pub use model::{BuildError, Model, Targets};
pub use mv_rnn::{MvRnn, MvRnnSizes};
pub use network_file::{UnwritableNetwork, network_from_json, network_to_json};
pub use targets::Examples;
pub use tree::TreeSizes;
pub use tree_gru::TreeGru;
pub use tree_lstm::TreeLstm;
pub use tree_lstm_2type::{IndexedTree, TreeLstm2Type};
pub use vocabularies::{Vocabularies, VocabularyError, build_vocabularies};
pub use zoo::{NamedOutputs, Zoo};

/// The README's example, compiled and run by the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
