//! Mini-batches on which policies are compared while learning.

use edbatch_graph::{Dag, Kind};

use crate::policy::run;
use crate::{Chains, Frontier, Policy};

/// Mini-batches to count batches on.
pub(crate) struct Evaluation {
    frontiers: Vec<Frontier>,
    costs: Option<Vec<u32>>,
}

impl Evaluation {
    pub(crate) fn new(held_out: &[impl Dag]) -> Self {
        Self { frontiers: held_out.iter().map(Frontier::new).collect(), costs: None }
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
