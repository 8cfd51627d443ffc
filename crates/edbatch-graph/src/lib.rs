//! The intermediate representation of ED-Batch: what is computed, never when or where.
//!
//! # What it is
//!
//! A neural network over trees, lattices or chains has another shape for every input, so its
//! computation is described twice. Once per model, a [`Network`] declares *cells*: small DAGs of
//! tensor operations with shapes, stated as equations and inferred at once. For every
//! mini-batch, a [`Graph`] lists *calls* of these cells: which cell, which rows of its tables,
//! which earlier results. Calls of one cell are of one [`Kind`] and may run in one batch; in which
//! batches they do run, a [`Schedule`] says.
//!
//! Both cells and graphs are a [`Dag`]: nodes with a kind and arguments. All that decides about
//! batches asks for no more than this trait.
//!
//! # When to use it, and when not
//!
//! Use it to state a model that the other crates then batch, lay out and run; or, with [`Dag`],
//! [`PlainDag`] and [`parse_text`] alone, to try batching policies on graphs of any origin.
//! An intermediate representation of your own needs only to implement [`Dag`].
//!
//! It is no autograd and no general tensor language: operations are a closed set ([`Op`]) on
//! vectors and matrices, and a graph has no branches, for its shape is known when it is built.
//! Where the next call depends on a computed value, run the graph, [`clear`](Graph::clear) it,
//! [`give`](Graph::give) it what is still needed, and call on.
//!
//! # What it costs
//!
//! A call is checked in full (cell, counts, rows, records) and appends to flat arrays: nothing is
//! allocated per node, and a cleared graph keeps its memory. A node takes 16 bytes, an argument 4.
//! `cargo run --release -p edbatch-graph --example build_cost` prints the time per node, tens of
//! nanoseconds at most. [`Schedule::check`] is O(nodes + edges).
//!
//! The feature `petgraph`, off by default, adds `Petgraph`, a view on which petgraph's algorithms
//! run; building it is O(nodes + edges) too. Without it the crate has no dependency.
//!
//! # Example
//!
//! Trees whose nodes have any number of children. Their states are summed by a port that takes
//! any number of values; a leaf, which has none, reads a learned initial value instead.
//!
//! ```
//! use std::sync::Arc;
//! use edbatch_graph::{Dag, Graph, Network, NodeId, Schedule, Shape};
//!
//! // Once per model: two records, a start, and two cells.
//! let mut network = Network::new();
//! let state = network.record("state", [("h", Shape::Vector(8))])?;
//! let logits = network.record("logits", [("y", Shape::Vector(5))])?;
//! let start = network.initial(state, &["node.h0"])?;
//!
//! let node = network.cell("node", state, |cell| {
//!     let x = cell.lookup("token", "embed.weight", &[100, 8]);
//!     let [children] = cell.many("children", state).sum();
//!     let [w, u] = ["node.w", "node.u"].map(|name| cell.parameter(name, &[8, 8]));
//!     let b = cell.parameter("node.b", &[8]);
//!     vec![(w.matmul(x) + u.matmul(children) + b).tanh()]
//! })?;
//! let score = network.cell("score", logits, |cell| {
//!     let [h] = cell.one("state", state);
//!     vec![cell.parameter("out.weight", &[5, 8]).matmul(h).log_softmax()]
//! })?;
//!
//! // For every input: a root with three children, and the root's score.
//! let mut graph = Graph::new(Arc::new(network));
//! let a = graph.call(node, &[17], &[start])?;
//! let b = graph.call(node, &[4], &[start])?;
//! let c = graph.call(node, &[99], &[start])?;
//! let root = graph.call(node, &[3], &[a, b, c])?;
//! graph.call(score, &[], &[root])?;
//! assert_eq!(
//!     graph.to_string(),
//!     "n0 = node(#17, g0)\n\
//!      n1 = node(#4, g0)\n\
//!      n2 = node(#99, g0)\n\
//!      n3 = node(#3, n0, n1, n2)\n\
//!      n4 = score(n3)\n"
//! );
//!
//! // What does not fit is refused, with what was expected.
//! let error = graph.call(score, &[], &[]).unwrap_err();
//! assert_eq!(error.to_string(), "call of score: expected 1 value, got 0");
//!
//! // Any schedule, here one made by hand, can be proved legal.
//! let mut schedule = Schedule::new();
//! schedule.push(node, &[NodeId(0), NodeId(1), NodeId(2)]);
//! schedule.push(node, &[NodeId(3)]);
//! schedule.push(score, &[NodeId(4)]);
//! schedule.check(&graph)?;
//! assert_eq!((graph.nodes(), schedule.len()), (5, 3));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Where to read next
//!
//! [`Network::cell`] and [`CellBuilder`] to write a cell, [`Graph::call`] to call it,
//! [`Cell::dag`] for the same idea one level down. [`Graph::dot`] and [`Cell::dot`] draw what was
//! built. In the sources: `dag.rs`, then `op.rs`, `builder.rs`, `network.rs`, `graph.rs`,
//! `schedule.rs`.
#![forbid(unsafe_code)]

mod builder;
mod call;
mod cell;
mod dag;
mod dot;
mod graph;
mod id;
mod network;
mod op;
#[cfg(feature = "petgraph")]
mod petgraph;
mod plain_dag;
mod schedule;
mod shape;
mod text;

pub use builder::{CellBuilder, Tensor, Values};
pub use call::{Arguments, CallError};
pub use cell::{Arity, Cell, Instruction, ParameterId, Port, RecordId, Table, Var};
pub use dag::Dag;
pub use graph::Graph;
pub use id::{Kind, NodeId, Source, Value};
pub use network::{CellError, Field, Initial, Network, Parameter, Record};
pub use op::{Op, Reduction};
#[cfg(feature = "petgraph")]
pub use petgraph::{EdgeId, EdgeReference, Edges, Neighbors, Petgraph, Visited};
pub use plain_dag::{PlainDag, PushError};
pub use schedule::{Batch, Schedule, ScheduleError, Violation};
pub use shape::Shape;
pub use text::{TextError, TextErrorKind, parse_text, write_text};

/// The README's example, compiled and run by the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
