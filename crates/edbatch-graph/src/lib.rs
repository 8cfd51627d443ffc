//! The intermediate representation of ED-Batch: what is computed, never when or where.
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
mod petgraph;
mod plain_dag;
mod schedule;
mod shape;
mod text;
mod value;

pub use builder::{CellBuilder, Tensor, Values};
pub use call::CallError;
pub use cell::{Arity, Cell, Instruction, ParameterId, Port, RecordId, Table, Var};
pub use dag::Dag;
pub use graph::Graph;
pub use id::{Kind, NodeId};
pub use network::{CellError, Field, Initial, Network, Parameter, Record};
pub use op::{Op, Reduction};
pub use petgraph::{EdgeId, EdgeReference, Edges, Neighbors, Petgraph, Visited};
pub use plain_dag::{PlainDag, PushError};
pub use schedule::{Batch, Schedule, ScheduleError, Violation};
pub use shape::Shape;
pub use text::{TextError, TextErrorKind, parse_text, write_text};
pub use value::{Source, Value};
