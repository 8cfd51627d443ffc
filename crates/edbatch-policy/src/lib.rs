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
//! and single lattices it is optimal and its schedule proves it. Where batches are dear beside
//! scheduling, a learned rule: fewer batches than `critical` on graphs that it has not seen, for a
//! little more time.
//!
//! Quality is in batches over the lower bound, on unseen mini-batches of 64 two-type trees,
//! newswire lattices, and newswire lattices whose sums are nodes; time is that of a whole
//! scheduling run, over `critical`'s, on the same. The example `counts` prints them: with
//! `EDBATCH_SHARED` set, `cargo run --release -p edbatch-policy --example counts -- two-type 64
//! --learn`, and likewise with `newswire` and `summed`. Costs are those beside the frontier's
//! O(nodes + edges); K is the number of kinds, R of those that are ready.
//!
//! | policy | at the start | a batch | trees | lattices | with sums | time | choose it |
//! |---|---|---|---|---|---|---|---|
//! | [`Depth`] | edges | R | 2.35 | 2.14 | 2.79 | 0.9 | as a yardstick; fewest waves, see below |
//! | [`Agenda`] | edges | R | 1.71 | 1.68 | 2.06 | 1.0 | as a yardstick |
//! | [`Sufficient`] | edges × K | edges × K, shared by all batches | 1.33 | 1.07 | 1.29 | 1.8–2.5 | to compare with the paper |
//! | [`Fsm`], `base` or `max` | nothing | R | 1.98–2.16 | 1.39 | 1.56–1.62 | 0.7 | to compare with the paper |
//! | [`Fsm`], `sort` | nothing | R | 1.24 | 1.065 | 1.50 | 0.7 | when scheduling time is all that counts |
//! | [`Critical`] | edges × K, in steps of 16 kinds | R | 1.174 | 1.011 | 1.127 | 1 | by default |
//! | [`InOrder`] | edges, and no frontier | nothing | | | | | first of all: where kinds have an order it is optimal |
//! | [`LookAhead`], `critical:pair` | as `Critical` | R, and users of contested kinds | 1.163 | 1.008 | 1.105 | 1.07–1.2 | when a batch is dear |
//! | [`LookAhead`], `critical:soft` | as `Critical` | R, and users of ready kinds | 1.161 | 1.010 | 1.095 | 1.1–1.35 | likewise, on lattices with sums |
//! | [`LookAhead`], [learned](fn@learn_rule) | as `Critical` | likewise | 1.159 | 1.008 | 1.083 | 1.1–1.25 | when a batch is dear and there are graphs to learn on |
//! | [`Beam`] of 32 | milliseconds to tens of them | nothing | 1.130 | 1.008 | 1.066 | 16–190 | when the plan is used again |
//! | [`Beam::exact`], [`branch_and_bound`] | as long as one likes | | optimal, if it closes | | | | for small graphs, such as cells |
//! | [`exhaustive`](fn@exhaustive) | exponential | | optimal | | | | to test the others |
//!
//! Why the default is not `critical:pair`: folded lattices, the only ones of our models whose kinds
//! have no order beside two-type trees, need 0.5 % fewer batches (`edbatch infer --policy
//! critical:pair --stats`: 980 for 985 on newswire) for up to 10 % more scheduling, which is 2 % of
//! their time at 128 elements: no difference that could be measured. With sums as nodes, as the
//! paper wires them, it is 2 %, and the choice is worth an option.
//!
//! # Waves
//!
//! On a device that runs batches side by side, dependent *waves* cost, not batches. `edbatch
//! schedule` counts both. Looking one batch further is wrong there: on the ten published lattices
//! of 64 sentences `critical` needs 254.7 batches in 210.6 waves, `critical:pair` 251.2 in 233.1,
//! `critical:soft` 249.7 in 231.1, and [`Depth`] 630.3 in 184.1, the least there can be. A batch
//! that waits to be filled by another one waits a wave longer.
//!
//! # Scale
//!
//! Up to 10⁵ nodes a run takes 5 to 14 ns a node by default and 7 to 15 with an [`Fsm`]
//! (`cargo bench -p edbatch-policy`); on lattices and chains of 10⁶ nodes, 20 to 30 on a quiet machine. The nodes of
//! a batch lie an instance apart, so each of them, its users and what these wait for are cache
//! lines of their own, and then they no longer fit the cache: nearly half of the time goes into
//! these three look-ups. Keeping where a node's users are beside it in the queue saves one of the
//! three, and makes mini-batches of 3,000 nodes, the common case, 10 to 18 % slower; so it is not
//! done.
//!
//! # Learning
//!
//! [`learn_rule`](fn@learn_rule) learns the constants of a [`LookAhead`] by counting batches: a
//! weight for each pair of kinds that compete, and three numbers. [`learn`](fn@learn) learns the
//! table of an [`Fsm`] by the paper's Q-learning. [`Learned`] reads and writes both as JSON. First
//! [`set_aside`] some mini-batches, and [`compare`] the result with `Critical` on these.
//!
//! [`Chains`] and [`KindFrontiers`] compute what the better policies look at. Search and learning
//! run on a [`quotient`](fn@quotient). [`lower_bound`] bounds the number of batches of any schedule.
//!
//! Read on: [`Frontier`], then [`Policy`], then the module of [`Critical`].
#![forbid(unsafe_code)]

mod agenda;
mod beam;
mod bound;
mod by_depth;
mod chains;
mod choice;
mod critical;
mod depth;
mod encoding;
mod evaluation;
mod exhaustive;
mod file;
mod frontier;
mod fsm;
mod in_order;
mod kind_frontiers;
mod kind_graph;
mod learn;
mod learn_rule;
mod pair;
mod pair_rule;
mod policy;
mod quotient;
mod scheduler;
mod search;
mod states;
mod sufficient;
mod training_set;
mod values;

pub use agenda::Agenda;
pub use bound::lower_bound;
pub use by_depth::ByDepth;
pub use chains::Chains;
pub use choice::{ChoiceError, OpenError, OpenErrorKind, PolicyChoice};
pub use critical::Critical;
pub use depth::Depth;
pub use encoding::{NamedEncoding, Symbol, UnknownEncoding};
pub use evaluation::{Comparison, compare};
pub use exhaustive::{exhaustive, exhaustive_within};
pub use file::{FileError, Learned, LearnedContent, OtherKinds, Trained};
pub use frontier::Frontier;
pub use fsm::{Fsm, FsmTable};
pub use in_order::InOrder;
pub use kind_frontiers::KindFrontiers;
pub use learn::{LearningConfig, Outcome, Progress, learn};
pub use learn_rule::{RuleOutcome, learn_rule};
pub use pair::LookAhead;
pub use pair_rule::PairRule;
pub use policy::{AnyPolicy, Policy, schedule, schedule_into};
pub use quotient::quotient;
pub use scheduler::Scheduler;
pub use search::{Beam, Found, branch_and_bound, replay};
pub use sufficient::Sufficient;
pub use training_set::{EmptyTrainingSet, TrainingSet, hold_out, set_aside};

/// The README's example, compiled and run by the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
