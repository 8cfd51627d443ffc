//! Mini-batches on which policies are compared, while learning and after it.

use edbatch_graph::Dag;

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
pub(crate) struct Evaluation(Vec<Frontier>);

impl Evaluation {
    pub(crate) fn new(held_out: &[impl Dag]) -> Self {
        Self::of(held_out.iter().map(Frontier::new).collect())
    }

    pub(crate) fn of(frontiers: Vec<Frontier>) -> Self {
        Self(frontiers)
    }

    /// Σ lower bounds.
    pub(crate) fn bound(&self) -> usize {
        self.0.iter().map(|frontier| Chains::new(frontier).bound()).sum()
    }

    /// Batches that a policy makes of some of them.
    pub(crate) fn batches_of(&mut self, places: &[usize], policy: &mut impl Policy) -> usize {
        let mut batches = 0;
        for &place in places {
            let frontier = &mut self.0[place];
            frontier.rewind();
            run(frontier, policy, |_, _| batches += 1);
        }
        batches
    }

    /// Batches that a policy makes of them all.
    pub(crate) fn batches(&mut self, policy: &mut impl Policy) -> usize {
        let all: Vec<usize> = (0..self.0.len()).collect();
        self.batches_of(&all, policy)
    }
}
