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
mod journal;
mod label;
mod log2;
mod node;
mod nodes;
mod rearrange;
mod reduce;
mod text;
mod tree;
mod walk;

pub use conflict::{Conflict, ReduceError};
pub use journal::Checkpoint;
pub use node::{Kind, NodeId};
pub use reduce::{ReduceAllError, Reduced};
pub use text::ParseError;
pub use tree::PqTree;
pub use walk::{Children, Leaves, PostOrder, PreOrder};
