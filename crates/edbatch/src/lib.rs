//! Runs dynamic neural networks fast.
#![forbid(unsafe_code)]

pub use edbatch_datasets as datasets;
pub use edbatch_graph as graph;
pub use edbatch_layout as layout;
pub use edbatch_models as models;
pub use edbatch_policy as policy;
pub use edbatch_runtime as runtime;

mod engine;
mod executor;
mod load;
mod report;
mod rows;
mod statistics;

pub use engine::{Engine, RunError};
pub use load::{LoadError, Loaded, load};
pub use report::{KindReport, Report};
pub use rows::Rows;
pub use statistics::{Counts, Statistics};

/// The README's examples, compiled and run by the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
