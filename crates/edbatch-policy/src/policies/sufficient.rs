//! The heuristic of the sufficient condition: the kind with the largest ratio runs next.
//!
//! *Source*: the lemma and the heuristic of §2.3 and §5 of the paper. The ratio of a kind is the
//! number of its ready nodes over the size of its [frontier](KindFrontiers). A kind with ratio 1
//! begins some shortest schedule. The paper finds this heuristic as good as its best FSM, and too
//! slow to use; here the ratios are updated incrementally, which is fast enough.
//!
//! *Cost*: O(edges × kinds with chains) over a run.

use edbatch_graph::Kind;

use crate::{AnyPolicy, Chains, Frontier, KindFrontiers, Policy};

/// Runs the kind with the largest [ratio](KindFrontiers); ties go to the smallest kind.
#[derive(Clone, Debug, Default)]
pub struct Sufficient {
    chains: Chains,
    kind_frontiers: KindFrontiers,
}

impl Sufficient {
    /// Creates the policy.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Compares the ratios of two kinds.
    fn is_less(&self, frontier: &Frontier, a: Kind, b: Kind) -> bool {
        let product = |a, b| frontier.ready_count(a) as u64 * self.kind_frontiers.size(b) as u64;
        product(a, b) < product(b, a)
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
            .reduce(|best, kind| if self.is_less(frontier, best, kind) { kind } else { best })
            .expect("a node remains")
    }

    fn fork(&self) -> AnyPolicy {
        Box::new(self.clone())
    }
}
