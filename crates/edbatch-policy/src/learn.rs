//! Learning an FSM by tabular Q-learning.
//!
//! *Source*: §2.3 of the paper, with the constants of the authors' program, which are the defaults
//! of [`LearningConfig`]. The reward of a batch is `-1 + α × ratio`, with the ratio the right way
//! up ([`KindFrontiers`]). Returns are bootstrapped over N steps.
//!
//! Ours differs in four ways. A return beyond N steps is continued with the value of the state it
//! ends in (theirs clips that value at 0, and rewards are never positive, so it never is). It
//! learns on several mini-batches in turn, and keeps the table that is best on others, held out.
//! A state without an entry falls to [`Critical`](crate::Critical).
//!
//! *Cost*: an episode schedules one mini-batch and keeps its ratios: O(edges × kinds).

use edbatch_graph::Dag;
use rand::{Rng, RngExt};

use crate::evaluation::Evaluation;
use crate::values::{Transition, Values, choices};
use crate::{Chains, Frontier, Fsm, FsmTable, KindFrontiers, NamedEncoding, TrainingSet, quotient};

/// How to learn. `LearningConfig::default()` is what the authors do, where we do not differ.
#[derive(Clone, PartialEq, Debug)]
pub struct LearningConfig {
    /// Weight of the ratio in the reward `-1 + alpha × ratio`: 1.
    pub alpha: f32,
    /// Rewards in a return before it is bootstrapped: 10.
    pub steps: usize,
    /// How far a value moves towards a return: 0.4.
    pub rate: f32,
    /// Share of random choices in the first episode: 0.5.
    pub epsilon: f32,
    /// By what that share is multiplied after each episode: 0.9.
    pub epsilon_decay: f32,
    /// Below what that share does not fall: 0.05.
    pub epsilon_least: f32,
    /// Most episodes: 1000.
    pub episodes: usize,
    /// Episodes between two looks at the mini-batches held out: 50.
    pub evaluate_every: usize,
    /// Stop when these need at most so many times the lower bound: 1.01.
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
            epsilon_least: 0.05,
            episodes: 1000,
            evaluate_every: 50,
            good_enough: 1.01,
        }
    }
}

/// The number of episodes done so far, and of those to come at most.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Episodes done.
    pub episode: usize,
    /// The maximum number of episodes, those done included.
    pub episodes: usize,
}

/// What was learned: a table, and how it fares on the mini-batches held out.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// State by state, what to run; in the order in which the states were first met.
    pub table: FsmTable,
    /// Episodes done.
    pub episodes: usize,
    /// Batches of all mini-batches held out: with an empty table, that is, with `Critical`.
    pub before: usize,
    /// With the table.
    pub after: usize,
    /// Their lower bound.
    pub bound: usize,
}

impl Outcome {
    /// With the empty table, if that did better on the mini-batches held out.
    #[must_use]
    pub fn or_critical(self) -> Self {
        let wins = self.after <= self.before;
        if wins { self } else { Self { table: Vec::new(), after: self.before, ..self } }
    }

    /// The table as a policy.
    #[must_use]
    pub fn fsm(&self, encoding: NamedEncoding, kinds: usize) -> Fsm {
        Fsm::of(&self.table, encoding, kinds)
    }
}

/// Learns on the mini-batches of a training set, in turn; keeps the table that is best on those
/// held out. `progress` is called after every episode.
///
/// The same generator in the same state gives the same table.
pub fn learn<D: Dag>(
    set: &TrainingSet<'_, D>,
    encoding: NamedEncoding,
    config: &LearningConfig,
    rng: &mut impl Rng,
    mut progress: impl FnMut(&Progress),
) -> Outcome {
    let mut environments: Vec<_> = set.train().iter().map(Environment::new).collect();
    let mut evaluation = Evaluation::new(set.held_out());
    let bound = evaluation.bound();
    let kinds = set.kinds();
    let mut q = Values::new(encoding.features(), kinds);
    let mut best: Option<(usize, FsmTable)> = None;
    let before = evaluation.batches(&mut Fsm::new(encoding, kinds));

    let mut epsilon = config.epsilon;
    let mut episode = 0;
    let mut trace = Vec::new();
    while episode < config.episodes {
        let next = episode % environments.len();
        let environment = &mut environments[next];
        environment.rollout(&mut q, encoding, epsilon, config.alpha, rng, &mut trace);
        q.update(&trace, config);
        epsilon = (epsilon * config.epsilon_decay).max(config.epsilon_least);
        episode += 1;
        if episode % config.evaluate_every.max(1) == 0 || episode == config.episodes {
            let table = q.table();
            let batches = evaluation.batches(&mut Fsm::of(&table, encoding, kinds));
            if best.as_ref().is_none_or(|(least, _)| batches < *least) {
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

/// A mini-batch to learn on.
struct Environment {
    frontier: Frontier,
    chains: Chains,
    /// When nothing has run.
    kind_frontiers: KindFrontiers,
}

impl Environment {
    fn new(dag: &impl Dag) -> Self {
        let frontier = quotient(&Frontier::new(dag));
        let chains = Chains::new(&frontier);
        let mut kind_frontiers = KindFrontiers::default();
        kind_frontiers.update(&frontier, &chains);
        Self { frontier, chains, kind_frontiers }
    }

    /// One episode: schedules the mini-batch by `q`, at times at random, and notes each batch.
    fn rollout(
        &mut self,
        q: &mut Values,
        encoding: NamedEncoding,
        epsilon: f32,
        alpha: f32,
        rng: &mut impl Rng,
        trace: &mut Vec<Transition>,
    ) {
        let frontier = &mut self.frontier;
        frontier.rewind();
        let mut kind_frontiers = self.kind_frontiers.clone();
        trace.clear();
        let mut word = Vec::new();
        while !frontier.is_done() {
            word.clear();
            encoding.encode(frontier, &mut word);
            let state = q.intern(&word);
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
    }
}
