//! Fast inference for dynamic neural networks, whose graph differs from input to input.
//!
//! # What it is
//!
//! A model consists of a few *cells*, such as the equations of a tree node or of an LSTM step, and
//! of plain code that wires them for a single input. The [`Engine`] wires a whole mini-batch,
//! decides which calls run together and in which order ([`policy`]), assigns memory to their rows
//! ([`layout`]), and runs them in batches ([`runtime`]). Results are bitwise independent of the
//! mini-batch and the policy.
//!
//! # When to use it, and when not
//!
//! Use it for inference over trees, lattices, sequences of different lengths, and decoders that
//! choose when to stop. It pays for small and medium cells, for which running one instance at a
//! time wastes most of the machine. A [`Trainer`] trains such models, in batches too. Networks with
//! the same graph for every input do not need it: any framework batches those.
//!
//! # What it costs
//!
//! Constructing, scheduling and planning take some tens of nanoseconds per call of a cell. An
//! engine compiles its cells once, in well under a millisecond each, and reuses its memory for
//! every mini-batch. [`Engine::statistics`] returns the time of each phase.
//!
//! # Example
//!
//! Classifies trees whose nodes have any number of children, by the state of their root.
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
//! - The examples, beginning with `1_own_model`.
//! - [`models`]: published models, a dozen lines each. [`models::Build::fetch`]: graphs that grow
//!   while they run.
//! - [`graph::CellBuilder`]: the operations of cells.
//! - [`load()`]: models from folders, as in the command `edbatch`.
//! - In the sources: `engine.rs`, then `rounds.rs`.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

#[cfg(feature = "cuda")]
pub use edbatch_cuda as cuda;
pub use edbatch_datasets as datasets;
pub use edbatch_graph as graph;
pub use edbatch_layout as layout;
pub use edbatch_policy as policy;
pub use edbatch_runtime as runtime;

/// Models: the trait, models as data, and the model zoo.
pub mod models {
    pub use edbatch_models::*;
    pub use edbatch_zoo::*;
}

#[cfg(doctest)]
mod book;
mod cell_report;
#[cfg(feature = "tracing")]
mod chrome_trace;
mod decide;
mod engine;
mod error;
#[cfg(test)]
mod error_texts;
mod finite;
mod inner_schedules;
mod interpret;
mod load;
mod one_batch;
mod options;
mod output;
mod rendezvous;
mod report;
mod rounds;
mod schedule_svg;
mod session;
mod statistics;
mod store;
mod train;
mod wiring;
mod workers;

pub use cell_report::{CellPlanReport, CellReport, cell_reports};
#[cfg(feature = "tracing")]
pub use chrome_trace::ChromeTrace;
pub use edbatch_runtime::{Precision, Rows};
pub use engine::Engine;
pub use error::{EngineError, InputError, NotFiniteCall, NotFiniteCause, RunError};
pub use inner_schedules::{cell_schedule, cell_schedules, cell_schedules_by};
pub use interpret::{Interpreted, interpret, interpret_finite};
pub use load::{LoadError, Loaded, load};
pub use options::{EngineOptions, RunOptions};
pub use report::{KindReport, Report};
pub use schedule_svg::schedule_svg;
pub use session::{
    ArraysError, Handle, Session, SessionCalls, SessionError, SessionOptions, SessionStatistics,
};
pub use statistics::{Counts, Statistics};
pub use train::{
    Group, Loss, LossGradients, Optimizer, Rate, Times, TrainError, TrainReport, Trainer,
    TrainerOptions, interpret_gradients, shuffled,
};

/// The README's examples, compiled and run by the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// The example of the crate's own README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct CrateReadme;
