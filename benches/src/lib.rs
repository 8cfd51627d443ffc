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
//! # Method
//!
//! - **Counts** of batches are means over evenly spaced mini-batches of a set
//!   ([`measure::counts`]). Policies learn on a different part of the set.
//! - **Throughput** is measured from parsed inputs to outputs on the host
//!   ([`measure::throughput`]). It includes construction, scheduling and planning. Nothing but
//!   memory is kept between mini-batches. Systems take turns in
//!   [rounds](measure::rounds); the rounds form laps, spread over the whole run. A figure is the
//!   median of its laps, with the distance to the farthest lap ([`spread`]).
//! - **Results** of every system are compared with the interpreter's before it is timed.
//! - **FLOPs** are counted from the equations ([`measure::flops`]). Fractions of the peak refer to
//!   the peak measured between the same turns.
//!
//! # Where to read next
//!
//! [`measure::families`] is the table of models and sets; [`measure::systems`] is the table of
//! systems.
#![forbid(unsafe_code)]

mod failure;
pub mod files;
pub mod measure;
pub mod paper;
pub mod record;
pub mod render;
pub mod spread;
pub mod text;

pub use failure::Failure;
