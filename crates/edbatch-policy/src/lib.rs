//! Decides which kind of node runs next, and learns that decision.
//!
//! A graph's nodes have kinds, and ready nodes of one kind may run in one batch. Which kind to run
//! next is all that there is to decide; the number of batches depends on it, and finding the least
//! is NP-hard. A [`Policy`] looks at the [`Frontier`] and picks.
//!
//! ```
//! use edbatch_graph::parse_text;
//! use edbatch_policy::{Critical, lower_bound, schedule};
//!
//! // Two inner nodes (0), one on top of the other, and an output (1) for each.
//! let dag = parse_text("4\n0 0\n0 1 0\n1 1 0\n1 1 1\n")?;
//! let schedule = schedule(&dag, &mut Critical::new());
//! assert_eq!(schedule.to_string(), "k0: n0\nk0: n1\nk1: n2 n3\n");
//! assert_eq!(schedule.len(), lower_bound(&dag)); // So it is optimal.
//! # Ok::<(), edbatch_graph::TextError>(())
//! ```
#![forbid(unsafe_code)]

mod agenda;
mod beam;
mod bound;
mod chains;
mod choice;
mod critical;
mod depth;
mod distill;
mod encoding;
mod exhaustive;
mod file;
mod firsts;
mod frontier;
mod fsm;
mod learn;
mod policy;
mod portfolio;
mod quotient;
mod search;
mod states;
mod sufficient;

pub use agenda::Agenda;
pub use bound::lower_bound;
pub use chains::Chains;
pub use choice::{AnyPolicy, ChoiceError, OpenError, OpenErrorKind, PolicyChoice};
pub use critical::{Critical, Preference};
pub use depth::Depth;
pub use distill::{distill, improve};
pub use encoding::{CriticalBits, Encoding, Named, Symbol, UnknownEncoding};
pub use exhaustive::exhaustive;
pub use file::{FileError, Learned, OtherKinds, Trained};
pub use firsts::Firsts;
pub use frontier::Frontier;
pub use fsm::{Fsm, Table};
pub use learn::{Config, Outcome, Progress, learn};
pub use policy::{Policy, run_into, schedule, schedule_into};
pub use portfolio::Portfolio;
pub use quotient::quotient;
pub use search::{Beam, Found, beam, branch_and_bound, replay};
pub use sufficient::Sufficient;
