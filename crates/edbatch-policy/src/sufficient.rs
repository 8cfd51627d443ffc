//! The heuristic of the sufficient condition: the kind with the largest ratio runs next.
//!
//! *Source*: the lemma and the heuristic of §2.3 and §5 of the paper. A kind whose ratio of ready
//! to would-be-first nodes ([`KindFrontiers`]) is 1 begins some shortest schedule. The paper finds
//! the heuristic as good as its best FSM and too slow to use; kept incrementally it is not slow.
//!
//! *Cost*: O(edges × kinds with chains) over a run.

use edbatch_graph::Kind;

use crate::{AnyPolicy, Chains, Frontier, KindFrontiers, Policy};

/// The largest ratio first; ties to the smallest kind.
#[derive(Clone, Debug, Default)]
pub struct Sufficient {
    chains: Chains,
    kind_frontiers: KindFrontiers,
}

impl Sufficient {
    /// A policy without memory yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl Policy for Sufficient {
    fn start(&mut self, frontier: &Frontier) {
        self.chains.reset(frontier);
        self.kind_frontiers.start();
    }

    fn next(&mut self, frontier: &Frontier) -> Kind {
        self.kind_frontiers.update(frontier, &self.chains);
        frontier
            .ready_kinds()
            .reduce(
                |best, kind| {
                    if self.kind_frontiers.less(frontier, best, kind) { kind } else { best }
                },
            )
            .expect("a node remains")
    }

    fn another(&self) -> AnyPolicy {
        Box::new(self.clone())
    }
}
