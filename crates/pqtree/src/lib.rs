//! PQ-trees.
#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

extern crate alloc;

mod builder;
mod canonical;
mod check;
mod conflict;
mod count;
mod dot;
mod intersect;
mod intervals;
mod journal;
mod label;
mod labeled;
mod leaves;
mod log2;
mod node;
mod nodes;
mod orders;
mod rearrange;
mod reduce;
#[cfg(feature = "serde")]
mod serde;
mod span;
mod text;
mod tree;
mod walk;

pub use conflict::{Conflict, LeafError, ReduceError};
pub use dot::Dot;
pub use intervals::OrdersError;
pub use journal::Checkpoint;
pub use labeled::{Labeled, LabeledError};
pub use node::{Kind, NodeId};
pub use orders::Orders;
pub use reduce::{ReduceAllError, Reduced};
pub use text::ParseError;
pub use tree::PqTree;
pub use walk::{Children, Leaves, PostOrder, PreOrder};
