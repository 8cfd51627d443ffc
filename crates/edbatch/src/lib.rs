//! Runs dynamic neural networks fast: networks whose graph is another one for every input.
//!
//! # What it is
//!
//! You state a model as a few *cells*, the equations of a tree's node or of an LSTM's step, and
//! wire them for a single input in plain code. The [`Engine`] wires a whole mini-batch, decides
//! which calls run together and in which order ([`policy`]), where their rows lie ([`layout`]), and
//! runs them in batches ([`runtime`]). Results do not depend on the mini-batch or the policy, bit
//! by bit.
//!
//! # When to use it, and when not
//!
//! For inference over trees, lattices, sequences of different lengths, and decoders that stop when
//! they like, on small to middling cells, where running one instance after another wastes most of
//! the machine. Not for training: there are no gradients. Not for networks that have the same graph
//! for every input: any framework batches those.
//!
//! # What it costs
//!
//! Per call of a cell some tens of nanoseconds to construct, schedule and plan; an engine compiles
//! its cells once, in well under a millisecond each, and keeps its memory from mini-batch to
//! mini-batch. [`Engine::statistics`] tells each phase's time.
//!
//! # Example
//!
//! Trees whose nodes have any number of children; of each tree the scores of its root.
//!
//! ```
//! use std::sync::Arc;
//!
//! use edbatch::Engine;
//! use edbatch::graph::{CellError, Kind, Network, Shape, Value};
//! use edbatch::models::{Build, BuildError, Model};
//! use edbatch::runtime::Parameters;
//! use rand::{SeedableRng, rngs::Xoshiro256PlusPlus};
//!
//! /// A word and, for each of its dependents, a tree.
//! struct Tree {
//!     word: u32,
//!     dependents: Vec<Tree>,
//! }
//!
//! struct Classifier {
//!     network: Arc<Network>,
//!     node: Kind,
//!     score: Kind,
//!     absent: Value,
//! }
//!
//! impl Classifier {
//!     /// Declares the cells, once.
//!     fn new() -> Result<Self, CellError> {
//!         let mut network = Network::new();
//!         let state = network.record("state", [("h", Shape::Vector(16))])?;
//!         let scores = network.record("scores", [("y", Shape::Vector(3))])?;
//!         let absent = network.initial(state, &["absent.h"])?;
//!         let node = network.cell("node", state, |cell| {
//!             let x = cell.lookup("word", "embed", &[100, 8]);
//!             let [dependents] = cell.many("dependents", state).sum();
//!             let (w, u) = (cell.parameter("w", &[16, 8]), cell.parameter("u", &[16, 16]));
//!             vec![(w.matmul(x) + u.matmul(dependents) + cell.parameter("b", &[16])).tanh()]
//!         })?;
//!         let score = network.cell("score", scores, |cell| {
//!             let [h] = cell.one("root", state);
//!             vec![cell.parameter("out", &[3, 16]).matmul(h).log_softmax()]
//!         })?;
//!         Ok(Self { network: Arc::new(network), node, score, absent })
//!     }
//!
//!     fn state(&self, build: &Build<'_>, tree: &Tree) -> Result<Value, BuildError> {
//!         let mut below = Vec::new();
//!         for dependent in &tree.dependents {
//!             below.push(self.state(build, dependent)?);
//!         }
//!         if below.is_empty() {
//!             below.push(self.absent);
//!         }
//!         Ok(build.call(self.node, &[tree.word], &below)?)
//!     }
//! }
//!
//! impl Model for Classifier {
//!     type Input = Tree;
//!
//!     fn network(&self) -> &Arc<Network> {
//!         &self.network
//!     }
//!
//!     /// Wires one tree.
//!     async fn build(&self, build: &Build<'_>, tree: &Tree) -> Result<(), BuildError> {
//!         let root = self.state(build, tree)?;
//!         build.emit(build.call(self.score, &[], &[root])?);
//!         Ok(())
//!     }
//! }
//!
//! let model = Classifier::new()?;
//! let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
//! let parameters = Parameters::random(model.network(), &mut rng);
//! let mut engine = Engine::new(model, parameters)?;
//!
//! let leaf = |word| Tree { word, dependents: vec![] };
//! let saw = Tree { word: 7, dependents: vec![leaf(3), leaf(5)] };
//! let said = Tree { word: 9, dependents: vec![leaf(3), saw, leaf(8)] };
//! let outputs = engine.run(&[said, leaf(4)])?;
//!
//! let probabilities: f32 = outputs[0].row(0).iter().map(|log| log.exp()).sum();
//! assert!((probabilities - 1.0).abs() < 1e-6);
//! // Seven nodes and two scores, in four batches.
//! assert_eq!((engine.statistics().nodes, engine.statistics().batches), (9, 4));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Where to read next
//!
//! The examples, in rising order, beginning with `1_own_model`. [`models`] for a dozen lines per
//! published model, and [`models::Build::fetch`] for graphs that grow while they run;
//! [`graph::CellBuilder`] for all that a cell may do. [`load`] reads a model from a folder, as the
//! command `edbatch` does. In the sources: `engine.rs`, then `session.rs`.
#![forbid(unsafe_code)]

pub use edbatch_datasets as datasets;
pub use edbatch_graph as graph;
pub use edbatch_layout as layout;
pub use edbatch_models as models;
pub use edbatch_policy as policy;
pub use edbatch_runtime as runtime;

#[cfg(doctest)]
mod book;
#[cfg(feature = "tracing")]
mod chrome_trace;
mod engine;
mod error;
mod finite;
mod inner_schedules;
mod interpret;
mod load;
mod options;
mod output;
mod rendezvous;
mod report;
mod session;
mod statistics;
mod wiring;
mod workers;

#[cfg(feature = "tracing")]
pub use chrome_trace::ChromeTrace;
pub use edbatch_runtime::Rows;
pub use engine::Engine;
pub use error::{EngineError, InputError, NotFiniteCall, NotFiniteCause, RunError};
pub use inner_schedules::{cell_schedule, cell_schedules, cell_schedules_by};
pub use interpret::{Interpreted, interpret, interpret_finite};
pub use load::{LoadError, Loaded, load};
pub use options::{EngineOptions, RunOptions};
pub use report::{KindReport, Report};
pub use statistics::{Counts, Statistics};

/// The README's examples, compiled and run by the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// The example of the crate's own README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct CrateReadme;
