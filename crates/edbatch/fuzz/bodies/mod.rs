//! What the fuzz targets do with bytes, a file each. `tests/fuzzed.rs` runs the same on the seeds
//! and for a moment on random bytes.

pub(crate) mod graphs;
pub(crate) mod layouts;
#[cfg(feature = "cli")]
pub(crate) mod marks;
pub(crate) mod models;
#[cfg(feature = "cuda")]
pub(crate) mod networks;
pub(crate) mod policies;
pub(crate) mod pq_trees;
pub(crate) mod readers;
