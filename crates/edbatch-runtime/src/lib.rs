//! Runs plans on the CPU, or counts their work.
//!
//! A [`Backend`] executes the plans that `edbatch-layout` makes. [`Cpu`] runs them on one core or
//! several; [`Count`] computes nothing and counts kernels. [`interpret()`], the reference, needs
//! no plan: it computes a graph node by node. Use this crate if you schedule and plan yourself;
//! the engine of `edbatch` does that for you.
//!
//! *Cost*: weights are packed once ([`kernels`]), and nothing is allocated per node.
//!
//! ```
//! use edbatch_graph::{Graph, Network, Shape};
//! use edbatch_runtime::{Parameters, Precision, interpret};
//! use rand::SeedableRng;
//!
//! let mut network = Network::new();
//! let state = network.record("state", [("h", Shape::Vector(2))])?;
//! let leaf = network.cell("leaf", state, |cell| {
//!     vec![cell.lookup("token", "embed", &[9, 2]).tanh()]
//! })?;
//! let mut rng = rand::rngs::Xoshiro256PlusPlus::seed_from_u64(1);
//! let parameters = Parameters::random(&network, &mut rng);
//! let mut graph = Graph::new(network.into());
//! graph.call(leaf, &[4], &[])?;
//! let results = interpret(&graph, &parameters, &[], Precision::F32);
//! assert_eq!(results[0][0].len(), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Read [`Backend`] next, then `cpu.rs` and [`kernels`]. All `unsafe` code of the crate is in
//! [`kernels`] and in `thread_pool.rs`.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod backend;
mod count;
mod cpu;
#[cfg(test)]
mod error_texts;
mod finite;
mod interpret;
pub mod kernels;
mod parameters;
mod precision;
pub mod pytorch;
mod rows;
mod span;
mod thread_pool;
mod weights_file;

pub use backend::{
    BackPart, Backend, BackendError, Borrowed, Borrowing, Bytes, Clipping, Contributors, Given,
    GivenPlace, Gradient, Gradients, NamedRows, NotFiniteIn, OutputGradients, Outputs, Part,
    PartLimits, StepResult, StepTimes, StillWanted, StoredRow, Training, TrainingPart,
    TrainingState, TrainingStep, Update, UpdateRule, fields, initial_rows, try_memory,
};
pub use count::{Count, KernelCounts, gathered_bytes};
pub use cpu::{Cpu, Profile, Timer, Work};
pub use finite::{NotFinite, NotFiniteWeight};
pub use interpret::{
    ReferenceGradients, ReferenceTensor, initial_values, interpret, interpret_as,
    interpret_gradients,
};
pub use parameters::{ParameterError, Parameters};
pub use precision::{Precision, UnknownPrecision};
#[doc(hidden)]
pub use rows::Rows;
pub use span::{SPAN_TARGET, SpanGuard};
pub use thread_pool::{ClaimedPool, ThreadPool};
pub use weights_file::open_safetensors;

/// The crate `tracing`, for uses of [`span!`] in other crates.
#[cfg(feature = "tracing")]
#[doc(hidden)]
pub use tracing;

/// The README's example, compiled and run by the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
