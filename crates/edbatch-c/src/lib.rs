#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

#[cfg(not(target_pointer_width = "64"))]
compile_error!("edbatch-c needs a 64-bit target");

mod device;
#[allow(unsafe_code, reason = "the names of exported functions")]
mod exports;
mod guarded;
mod inputs;
mod objects;
mod open;
#[allow(unsafe_code, reason = "the pointers of C callers")]
mod pointers;
mod status;
mod structs;

pub use exports::*;
pub use objects::{edbatch_engine, edbatch_session};
pub use pointers::versioned::{NewOptions, NewStatistics, Options};
pub use pointers::{Array, ConstObject, FileBytes, Freed, Made, Object, Out, Plain, Text};
pub use structs::{edbatch_calls, edbatch_options, edbatch_session_statistics};
