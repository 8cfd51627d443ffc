//! Batches by mean depth: the kind whose remaining nodes have the smallest mean depth runs next.
//!
//! *Source*: DyNet's agenda, §2 of the paper. Depths are computed once, on the whole graph. The
//! mean is over the nodes of the kind that have not run. Ties go to the smallest kind.
//!
//! *Cost*: O(nodes + edges) at the start and over a run; a comparison per ready kind and batch.

use edbatch_graph::{Kind, NodeId};

use super::depth::depths;
use crate::{AnyPolicy, Frontier, Policy};

/// DyNet's policy, a baseline of the paper. Better than [`Depth`](crate::Depth).
#[derive(Clone, Debug, Default)]
pub struct Agenda {
    depths: Vec<u32>,
    remaining: Vec<Remaining>,
}

/// The nodes of one kind that have not run.
#[derive(Clone, Copy, Debug, Default)]
struct Remaining {
    nodes: u64,
    /// The sum of the depths of these nodes.
    depth: u64,
    /// The number of the kind's nodes that ran and have been subtracted.
    seen: usize,
}

impl Agenda {
    /// Creates the policy.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl Policy for Agenda {
    fn start(&mut self, frontier: &Frontier) {
        depths(frontier, &mut self.depths);
        self.remaining.clear();
        self.remaining.resize(frontier.kinds(), Remaining::default());
        for (node, &depth) in self.depths.iter().enumerate() {
            let node = NodeId::new(node);
            let remaining = &mut self.remaining[frontier.kind(node).index()];
            let nodes = u64::from(frontier.weight(node));
            remaining.nodes += nodes;
            remaining.depth += nodes * u64::from(depth);
        }
    }

    fn next(&mut self, frontier: &Frontier) -> Kind {
        for kind in frontier.ready_kinds() {
            let remaining = &mut self.remaining[kind.index()];
            let ran = frontier.ran(kind);
            for &node in &ran[remaining.seen..] {
                let nodes = u64::from(frontier.weight(node));
                remaining.nodes -= nodes;
                remaining.depth -= nodes * u64::from(self.depths[node.index()]);
            }
            remaining.seen = ran.len();
        }
        // Means are compared in integers: a/b < c/d if a·d < c·b.
        frontier
            .ready_kinds()
            .min_by(|a, b| {
                let (a, b) = (self.remaining[a.index()], self.remaining[b.index()]);
                let product = |x: u64, y: u64| u128::from(x) * u128::from(y);
                product(a.depth, b.nodes).cmp(&product(b.depth, a.nodes))
            })
            .expect("a node remains")
    }

    fn fork(&self) -> AnyPolicy {
        Box::new(self.clone())
    }
}
