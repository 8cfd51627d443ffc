//! The intermediate representation of ED-Batch. It describes a computation, but neither when nor
//! where it runs.
//!
//! # What it is
//!
//! A neural network over trees, lattices or chains has a different shape for every input, so its
//! computation is described in two parts. Once per model, a [`Network`] declares *cells*: small
//! DAGs of tensor operations, written as equations, with inferred shapes. For every mini-batch, a
//! [`Graph`] lists *calls* of these cells. A call names a cell, the rows to look up in tables such
//! as embeddings, and the earlier results to read. Calls of one cell have the same [`Kind`] and may
//! run in one batch. A [`Schedule`] lists the batches.
//!
//! Cells and graphs both implement [`Dag`]: nodes with a kind and arguments. Batching policies need
//! only this trait.
//!
//! # When to use it, and when not
//!
//! Use it to declare a model that the other crates batch, lay out and run; or, with [`Dag`],
//! [`PlainDag`] and [`parse_text`] alone, to try batching policies on graphs of any origin.
//! Your own intermediate representation only needs to implement [`Dag`].
//!
//! It is not a general tensor language: operations are a closed set ([`Op`]) on vectors and
//! matrices, and a graph has no branches, because its shape is known when it is built. If the next
//! call depends on a computed value, run the graph, [`clear`](Graph::clear) it,
//! [`give`](Graph::give) it the values that are still needed, and continue. Gradients are computed
//! by cells, which [`training_network`] derives.
//!
//! # What it costs
//!
//! A call is checked in full (cell, counts, rows, records) and appends to flat arrays. Nothing is
//! allocated per node, and a cleared graph keeps its memory. A node takes 16 bytes, an argument 4.
//! A call takes at most tens of nanoseconds; `cargo xtask bench --only growth` prints the time per
//! node. [`Schedule::check`] is O(nodes + edges).
//!
//! # Example
//!
//! Trees whose nodes have any number of children. The cell `node` reads them at a *port* that takes
//! any number of values, and sums their states. A leaf reads a learned initial value instead.
//!
//! ```
//! use std::sync::Arc;
//! use edbatch_graph::{Dag, Graph, Network, NodeId, Schedule, Shape};
//!
//! // Once per model: two records, an initial value, and two cells.
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
//! // Invalid calls are errors.
//! let error = graph.call(score, &[], &[]).unwrap_err();
//! assert_eq!(error.to_string(), "call of score: expected 1 value, got 0");
//!
//! // Any schedule, here a handwritten one, can be checked.
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
//! [`Network::cell`] and [`CellBuilder`] to write a cell, [`Graph::call`] to call it, [`Cell::dag`]
//! for the operations inside a cell; [`Dag`] shows how to draw a graph with petgraph. In the
//! sources: `dag.rs`, then `op.rs`, `builder.rs`, `network.rs`, `graph.rs`, `schedule.rs`.
#![forbid(unsafe_code)]

mod adjoint;
mod builder;
mod call;
mod call_error;
mod cell;
mod cell_error;
mod cell_parts;
mod check;
mod compose;
mod dag;
mod dropout;
mod graph;
mod id;
mod network;
mod op;
mod plain_dag;
mod schedule;
mod shape;
mod text;
mod trace;
mod training;

pub use adjoint::training_network;
pub use builder::{CellBuilder, Index, Tensor, Values};
pub use call_error::{CallError, CallErrorReason};
pub use cell::{Arity, Cell, Instruction, Port, Table};
pub use cell_error::{At, CellError};
pub use cell_parts::CellParts;
pub use dag::{Arguments, Dag, DagError, check_dag};
pub use dropout::{Mask, MaskedNetwork};
pub use graph::{Appended, Graph, Mark, Row};
pub use id::{Kind, NodeId, ParameterId, RecordId, Source, Value, Var};
pub use network::{Field, Initial, Network, Parameter, Record};
pub use op::{AdjointOp, Binary, Function, Normalization, Op, Reduction, Slope};
pub use plain_dag::PlainDag;
pub use schedule::{Batch, Schedule, ScheduleError, Violation};
pub use shape::Shape;
pub use text::{TextError, TextErrorKind, parse_text, write_text};
pub use trace::Trace;
pub use training::{Adjoint, PairAdjoint, ParameterSum, RowAdjoint, TrainingNetwork};

/// The README's example, compiled and run by the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
