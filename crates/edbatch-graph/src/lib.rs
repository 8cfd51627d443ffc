//! The intermediate representation of ED-Batch: what is computed, never when or where.
#![forbid(unsafe_code)]

mod dag;
mod id;
mod plain_dag;
mod schedule;
mod text;

pub use dag::Dag;
pub use id::{Kind, NodeId};
pub use plain_dag::{PlainDag, PushError};
pub use schedule::{Batch, Schedule, ScheduleError, Violation};
pub use text::{TextError, TextErrorKind, parse_text, write_text};
