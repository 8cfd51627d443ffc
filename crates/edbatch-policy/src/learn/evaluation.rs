//! Evaluation: counts the batches that a policy makes of some mini-batches.

use edbatch_graph::Dag;

use crate::policy::run;
use crate::{Chains, Critical, Frontier, Policy};

/// A learned policy compared with [`Critical`] on some mini-batches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Comparison {
    /// Number of mini-batches.
    pub mini_batches: usize,
    /// Number of batches by `Critical`.
    pub critical: usize,
    /// Number of batches by the learned policy.
    pub learned: usize,
    /// Lower bound on the number of batches.
    pub bound: usize,
}

/// Compares a policy with [`Critical`]. Use mini-batches that took no part in learning or
/// selection: see [`set_aside`](fn@crate::set_aside).
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
pub(super) struct Evaluation(Vec<Frontier>);

impl Evaluation {
    pub(super) fn new(mini_batches: &[impl Dag]) -> Self {
        Self(mini_batches.iter().map(Frontier::new).collect())
    }

    /// The sum of the lower bounds.
    pub(super) fn bound(&self) -> usize {
        self.0.iter().map(|frontier| Chains::new(frontier).bound()).sum()
    }

    /// The number of batches that a policy makes of some of the mini-batches.
    pub(super) fn batches_of(&mut self, indices: &[usize], policy: &mut impl Policy) -> usize {
        let mut batches = 0;
        for &index in indices {
            let frontier = &mut self.0[index];
            frontier.rewind();
            run(frontier, policy, |_, _| batches += 1);
        }
        batches
    }

    /// The number of batches that a policy makes of all mini-batches.
    pub(super) fn batches(&mut self, policy: &mut impl Policy) -> usize {
        let all: Vec<usize> = (0..self.0.len()).collect();
        self.batches_of(&all, policy)
    }
}
