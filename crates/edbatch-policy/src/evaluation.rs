//! Mini-batches on which policies are compared, while learning and after it.

use edbatch_graph::{Dag, Kind};

use crate::policy::run;
use crate::{Chains, Critical, Frontier, Policy};

/// What a learned policy is worth on mini-batches, beside [`Critical`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Comparison {
    /// How many mini-batches.
    pub mini_batches: usize,
    /// Their batches by `Critical`.
    pub critical: usize,
    /// By what was learned.
    pub learned: usize,
    /// Their lower bound.
    pub bound: usize,
}

/// Compares a policy with [`Critical`]. It only says what it is worth if nothing was selected on
/// these mini-batches: see [`set_aside`](fn@crate::set_aside).
#[must_use]
pub fn compare(mini_batches: &[impl Dag], policy: &mut impl Policy) -> Comparison {
    let mut evaluation = Evaluation::new(mini_batches);
    Comparison {
        mini_batches: mini_batches.len(),
        critical: evaluation.batches(&mut Critical::new()),
        learned: evaluation.batches(policy),
        bound: evaluation.bound(),
    }
}

/// Mini-batches to count batches on.
pub(crate) struct Evaluation {
    frontiers: Vec<Frontier>,
    costs: Option<Vec<u32>>,
}

impl Evaluation {
    pub(crate) fn new(held_out: &[impl Dag]) -> Self {
        Self::of(held_out.iter().map(Frontier::new).collect())
    }

    pub(crate) fn of(frontiers: Vec<Frontier>) -> Self {
        Self { frontiers, costs: None }
    }

    pub(crate) fn with_costs(self, costs: Option<Vec<u32>>) -> Self {
        Self { costs, ..self }
    }

    fn cost(&self, kind: Kind) -> usize {
        self.costs.as_ref().map_or(1, |costs| costs[kind.index()] as usize)
    }

    /// Σ lower bounds.
    pub(crate) fn bound(&self) -> usize {
        let chains = self.frontiers.iter().map(Chains::new);
        let bound = |chains: Chains| -> usize {
            let kinds = (0..chains.kinds()).map(Kind::new);
            kinds.map(|kind| self.cost(kind) * chains.longest(kind) as usize).sum()
        };
        chains.map(bound).sum()
    }

    /// Batches that a policy makes of some of them.
    pub(crate) fn batches_of(&mut self, places: &[usize], policy: &mut impl Policy) -> usize {
        let mut batches = 0;
        for &place in places {
            let frontier = &mut self.frontiers[place];
            frontier.rewind();
            run(frontier, policy, |_, _| batches += 1);
        }
        batches
    }

    /// Batches that a policy makes of them all; or what these cost.
    pub(crate) fn batches(&mut self, policy: &mut impl Policy) -> usize {
        let mut batches = vec![0; self.frontiers.iter().map(Frontier::kinds).max().unwrap_or(0)];
        for frontier in &mut self.frontiers {
            frontier.rewind();
            run(frontier, policy, |kind, _| batches[kind.index()] += 1);
        }
        let cost = |(kind, batches)| batches * self.cost(Kind::new(kind));
        batches.into_iter().enumerate().map(cost).sum()
    }
}
