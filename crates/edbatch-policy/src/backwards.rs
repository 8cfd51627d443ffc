//! A policy that plans from the end: what it would do if every user came before its arguments.
//!
//! *Source*: our own. The reverse of a schedule of the reversed graph is a schedule of the graph: a
//! node's arguments were batched after it there, so they run before it here. Running *all* ready
//! nodes of these kinds, in this order, runs each node at its batch or earlier, so it needs no
//! more batches; a batch of which nothing is left is skipped.
//!
//! From the end other choices are contested, and a policy errs elsewhere: alone it is as good as
//! forwards, and the better of both is clearly better, as a member of a [`Portfolio`].
//!
//! *Cost*: the reversed graph, and a run of the policy on it.
//!
//! [`Portfolio`]: crate::Portfolio

use edbatch_graph::Kind;

use crate::quotient::reversed;
use crate::search::{PlannedRun, kinds_of};
use crate::{AnyPolicy, Frontier, Policy};

/// Plans the whole run backwards, by another policy.
pub struct Backwards {
    policy: AnyPolicy,
    plan: PlannedRun,
}

impl Backwards {
    /// Plans by a policy that runs all ready nodes of the kind that it picks, as all do but
    /// [`Depth`](crate::Depth).
    #[must_use]
    pub fn new(policy: impl Policy + Send + 'static) -> Self {
        Self { policy: Box::new(policy), plan: PlannedRun::default() }
    }
}

impl Policy for Backwards {
    fn start(&mut self, frontier: &Frontier) {
        let mut kinds = kinds_of(&mut reversed(frontier), &mut self.policy);
        kinds.reverse();
        self.plan = PlannedRun::new(kinds);
    }

    fn next(&mut self, frontier: &Frontier) -> Kind {
        self.plan.next_ready(frontier)
    }

    fn another(&self) -> AnyPolicy {
        Box::new(Self { policy: self.policy.another(), plan: PlannedRun::default() })
    }
}
