#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod bilstm_tagger;
mod bilstm_tagger_char;
mod cells;
mod config;
#[cfg(test)]
mod error_texts;
mod folder;
mod folder_model;
mod input;
mod lattice;
mod lattice_gru;
mod lattice_lstm;
mod lexicon;
mod lstm_nmt;
mod model;
mod mv_rnn;
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
pub use config::{ConfigError, Family, ModelConfig, ModelName};
pub use folder::{Folder, FolderError};
pub use folder_model::FolderModel;
pub use input::{Inputs, ZooInput, inputs, is_arc_file};
pub use lattice::LatticeSizes;
pub use lattice_gru::LatticeGru;
pub use lattice_lstm::LatticeLstm;
pub use lexicon::Lexicon;
pub use lstm_nmt::{BEGIN, END, LstmNmt, NmtSizes, SourceSentence, Stop};
pub use mv_rnn::{MvRnn, MvRnnSizes};
pub use targets::Examples;
pub use tree::TreeSizes;
pub use tree_gru::TreeGru;
pub use tree_lstm::TreeLstm;
pub use tree_lstm_2type::{IndexedTree, TreeLstm2Type};
pub use vocabularies::{Vocabularies, VocabularyError, build_vocabularies};
pub use zoo::{NamedOutputs, Zoo};
