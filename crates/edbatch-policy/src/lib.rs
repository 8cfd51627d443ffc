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
//!
//! # Which policy
//!
//! When in doubt, what a [`Scheduler`] does by default: where no two kinds read each other, kind
//! after kind ([`InOrder`]), else [`Critical`]. There is nothing to train, and on trees, taggers
//! and single lattices it is optimal and its schedule proves it. Costs are those beside the
//! frontier's O(nodes + edges); K is the number of kinds, R of those that are ready. Quality is in
//! batches over the lower bound, on mini-batches of 64 two-type trees (the hardest of the real
//! inputs) and of 64 newswire lattices, as `cargo run --release -p edbatch-policy --example counts
//! -- --learn` prints it.
//!
//! | policy | at the start | a batch | trees | lattices | choose it |
//! |---|---|---|---|---|---|
//! | [`Depth`] | edges | R | 2.3 | 2.1 | as a yardstick |
//! | [`Agenda`] | edges | R | 1.7 | 1.7 | as a yardstick |
//! | [`Sufficient`] | edges × K | edges × K, shared by all batches | 1.33 | 1.07 | to compare with the paper |
//! | [`Fsm`], `base` or `max` | nothing | R | 1.9–2.2 | 1.4 | to compare with the paper |
//! | [`Fsm`], `sort` | nothing | R | 1.24 | 1.07 | when scheduling time is all that counts |
//! | [`Critical`] | edges × K, in steps of 16 kinds | R | 1.17 | 1.011 | by default |
//! | [`InOrder`] | edges, and no frontier | nothing | optimal | | first of all: it only applies where kinds have an order |
//! | [`Fsm`], `critical`, improved | as `Critical` | R; ratios, edges × K over a run | 1.17 | 1.011 | when it beats `Critical` on held-out mini-batches |
//! | [`Portfolio::quick`] | three runs; one, if that is optimal | nothing | 1.17 | 1.011 | when a batch is dear |
//! | [`Beam`] of 32 | milliseconds to tens of them | nothing | 1.13 | 1.008 | when the plan is used again |
//! | [`Portfolio::thorough`] | twice that | nothing | 1.13 | 1.007 | when the plan is used again |
//! | [`branch_and_bound`] | as long as one likes | | optimal, if it closes | | for small graphs, such as cells |
//! | [`exhaustive`](fn@exhaustive) | exponential | | optimal | | to test the others |
//!
//! Up to 10⁵ nodes a run takes 5 to 14 ns a node by default and 7 to 15 with an [`Fsm`] (`cargo
//! bench
//! -p edbatch-policy`); on lattices and chains of 10⁶ nodes, 20 to 30 on a quiet machine. The nodes of
//! a batch lie an instance apart, so each of them, its users and what these wait for are cache
//! lines of their own, and then they no longer fit the cache: nearly half of the time goes into
//! these three look-ups. Keeping where a node's users are beside it in the queue saves one of the
//! three, and makes mini-batches of 3,000 nodes, the common case, 10 to 18 % slower; so it is not
//! done.
//!
//! Tables for an [`Fsm`] come from [`learn`](fn@learn) (the paper's Q-learning), [`distill`] (what
//! a teacher does) and [`improve`] (trying); they are kept in files by [`Learned`]. Where kinds
//! differ in what a batch costs, [`CostModel`] says what to minimise.
//!
//! A [`Chains`] and a [`KindFrontiers`] hold what the better policies look at, a
//! [`quotient`](fn@quotient) what search and learning run on; [`lower_bound`] and [`pair_bound`]
//! say how good a schedule can be.
//!
//! Read on: [`Frontier`], then [`Policy`], then the module of [`Critical`].
#![forbid(unsafe_code)]

mod agenda;
mod beam;
mod bound;
mod chains;
mod choice;
mod cost;
mod critical;
mod depth;
mod distill;
mod encoding;
mod evaluation;
mod exhaustive;
mod file;
mod frontier;
mod fsm;
mod in_order;
mod kind_frontiers;
mod learn;
mod policy;
mod portfolio;
mod quotient;
mod scheduler;
mod search;
mod states;
mod sufficient;
mod training_set;
mod values;

pub use agenda::Agenda;
pub use bound::{lower_bound, pair_bound};
pub use chains::Chains;
pub use choice::{ChoiceError, OpenError, OpenErrorKind, PolicyChoice};
pub use cost::{CostModel, Line, Sample};
pub use critical::{Critical, Preference};
pub use depth::Depth;
pub use distill::{distill, improve};
pub use encoding::{CriticalBits, Encoding, NamedEncoding, Symbol, UnknownEncoding};
pub use exhaustive::exhaustive;
pub use file::{FileError, Learned, OtherKinds, Trained};
pub use frontier::Frontier;
pub use fsm::{Fsm, FsmTable};
pub use in_order::InOrder;
pub use kind_frontiers::KindFrontiers;
pub use learn::{LearningConfig, Outcome, Progress, learn};
pub use policy::{AnyPolicy, Policy, schedule, schedule_into};
pub use portfolio::Portfolio;
pub use quotient::quotient;
pub use scheduler::Scheduler;
pub use search::{Beam, Found, beam, branch_and_bound, replay};
pub use sufficient::Sufficient;
pub use training_set::{EmptyTrainingSet, TrainingSet, hold_out};
