//! Measures ED-Batch: batches, throughput, where the time goes, beside other ways to run the same
//! models on the same runtime.
//!
//! `cargo xtask bench` runs it; `cargo xtask bench --help` lists what can be chosen. A figure is a
//! [`record`], printed in a table, written as a line of JSON, and drawn on an HTML page.
//!
//! # Method
//!
//! - **Counts** of batches are means over mini-batches at equal distances in a set ([`counts`]);
//!   policies learn on another part of it.
//! - **Throughput** is from parsed inputs to outputs on the host: construction, scheduling and
//!   planning included, nothing kept from the last mini-batch but memory ([`throughput`]).
//!   Contestants take turns to the last round ([`rounds`](mod@rounds)), in laps over the whole run;
//!   each figure is the median of the laps, with the farthest of them ([`spread`]).
//! - Before anything is timed, every contestant's results are compared with the interpreter's.
//! - **FLOPs** are those of the equations ([`flops`](mod@flops)), and fractions are of the peak
//!   measured between the same turns.
//!
//! # Where to read next
//!
//! [`families`]: the table of models and sets. [`systems`]: the contestants, [`vanilla`] among
//! them.
#![forbid(unsafe_code)]

pub mod against;
mod agreement;
pub mod backends;
pub mod cell_latency;
pub mod cell_layouts;
pub mod chart;
pub mod counts;
pub mod docs;
pub mod families;
pub mod files;
pub mod flops;
#[cfg(feature = "cuda")]
pub mod gpu;
pub mod growth;
pub mod headline;
pub mod journal;
pub mod learning;
pub mod live;
pub mod machine;
pub mod options;
pub mod page;
pub mod palette;
pub mod paper_report;
pub mod paper_table;
pub mod peers;
pub mod plain;
pub mod policies;
pub mod pq_trees;
pub mod record;
pub mod report;
pub mod rounds;
pub mod run;
pub mod sets;
pub mod soak;
pub mod sorted;
pub mod speedups;
pub mod spread;
pub mod summary;
pub mod systems;
pub mod table;
pub mod text;
pub mod throughput;
pub mod unrolled;
pub mod vanilla;
pub mod visits;
pub mod workload;
