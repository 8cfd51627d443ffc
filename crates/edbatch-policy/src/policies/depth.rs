//! Batches by depth: nodes of the same kind and depth run together.
//!
//! *Source*: TensorFlow Fold's algorithm, §2 of the paper. The batches are the distinct pairs
//! (depth, kind), in ascending order. The depth of a node is the longest path to it from a source.
//!
//! Nodes of a kind become ready in the order of their depth, because a node of depth `d` waits for
//! a node of depth `d - 1`. So the next batch is always a prefix of a kind's ready nodes.
//!
//! *Cost*: O(nodes + edges) at the start; a comparison per ready kind and batch.

use edbatch_graph::{Kind, NodeId};

use crate::{AnyPolicy, Frontier, Policy};

/// TensorFlow Fold's policy, the weakest baseline of the paper.
#[derive(Clone, Debug, Default)]
pub struct Depth {
    depths: Vec<u32>,
}

impl Depth {
    /// Creates the policy.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn of(&self, node: NodeId) -> u32 {
        self.depths[node.index()]
    }
}

impl Policy for Depth {
    fn start(&mut self, frontier: &Frontier) {
        depths(frontier, &mut self.depths);
    }

    fn next(&mut self, frontier: &Frontier) -> Kind {
        frontier
            .ready_kinds()
            .min_by_key(|&kind| self.of(frontier.ready(kind)[0]))
            .expect("a node remains")
    }

    fn count(&self, frontier: &Frontier, kind: Kind) -> usize {
        let ready = frontier.ready(kind);
        let depth = self.of(ready[0]);
        ready.iter().take_while(|&&node| self.of(node) == depth).count()
    }

    fn fork(&self) -> AnyPolicy {
        Box::new(self.clone())
    }
}

/// Writes to `depths[v]` the number of edges of the longest path from a source to node `v`.
pub(super) fn depths(frontier: &Frontier, depths: &mut Vec<u32>) {
    depths.clear();
    depths.resize(frontier.nodes(), 0);
    for node in 0..frontier.nodes() {
        let below = depths[node] + 1;
        for user in frontier.users(NodeId::new(node)) {
            let depth = &mut depths[user.index()];
            *depth = (*depth).max(below);
        }
    }
}
