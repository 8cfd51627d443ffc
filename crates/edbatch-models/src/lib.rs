//! The model zoo: cells plus wiring, one instance at a time.
#![forbid(unsafe_code)]

mod bilstm_tagger;
mod build;
mod cells;
mod lattice;
mod lattice_lstm;
mod model;
mod tree;
mod tree_lstm;

pub use bilstm_tagger::{BiLstmTagger, TaggerSizes};
pub use build::{Build, Exchange, arg_max};
pub use lattice_lstm::{LatticeLstm, LatticeSizes};
pub use model::{BuildError, Model};
pub use tree_lstm::{TreeLstm, TreeSizes};
