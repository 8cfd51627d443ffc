//! Verifies and measures the CUDA backend: `cargo xtask gpu`.
//!
//! A file a part, in the order in which they count: nothing else does before `verify` has passed.
//! Each part takes a [`Context`](run::Context) and writes [`record`]s; nothing is timed before its
//! results were compared with those of the CPU. What the design predicts ([`predictions`]), what is
//! to be held ([`targets`]) and what a figure decides ([`verdicts`]) is computed from the records
//! alone. On the emulated device the same code is rehearsed, and no figure says anything.

mod baseline;
pub mod device;
mod latencies;
pub mod on_device;
pub mod options;
mod pack;
mod page;
pub mod predictions;
mod probe;
pub mod record;
pub mod run;
mod sanitize;
pub mod setting;
mod stress;
mod sweep;
pub mod tables;
pub mod targets;
mod throughput;
pub mod verdicts;
mod verify;
