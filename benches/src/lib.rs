//! Measures ED-Batch: batches, throughput and where the time goes, next to other ways to run the
//! same models on the same runtime.
//!
//! `cargo xtask bench` runs it; `cargo xtask bench --help` lists the options. Every measurement is
//! a [`record`]: a row of a table, a line of JSON, and a mark on a plot of the HTML page.
//!
//! # Three floors
//!
//! Each floor imports only from itself and from the floors below it.
//!
//! 1. [`record`]: the schema of measurements and the file that holds them.
//! 2. [`measure`]: workloads, systems, peers, and the parts that time or count them. A CUDA device
//!    is one more [system](measure::systems).
//! 3. [`render`]: [tables](render::table) for the terminal, the documentation and the page, and the
//!    page's plots.
//!
//! docs/benchmarks.md describes the method. In the sources: [`measure::families`] is the table of
//! models and sets, [`measure::systems`] the table of systems, [`measure::rounds`] the way they
//! take turns.
#![forbid(unsafe_code)]

pub mod measure;
pub mod paper;
pub mod pulse;
pub mod record;
pub mod render;
pub mod spread;
pub mod text;

/// The error of everything that measures or renders: a message for the user, from any cause.
pub type Failure = Box<dyn std::error::Error>;
