//! The bodies of the fuzz targets, one file each. `tests/fuzzed.rs` runs them on the seeds, and for
//! a short time on random bytes.

pub(crate) mod call_lists;
pub(crate) mod graphs;
pub(crate) mod layouts;
pub(crate) mod models;
pub(crate) mod network_file;
#[cfg(feature = "cuda")]
pub(crate) mod networks;
pub(crate) mod policies;
pub(crate) mod pq_trees;
pub(crate) mod readers;
