//! Decides which kind of node runs next, and learns that decision.
//!
//! The nodes of a graph have kinds, and ready nodes of the same kind can run in one batch. The only
//! choice is which kind to run next. It determines the number of batches, and finding the minimum
//! is NP-hard. A [`Policy`] reads the [`Frontier`] and picks a kind.
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
//! # Which policy to choose
//!
//! When in doubt, use a default [`Scheduler`]. If no two kinds read each other, it runs all nodes
//! of one kind, then all of the next ([`InOrder`]). Otherwise it uses [`Critical`], and frees
//! memory by running outputs as soon as 256 are ready. It needs no training, and on trees, taggers
//! and single lattices it is provably optimal. If a batch costs much more than scheduling, use a
//! learned rule: it makes fewer batches on unseen graphs, and takes a little more time.
//!
//! The table shows the number of batches divided by the lower bound, on unseen mini-batches of 64:
//! two-type trees, newswire lattices, and newswire lattices whose sums are nodes. Time is the
//! duration of a whole scheduling run, divided by the duration for `critical`. `cargo xtask bench
//! --only counts` counts the batches of these policies. Costs are in addition to the frontier's
//! O(nodes + edges). K is the number of kinds, R the number of ready kinds.
//!
//! | policy | cost at the start | cost per batch | trees | lattices | with sums | time | use |
//! |---|---|---|---|---|---|---|---|
//! | [`Depth`] | edges | R | 2.35 | 2.14 | 2.79 | 0.9 | a baseline; fewest waves (see below) |
//! | [`Agenda`] | edges | R | 1.71 | 1.68 | 2.06 | 1.0 | a baseline |
//! | [`Sufficient`] | edges × K | edges × K over a run | 1.33 | 1.07 | 1.29 | 1.8–2.5 | comparison with the paper |
//! | [`Fsm`], `base` or `max` | none | R | 1.98–2.16 | 1.39 | 1.56–1.62 | 0.7 | comparison with the paper |
//! | [`Fsm`], `sort` | none | R | 1.24 | 1.065 | 1.50 | 0.7 | if only scheduling time counts |
//! | [`Critical`] | edges × K, in steps of 16 kinds | R | 1.174 | 1.011 | 1.127 | 1 | the default |
//! | [`InOrder`] | edges, without a frontier | none | | | | | optimal if kinds have an order |
//! | [`LookAhead`], `critical:pair` | like `Critical` | R, and users of contested kinds | 1.163 | 1.008 | 1.105 | 1.07–1.2 | if a batch is expensive |
//! | [`LookAhead`], `critical:soft` | like `Critical` | R, and users of ready kinds | 1.161 | 1.010 | 1.095 | 1.1–1.35 | the same, for lattices with sums |
//! | [`LookAhead`], [learned](fn@learn_rule) | like `Critical` | R, and users of ready kinds | 1.159 | 1.008 | 1.083 | 1.1–1.25 | if a batch is expensive, and there are graphs to learn on |
//! | [`Beam`] of width 32 | 1 to tens of ms | none | 1.130 | 1.008 | 1.066 | 16–190 | if a plan is used many times |
//! | [`Beam::exact`] | unlimited | none | optimal | optimal | optimal | | small graphs, such as cells |
//! | [`exhaustive`](fn@exhaustive) | exponential | none | optimal | optimal | optimal | | tests |
//!
//! The default is not `critical:pair`, because the gain is too small. Of our models only two-type
//! trees and folded lattices have kinds that read each other. On folded lattices, `critical:pair`
//! makes 0.5 % fewer batches (`edbatch infer --policy critical:pair --stats`: 980 instead of 985 on
//! newswire), and scheduling takes up to 10 % longer, which is 2 % of the total time of such
//! lattices at 128 elements. The difference in total time was not measurable. If sums are nodes, as
//! in the paper, `critical:pair` makes 2 % fewer batches.
//!
//! # Waves
//!
//! On a device that runs independent batches in parallel, the number of *waves* counts, not the
//! number of batches. A batch runs in the wave after the waves of all its arguments. `edbatch
//! schedule` prints both numbers. Look-ahead makes more waves, because a batch that waits to be
//! filled by another batch runs one wave later. On the ten published lattices of 64 sentences,
//! `critical` makes 254.7 batches in 210.6 waves, `critical:pair` 251.2 in 233.1, `critical:soft`
//! 249.7 in 231.1, and [`Depth`] 630.3 in 184.1 waves, which is the minimum.
//!
//! # Large graphs
//!
//! Up to 10⁵ nodes, a run takes 5 to 14 ns per node by default, and 7 to 15 ns with an [`Fsm`]
//! (`cargo xtask bench --only growth`). On lattices and chains of 10⁶ nodes it takes 20 to 30 ns.
//! Such a graph does not fit in the cache. The nodes of a batch are in different instances, so each
//! node, its list of users and the users themselves are separate cache misses, which take nearly
//! half of the time. Storing the position of the users with the node in the queue would save one of
//! the three, but makes mini-batches of 3,000 nodes, the common case, 10 to 18 % slower.
//!
//! # Learning
//!
//! [`learn_rule`](fn@learn_rule) learns the constants of a [`LookAhead`] by counting batches: a
//! weight for each pair of kinds that compete, and three numbers. [`learn`](fn@learn) learns the
//! table of an [`Fsm`] by the paper's Q-learning. [`Learned`] reads and writes both as JSON. Before
//! learning, [`set_aside`] some mini-batches, and [`compare`] the result on these with the policies
//! that need no learning. `learn_rule` compares on the mini-batches held out, and returns no rule
//! if such a policy is as good.
//!
//! [`Chains`] and [`KindFrontiers`] compute the properties that the better policies use. Search and
//! learning run on a [`quotient`](fn@quotient). [`lower_bound`] bounds the number of batches of any
//! schedule.
//!
//! Read on: [`Frontier`], then [`Policy`], then the module of [`Critical`].
#![forbid(unsafe_code)]

mod analysis;
mod choice;
mod file;
mod frontier;
mod learn;
mod memory;
mod open;
mod policies;
mod policy;
mod scheduler;
mod search;

pub use analysis::{Chains, KindFrontiers, lower_bound, quotient};
pub use choice::{ChoiceError, PolicyChoice};
pub use file::{FileError, Learned, LearnedContent, OtherKinds, Trained};
pub use frontier::Frontier;
pub use learn::{
    Comparison, EmptyTrainingSet, LearningConfig, Outcome, Progress, RuleOutcome, TrainingSet,
    compare, hold_out, learn, learn_rule, set_aside,
};
pub use open::{OpenError, OpenErrorKind};
pub use policies::{
    Agenda, ByDepth, Critical, Depth, Encoding, Fsm, FsmTable, InOrder, LookAhead, PairRule,
    Sufficient, Symbol, UnknownEncoding,
};
pub use policy::{AnyPolicy, Policy, schedule, schedule_into};
pub use scheduler::Scheduler;
pub use search::{Beam, exhaustive, exhaustive_within};

/// The README's example, compiled and run by the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
