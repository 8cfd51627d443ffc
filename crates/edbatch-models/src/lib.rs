//! The model zoo: cells plus wiring, one instance at a time.
#![forbid(unsafe_code)]

mod bilstm_tagger;
mod bilstm_tagger_char;
mod build;
mod cells;
mod config;
mod folder;
mod gather;
mod input;
mod lattice;
mod lattice_gru;
mod lattice_lstm;
mod lexicon;
mod lstm_nmt;
mod model;
mod mv_rnn;
mod stack;
mod tree;
mod tree_gru;
mod tree_lstm;
mod tree_lstm_2type;
mod zoo;

pub use bilstm_tagger::{BiLstmTagger, TaggerSizes};
pub use bilstm_tagger_char::{BiLstmTaggerChar, CharTaggerSizes, PAD, Word};
pub use build::{Build, Exchange, arg_max};
pub use config::{Config, ConfigError, Family, ModelName};
pub use folder::{Folder, FolderError};
pub use gather::{GatherError, Gathered, gather};
pub use input::{Inputs, ZooInput, inputs, is_arc_file};
pub use lattice_gru::LatticeGru;
pub use lattice_lstm::{LatticeLstm, LatticeSizes};
pub use lexicon::Lexicon;
pub use lstm_nmt::{BEGIN, END, LstmNmt, NmtSizes, SourceSentence, Stop};
pub use model::{BuildError, Model};
pub use mv_rnn::{MvRnn, MvRnnSizes};
pub use tree::TreeSizes;
pub use tree_gru::TreeGru;
pub use tree_lstm::TreeLstm;
pub use tree_lstm_2type::{IndexedTree, TreeLstm2Type};
pub use zoo::{Named, Zoo};
