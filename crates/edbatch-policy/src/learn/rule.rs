//! Learning the constants of a [`LookAhead`] for a network, by an evolution strategy.
//!
//! *Source*: an evolution strategy with a mean and a deviation for each constant, as in the
//! cross-entropy method, with mirrored samples.
//!
//! A generation tries several rules around the mean on the same few mini-batches, and counts
//! batches. So it optimises the number of batches itself, not a model of rewards. Then the mean
//! moves towards the best of these rules, and the deviations shrink. The next generation takes the
//! next mini-batches, so that rules do not fit only a few of them. The result is the mean, averaged
//! over the second half of the generations. It is dropped if a policy that needs no learning is as
//! good on the mini-batches held out.
//!
//! A table is less suitable: its states describe which kinds are *ready*, but a good choice depends
//! on the nodes that a batch would *make* ready. The rule looks at these, and its weights say how
//! much they count in this network, for each pair of kinds.
//!
//! Learning counts episodes and never measures time, and all constants are hundredths. So the same
//! seed gives the same rule on every machine.
//!
//! *Cost*: an episode schedules one mini-batch.

use std::collections::BTreeSet;

use edbatch_graph::{Dag, Kind, NodeId};
use rand::{Rng, RngExt};

use super::evaluation::{Comparison, Evaluation, compare};
use super::{Progress, TrainingSet};
use crate::{Chains, Critical, Frontier, LookAhead, PairRule};

/// The result of learning a rule.
#[derive(Clone, PartialEq, Debug)]
pub struct RuleOutcome {
    /// The rule, if it makes fewer batches on the mini-batches held out than `critical`,
    /// `critical:pair` and `critical:soft`. It has a weight for each pair of kinds whose second
    /// kind reads the first.
    pub rule: Option<PairRule>,
    /// Number of schedules that were tried.
    pub episodes: usize,
    /// Number of mini-batches that the rule was learned on.
    pub mini_batches: usize,
    /// The comparison on the mini-batches held out, even if the rule was dropped. If there was
    /// nothing to learn, the learned policy is `critical`.
    pub held_out: Comparison,
}

/// Maximum number of mini-batches in a generation.
const MINI_BATCHES: usize = 8;
/// Number of rules tried in a generation. Half of them are the other half, mirrored at the mean.
const RULES: usize = 12;
/// Number of the best rules of a generation, towards which the mean moves.
const ELITE: usize = 4;
/// The step of the mean: 1 would move it to the average of the best rules.
const RATE: f64 = 0.5;
/// The deviations of the last generation, divided by the initial ones.
const LAST: f64 = 0.3;

/// Initial mean and deviation of each constant.
const POWER: (f64, f64) = (8.0, 2.0);
const LOWERING: (f64, f64) = (1.2, 0.1);
const SECOND: (f64, f64) = (0.9, 0.1);
const WEIGHT: (f64, f64) = (1.1, 0.25);

/// Learns a rule on mini-batches, in at most `episodes` episodes. Ends at once if a preset rule is
/// optimal on these. Calls `progress` after every generation.
pub fn learn_rule<D: Dag>(
    set: &TrainingSet<'_, D>,
    episodes: usize,
    rng: &mut impl Rng,
    mut progress: impl FnMut(&Progress),
) -> RuleOutcome {
    let train = set.train();
    let mut environments = Evaluation::new(train);
    let mut is_optimal =
        |rule| environments.batches(&mut LookAhead::new(rule)) == environments.bound();
    let is_optimal = is_optimal(PairRule::soft()) || is_optimal(PairRule::pair());

    let mut search = Search::new(pairs(train));
    let at_once = train.len().min(MINI_BATCHES);
    let generations = if is_optimal { 0 } else { episodes / (at_once * RULES) };
    let mut done = 0;
    for generation in 0..generations {
        let next = (0..at_once).map(|index| (generation * at_once + index) % train.len());
        let deviation = 1.0 - (1.0 - LAST) * generation as f64 / generations as f64;
        search.generation(deviation, rng, |rule| {
            environments.batches_of(next.clone(), &mut LookAhead::new(rule))
        });
        if 2 * generation >= generations {
            search.sum_up();
        }
        done += at_once * RULES;
        progress(&Progress { episode: done, episodes });
    }
    let learned = (generations > 0).then(|| search.rule(&search.average()));
    let held_out = match &learned {
        Some(rule) => compare(set.held_out(), &mut LookAhead::new(rule.clone())),
        None => compare(set.held_out(), &mut Critical::new()),
    };
    let rule = learned.filter(|_| held_out.learned < held_out.best_unlearned().1);
    RuleOutcome { rule, episodes: done, mini_batches: train.len(), held_out }
}

/// The pairs of kinds whose second kind reads the first. Leaves out pairs with a kind without
/// chains, which runs once and does not compete. If there are no other pairs, returns all of them.
fn pairs(train: &[impl Dag]) -> Vec<(Kind, Kind)> {
    let mut all = BTreeSet::new();
    let mut chained = BTreeSet::new();
    for dag in train {
        let chains = Chains::new(&Frontier::new(dag));
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
    /// The constants `power`, `lowering` and `second`, and the weight of each pair.
    mean: Vec<f64>,
    deviations: Vec<f64>,
    /// The sum of the means of some generations, and the number of these generations.
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

    /// Adds the mean of this generation to the sum.
    fn sum_up(&mut self) {
        let (sum, count) = &mut self.sum;
        sum.iter_mut().zip(&self.mean).for_each(|(sum, mean)| *sum += mean);
        *count += 1;
    }

    /// The average of the means that were summed.
    fn average(&self) -> Vec<f64> {
        let (sum, count) = &self.sum;
        sum.iter().map(|sum| sum / (*count).max(1) as f64).collect()
    }

    /// The rule with these constants: `power` is made whole, the others are rounded to hundredths.
    fn rule(&self, point: &[f64]) -> PairRule {
        let hundredths = |value: f64, min: f64| (value.max(min) * 100.0).round() / 100.0;
        let weights = self.pairs.iter().zip(&point[3..]);
        let weights = weights.map(|(&(a, b), &weight)| (a, b, hundredths(weight, 0.0)));
        PairRule {
            power: point[0].round().clamp(1.0, 16.0) as u32,
            lowering: Some(hundredths(point[1], 1.0)),
            second: hundredths(point[2], 0.0),
            weights: weights.collect(),
        }
    }

    /// Tries the rules of a generation and moves the mean.
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

/// A nearly normal number of mean 0 and deviation 1: a sum of 12 uniform numbers, which has the
/// same bits on every machine.
fn normal(rng: &mut impl Rng) -> f64 {
    (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0
}
