//! The trait of models, and models as data.
//!
//! A [`Model`] declares its cells once. It *wires* one input at a time, which means that it calls
//! the cells; it never sees a batch. Use this crate for a model of your own. [`CallLists`] is a
//! model whose inputs are data, [`CallList`]s: it runs any network, for example one that
//! [`network_from_json`] reads. The crate `edbatch-zoo` has nine published models.
//!
//! *Cost*: wiring takes one `Graph::call` per node and one allocation per instance.
//!
//! ```
//! use std::sync::Arc;
//!
//! use edbatch_graph::{Network, Shape};
//! use edbatch_models::{CallLists, Model};
//!
//! let mut network = Network::new();
//! let state = network.record("state", [("h", Shape::Vector(2))])?;
//! network.cell("leaf", state, |cell| vec![cell.lookup("token", "embed", &[9, 2])])?;
//! let model = CallLists::new(Arc::new(network));
//! let input = model.read(r#"{"calls": [["leaf", 4], ["leaf", 7]], "emit": [1]}"#)?;
//! assert_eq!(model.work(&input), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Read `model.rs` next, then [`Build`] for models that await computed values.
#![forbid(unsafe_code)]

mod build;
mod call_list;
#[cfg(test)]
mod error_texts;
mod json_fault;
mod model;
mod network_file;

pub use build::{Answer, Build, GiveError, Mailbox, Request, arg_max};
pub use call_list::{CallList, CallListError, CallLists};
pub use json_fault::JsonFault;
pub use model::{BuildError, Model, Targets};
pub use network_file::{
    MAX_BYTES as MAX_NETWORK_BYTES, UnwritableNetwork, network_from_json, network_to_json,
};

/// The README's example, compiled and run by the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
