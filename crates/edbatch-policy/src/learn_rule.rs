//! Learning the constants of a [`LookAhead`]: what one batch's filling of another is worth, network by
//! network.
//!
//! *Source*: an evolution strategy with a mean and a deviation per constant, as in the
//! cross-entropy method; mirrored samples.
//!
//! A generation tries a few rules around the mean on the same few mini-batches, and counts batches:
//! what is measured is what is wanted, without a model of rewards. The mean then moves to that of
//! the best of them, and the deviations shrink. The next generation takes the next mini-batches, so
//! that nothing is fitted to a few of them. In the end the average of the means of the second half,
//! which no luck selected, competes with the rules that need no learning on all mini-batches to
//! learn on, and the best is kept.
//!
//! Why not a table: its states stand for what is *ready*, and what matters is what a batch would
//! *make* ready. The rule sees that, and the weights say what it is worth in this network, for each
//! pair of kinds.
//!
//! It counts episodes, never seconds, and all constants are hundredths: the same seed gives the
//! same rule on any machine.
//!
//! *Cost*: a schedule of one mini-batch per episode.

use std::collections::BTreeSet;

use edbatch_graph::{Dag, Kind, NodeId};
use rand::{Rng, RngExt};

use crate::evaluation::Evaluation;
use crate::{Chains, Critical, EmptyTrainingSet, Frontier, LookAhead, PairRule, Progress};

/// A rule that was learned, and how it fares on the mini-batches that it was learned on.
#[derive(Clone, PartialEq, Debug)]
pub struct RuleOutcome {
    /// The rule. It has a weight for each pair of kinds of which one reads the other.
    pub rule: PairRule,
    /// Schedules made.
    pub episodes: usize,
    /// On how many mini-batches.
    pub mini_batches: usize,
    /// Their batches by [`Critical`](crate::Critical).
    pub before: usize,
    /// By the rule.
    pub after: usize,
    /// Their lower bound.
    pub bound: usize,
}

/// Most mini-batches of a generation.
const MINI_BATCHES: usize = 8;
/// Rules of a generation, half of them the mirror images of the others.
const RULES: usize = 12;
/// How many of them the mean moves to.
const ELITE: usize = 4;
/// How far it moves.
const RATE: f64 = 0.5;
/// The deviations of the last generation, as a part of those of the first.
const LAST: f64 = 0.3;

/// Where the search begins, and how far it looks: constant by constant.
const POWER: (f64, f64) = (8.0, 2.0);
const LOWERING: (f64, f64) = (1.2, 0.1);
const SECOND: (f64, f64) = (0.9, 0.1);
const WEIGHT: (f64, f64) = (1.1, 0.25);

/// Learns a rule on mini-batches over the same kinds, in at most so many episodes; fewer, if
/// nothing is left to gain. `progress` is called after every generation.
///
/// # Errors
/// If there is no mini-batch.
pub fn learn_rule<D: Dag>(
    train: &[D],
    episodes: usize,
    rng: &mut impl Rng,
    mut progress: impl FnMut(&Progress),
) -> Result<RuleOutcome, EmptyTrainingSet> {
    if train.is_empty() {
        return Err(EmptyTrainingSet);
    }
    let frontiers: Vec<Frontier> = train.iter().map(Frontier::new).collect();
    let pairs = pairs(train, &frontiers);
    let mut environments = Evaluation::of(frontiers);
    let bound = environments.bound();
    let before = environments.batches(&mut Critical::new());
    let mut search = Search::new(pairs);
    let unlearned = [PairRule::soft(), PairRule::pair()];
    let unlearned = unlearned.map(|rule| PairRule { weights: search.ones(), ..rule });
    let least =
        unlearned.iter().map(|rule| environments.batches(&mut LookAhead::new(rule.clone())));
    let least = least.min().expect("there are two rules");

    let at_once = train.len().min(MINI_BATCHES);
    let generations = if least == bound { 0 } else { episodes / (at_once * RULES) };
    let mut done = 0;
    for generation in 0..generations {
        let places = (0..at_once).map(|index| (generation * at_once + index) % train.len());
        let places: Vec<usize> = places.collect();
        let deviation = 1.0 - (1.0 - LAST) * generation as f64 / generations as f64;
        search.generation(deviation, rng, |rule| {
            environments.batches_of(&places, &mut LookAhead::new(rule))
        });
        if 2 * generation >= generations {
            search.sum_up();
        }
        done += at_once * RULES;
        progress(&Progress { episode: done, episodes });
    }
    let mut rules = [vec![search.rule(&search.average())], unlearned.to_vec()].concat();
    if generations == 0 {
        rules.remove(0);
    }
    let counted = rules
        .into_iter()
        .map(|rule| (environments.batches(&mut LookAhead::new(rule.clone())), rule));
    let (after, rule) = counted.reduce(|a, b| if b.0 < a.0 { b } else { a }).expect("two rules");
    let mini_batches = train.len();
    Ok(RuleOutcome { rule, episodes: done, mini_batches, before, after, bound })
}

/// The pairs of kinds of which the second reads the first: of those that form chains, since the
/// others run once and compete with none; of all, if there are no such pairs.
fn pairs(train: &[impl Dag], frontiers: &[Frontier]) -> Vec<(Kind, Kind)> {
    let mut all = BTreeSet::new();
    let mut chained = BTreeSet::new();
    for (dag, frontier) in train.iter().zip(frontiers) {
        let chains = Chains::new(frontier);
        for node in (0..dag.nodes()).map(NodeId::new) {
            all.extend(dag.arguments(node).map(|argument| (dag.kind(argument), dag.kind(node))));
        }
        chained.extend((0..dag.kinds()).map(Kind::new).filter(|&kind| chains.longest(kind) > 1));
    }
    let (of_chains, others): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|(a, b)| chained.contains(a) && chained.contains(b));
    if of_chains.is_empty() { others } else { of_chains }
}

/// The evolution strategy's state.
struct Search {
    pairs: Vec<(Kind, Kind)>,
    /// Power, factor, weight of what was ready, and a weight per pair.
    mean: Vec<f64>,
    deviations: Vec<f64>,
    /// Σ means, and how many.
    sum: (Vec<f64>, usize),
}

impl Search {
    fn new(pairs: Vec<(Kind, Kind)>) -> Self {
        let weights = std::iter::repeat_n(WEIGHT, pairs.len());
        let (mean, deviations): (Vec<f64>, _) =
            [POWER, LOWERING, SECOND].into_iter().chain(weights).unzip();
        let sum = (vec![0.0; mean.len()], 0);
        Self { pairs, mean, deviations, sum }
    }

    /// Adds the mean to those to be averaged.
    fn sum_up(&mut self) {
        let (sum, count) = &mut self.sum;
        sum.iter_mut().zip(&self.mean).for_each(|(sum, mean)| *sum += mean);
        *count += 1;
    }

    /// The average mean.
    fn average(&self) -> Vec<f64> {
        let (sum, count) = &self.sum;
        sum.iter().map(|sum| sum / (*count).max(1) as f64).collect()
    }

    fn ones(&self) -> Vec<(Kind, Kind, f64)> {
        self.pairs.iter().map(|&(first, second)| (first, second, 1.0)).collect()
    }

    /// The rule of a point, in hundredths.
    fn rule(&self, point: &[f64]) -> PairRule {
        let hundredths = |value: f64, least: f64| (value.max(least) * 100.0).round() / 100.0;
        let weights = self.pairs.iter().zip(&point[3..]);
        let weights = weights.map(|(&(a, b), &weight)| (a, b, hundredths(weight, 0.0)));
        PairRule {
            power: point[0].round().clamp(1.0, 16.0) as u32,
            lowering: Some(hundredths(point[1], 1.0)),
            second: hundredths(point[2], 0.0),
            weights: weights.collect(),
        }
    }

    /// Tries a generation of rules and moves the mean.
    fn generation(
        &mut self,
        deviation: f64,
        rng: &mut impl Rng,
        mut batches: impl FnMut(PairRule) -> usize,
    ) {
        let mut tried: Vec<(usize, Vec<f64>)> = Vec::new();
        for _ in 0..RULES / 2 {
            let steps = self.deviations.iter().map(|of| of * deviation * normal(rng));
            let steps: Vec<f64> = steps.collect();
            for sign in [1.0, -1.0] {
                let moved = self.mean.iter().zip(&steps).map(|(mean, step)| mean + sign * step);
                let point: Vec<f64> = moved.collect();
                tried.push((batches(self.rule(&point)), point));
            }
        }
        tried.sort_by_key(|&(batches, _)| batches);
        for (index, mean) in self.mean.iter_mut().enumerate() {
            let elite = tried[..ELITE].iter().map(|(_, point)| point[index]);
            *mean += RATE * (elite.sum::<f64>() / ELITE as f64 - *mean);
        }
    }
}

/// Nearly normal, of mean 0 and deviation 1: a sum of 12 uniform numbers, the same everywhere.
fn normal(rng: &mut impl Rng) -> f64 {
    (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0
}
