//! Evaluation: counts the batches of a policy on some mini-batches.

use edbatch_graph::Dag;

use crate::policy::run;
use crate::{Chains, Critical, Frontier, LookAhead, PairRule, Policy, PolicyChoice};

/// The number of batches of a learned policy on some mini-batches, and of the policies that need no
/// learning.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Comparison {
    /// Number of mini-batches.
    pub mini_batches: usize,
    /// Number of batches by [`Critical`].
    pub critical: usize,
    /// Number of batches by [`PairRule::pair`].
    pub pair: usize,
    /// Number of batches by [`PairRule::soft`].
    pub soft: usize,
    /// Number of batches by the learned policy.
    pub learned: usize,
    /// Number of the learned policy's batches in states that its table does not have.
    pub unseen: usize,
    /// Lower bound on the number of batches.
    pub bound: usize,
}

impl Comparison {
    /// The policies that need no learning, and their numbers of batches.
    #[must_use]
    pub fn unlearned(&self) -> [(PolicyChoice, usize); 3] {
        use PolicyChoice::{Critical, CriticalPair, CriticalSoft};
        [(Critical, self.critical), (CriticalPair, self.pair), (CriticalSoft, self.soft)]
    }

    /// The unlearned policy with the fewest batches, and this number. Of equals, the cheapest.
    #[must_use]
    pub fn best_unlearned(&self) -> (PolicyChoice, usize) {
        let best = self.unlearned().into_iter().min_by_key(|&(_, batches)| batches);
        best.expect("there are three")
    }
}

/// Compares a policy with those that need no learning. Use mini-batches that took no part in
/// learning or selection: see [`set_aside`](fn@crate::set_aside).
#[must_use]
pub fn compare(mini_batches: &[impl Dag], policy: &mut (impl Policy + ?Sized)) -> Comparison {
    let mut evaluation = Evaluation::new(mini_batches);
    let [pair, soft] = [PairRule::pair(), PairRule::soft()]
        .map(|rule| evaluation.batches(&mut LookAhead::new(rule)));
    let critical = evaluation.batches(&mut Critical::new());
    let (mut learned, mut unseen) = (0, 0);
    for index in 0..mini_batches.len() {
        learned += evaluation.batches_of([index], policy);
        unseen += policy.unseen().unwrap_or(0);
    }
    let (mini_batches, bound) = (mini_batches.len(), evaluation.bound());
    Comparison { mini_batches, critical, pair, soft, learned, unseen, bound }
}

/// Mini-batches to count batches on.
pub(super) struct Evaluation(Vec<Frontier>);

impl Evaluation {
    pub(super) fn new(mini_batches: &[impl Dag]) -> Self {
        Self(mini_batches.iter().map(Frontier::new).collect())
    }

    /// The lower bound on the number of batches, summed over all mini-batches.
    pub(super) fn bound(&self) -> usize {
        self.0.iter().map(|frontier| Chains::new(frontier).bound()).sum()
    }

    /// Counts the batches of a policy on the mini-batches with the given indices.
    pub(super) fn batches_of(
        &mut self,
        indices: impl IntoIterator<Item = usize>,
        policy: &mut (impl Policy + ?Sized),
    ) -> usize {
        let mut batches = 0;
        for index in indices {
            let frontier = &mut self.0[index];
            frontier.rewind();
            run(frontier, policy, |_, _| batches += 1);
        }
        batches
    }

    /// Counts the batches of a policy on all mini-batches.
    pub(super) fn batches(&mut self, policy: &mut (impl Policy + ?Sized)) -> usize {
        self.batches_of(0..self.0.len(), policy)
    }
}
