//! Runs dynamic neural networks fast.
#![forbid(unsafe_code)]

mod engine;
mod executor;
mod load;
mod rows;
mod statistics;

pub use engine::{Engine, RunError};
pub use load::{LoadError, Loaded, load};
pub use rows::Rows;
pub use statistics::{Counts, Statistics};
