#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod build;
mod call_list;
#[cfg(test)]
mod error_texts;
mod graphs;
mod json_fault;
mod json_text;
mod model;
mod network_file;

pub use build::{Answer, Build, GiveError, Mailbox, Request, arg_max, check_given};
pub use call_list::{CallList, CallListError, CallLists, Slots};
pub use graphs::{Feature, GraphCell, GraphEmit, GraphError, Graphs};
pub use json_fault::JsonFault;
pub use model::{BuildError, Model, Targets};
pub use network_file::{
    MAX_BYTES as MAX_NETWORK_BYTES, UnwritableNetwork, network_from_json, network_to_json,
};
