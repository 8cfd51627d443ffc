//! Learning: the table of an FSM by Q-learning, and the constants of a rule.
//!
//! This module has the Q-learning; [`learn_rule`] is in `learn/rule.rs`.
//!
//! *Source*: §2.3 of the paper, with the constants of the authors' program, which are the defaults
//! of [`LearningConfig`]. The reward of a batch is `-1 + α × ratio`, with the ratio of
//! [`KindFrontiers`], which the paper prints upside down. Returns are bootstrapped after N steps.
//!
//! Ours differs in four ways. After N steps, a return adds the value of the state that was reached.
//! (The authors clip that value to at least 0. Since rewards are never positive, they always add
//! 0.) Ours learns on several mini-batches in turn. It keeps the table that is best on other
//! mini-batches, which are held out. In a state without an entry [`Critical`](crate::Critical)
//! decides.
//!
//! *Cost*: an episode schedules one mini-batch and updates its ratios: O(edges × kinds).

mod evaluation;
mod rule;
mod training_set;
mod values;

use edbatch_graph::Dag;
use rand::{Rng, RngExt};

pub use evaluation::{Comparison, compare};
pub use rule::{RuleOutcome, learn_rule};
pub use training_set::{EmptyTrainingSet, TrainingSet, hold_out, set_aside};

use crate::{Chains, Encoding, Frontier, Fsm, FsmTable, KindFrontiers, quotient};
use evaluation::Evaluation;
use values::{Transition, Values, choices};

/// The parameters of Q-learning. The defaults are taken from the authors' program.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct LearningConfig {
    /// Weight of the [ratio](KindFrontiers) in the reward `-1 + alpha × ratio`. Default: 1.
    pub alpha: f32,
    /// Number of rewards that are added up before the value of a later state is added. Default: 10.
    pub steps: usize,
    /// Learning rate. Default: 0.4.
    pub rate: f32,
    /// Probability of a random choice in the first episode. Default: 0.5.
    pub epsilon: f32,
    /// Factor by which `epsilon` is multiplied after each episode. Default: 0.9.
    pub epsilon_decay: f32,
    /// Minimum of `epsilon`. Default: 0.05.
    pub min_epsilon: f32,
    /// Maximum number of episodes. Default: 1000.
    pub episodes: usize,
    /// Number of episodes between two evaluations on the mini-batches held out. Default: 50.
    pub evaluate_every: usize,
    /// Stop when the number of batches on the mini-batches held out is at most this multiple of the
    /// lower bound. Default: 1.01.
    pub good_enough: f64,
}

impl Default for LearningConfig {
    fn default() -> Self {
        Self {
            alpha: 1.0,
            steps: 10,
            rate: 0.4,
            epsilon: 0.5,
            epsilon_decay: 0.9,
            min_epsilon: 0.05,
            episodes: 1000,
            evaluate_every: 50,
            good_enough: 1.01,
        }
    }
}

impl LearningConfig {
    /// The defaults, with this maximum number of episodes. The other parameters are fields.
    #[must_use]
    pub fn new(episodes: usize) -> Self {
        Self { episodes, ..Self::default() }
    }
}

/// Progress of learning, in episodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Episodes done.
    pub episode: usize,
    /// The maximum number of episodes, those done included.
    pub episodes: usize,
}

/// A learned table, and its results on the mini-batches held out.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// The kind to run in each state. States are in the order of their first occurrence.
    pub table: FsmTable,
    /// Episodes done.
    pub episodes: usize,
    /// Number of batches on the mini-batches held out, with an empty table: `Critical` decides.
    pub before: usize,
    /// Number of batches on the mini-batches held out, with this table.
    pub after: usize,
    /// Lower bound on the number of batches on the mini-batches held out.
    pub bound: usize,
}

impl Outcome {
    /// Replaces the table by an empty one if that makes fewer batches on the mini-batches held out.
    #[must_use]
    pub fn or_critical(self) -> Self {
        let wins = self.after <= self.before;
        if wins { self } else { Self { table: Vec::new(), after: self.before, ..self } }
    }

    /// Returns the table as a policy.
    #[must_use]
    pub fn fsm(&self, encoding: Encoding, kinds: usize) -> Fsm {
        Fsm::of(&self.table, encoding, kinds)
    }
}

/// Learns the table of an [`Fsm`] by Q-learning, on the mini-batches of a training set in turn.
/// Keeps the table that is best on the mini-batches held out. Calls `progress` after every episode.
/// Ends early when that table is good enough, or when memory is exhausted.
///
/// The same state of the random generator always gives the same table.
pub fn learn<D: Dag>(
    set: &TrainingSet<'_, D>,
    encoding: Encoding,
    config: &LearningConfig,
    rng: &mut impl Rng,
    mut progress: impl FnMut(&Progress),
) -> Outcome {
    let mut evaluation = Evaluation::new(set.held_out());
    let bound = evaluation.bound();
    let kinds = set.kinds();
    let mut q = Values::new(encoding.features(), kinds);
    let mut best: Option<(usize, FsmTable)> = None;
    let before = evaluation.batches(&mut Fsm::new(encoding, kinds));
    let environments = set.train().iter().map(Environment::new).collect();
    // Without memory for them nothing is learned.
    let mut environments: Vec<_> = Option::unwrap_or_default(environments);

    let mut epsilon = config.epsilon;
    let mut episode = 0;
    let mut trace = Vec::new();
    while episode < config.episodes && !environments.is_empty() {
        let next = episode % environments.len();
        let environment = &mut environments[next];
        let ran = environment.rollout(&mut q, encoding, epsilon, config.alpha, rng, &mut trace);
        if ran.is_none() {
            break;
        }
        q.update(&trace, config);
        epsilon = (epsilon * config.epsilon_decay).max(config.min_epsilon);
        episode += 1;
        if episode % config.evaluate_every.max(1) == 0 || episode == config.episodes {
            let table = q.table();
            let batches = evaluation.batches(&mut Fsm::of(&table, encoding, kinds));
            if best.as_ref().is_none_or(|(min, _)| batches < *min) {
                best = Some((batches, table));
            }
        }
        progress(&Progress { episode, episodes: config.episodes });
        let is_good = |batches: usize| batches as f64 <= config.good_enough * bound as f64;
        if best.as_ref().is_some_and(|(batches, _)| is_good(*batches)) {
            break;
        }
    }
    let (after, table) = best.unwrap_or((before, Vec::new()));
    Outcome { table, episodes: episode, before, after, bound }
}

/// A mini-batch to run episodes on.
struct Environment {
    frontier: Frontier,
    chains: Chains,
    /// The state before the first batch.
    kind_frontiers: KindFrontiers,
}

impl Environment {
    /// Prepares a graph for episodes. Returns `None` if memory is exhausted.
    fn new(dag: &impl Dag) -> Option<Self> {
        let frontier = quotient(&Frontier::new(dag));
        let chains = Chains::new(&frontier);
        let kind_frontiers = KindFrontiers::try_new(&frontier, &chains)?;
        Some(Self { frontier, chains, kind_frontiers })
    }

    /// Runs an episode: schedules the mini-batch, with each choice by `q` or at random, and records
    /// each batch. Returns `None` if memory is exhausted.
    fn rollout(
        &mut self,
        q: &mut Values,
        encoding: Encoding,
        epsilon: f32,
        alpha: f32,
        rng: &mut impl Rng,
        trace: &mut Vec<Transition>,
    ) -> Option<()> {
        let frontier = &mut self.frontier;
        frontier.rewind();
        let mut kind_frontiers = self.kind_frontiers.clone();
        trace.clear();
        let mut word = Vec::new();
        while !frontier.is_done() {
            word.clear();
            encoding.encode(frontier, &mut word);
            let state = q.intern(&word)?;
            let kind = if rng.random::<f32>() < epsilon {
                let all = choices(&word).count();
                choices(&word).nth(rng.random_range(0..all))
            } else {
                q.best(state)
            }
            .expect("a node remains");
            kind_frontiers.update(frontier, &self.chains);
            let ready = frontier.ready_count(kind);
            let ratio = ready as f32 / kind_frontiers.size(kind) as f32;
            trace.push(Transition { state, kind, reward: -1.0 + alpha * ratio });
            frontier.run(kind, frontier.ready(kind).len());
        }
        Some(())
    }
}
