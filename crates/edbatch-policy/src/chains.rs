//! Chains of one kind: how many nodes of its own kind still hang on a node.
//!
//! The **height** of a node `v` of kind `t` is the most nodes of kind `t` on any path that starts
//! at `v`, `v` included. The largest height of a kind is its longest chain, and the sum of the
//! longest chains is the paper's lower bound (its appendix A), with paths through nodes of other
//! kinds counted: `u → v` when *any* path leads from `u` to `v`, not only an edge.
//!
//! Computed backwards, users before arguments: a row of one counter a kind is the element-wise
//! maximum of the users' rows, plus one for the node's own kind.
//!
//! Kinds do not mix, so they are taken in blocks: a block of at most 16 counters of 16 bits is a
//! register or two, and one array of rows serves block after block. (A block with a kind of more
//! than 65,535 nodes has 32 bits a counter.)
//!
//! *Cost*: O(edges × kinds) time in steps of a whole block, O(nodes) memory.

use edbatch_graph::{Kind, NodeId};

use crate::Frontier;

/// Heights of all nodes, and the longest chain of every kind. Reusable memory.
#[derive(Clone, Debug, Default)]
pub struct Chains {
    heights: Vec<u32>,
    /// Σ of a node's row: at least so many batches, from the node's on.
    needs: Vec<u32>,
    longest: Vec<u32>,
    narrow: Vec<[u16; 8]>,
    wide: Vec<[u16; 16]>,
    large: Vec<[u32; 8]>,
}

impl Chains {
    /// The chains of a graph.
    #[must_use]
    pub fn new(frontier: &Frontier) -> Self {
        let mut chains = Self::default();
        chains.reset(frontier);
        chains
    }

    /// Turns to another graph and keeps the memory. Only the graph is read, not what has run.
    pub fn reset(&mut self, frontier: &Frontier) {
        self.heights.clear();
        self.heights.resize(frontier.nodes(), 0);
        self.needs.clear();
        self.needs.resize(frontier.nodes(), 0);
        let kinds = frontier.kinds();
        let fits = |kind| frontier.total(Kind::new(kind)) <= usize::from(u16::MAX);
        let mut first = 0;
        while first < kinds {
            let rest = kinds - first;
            let per_node = (&mut *self.heights, &mut *self.needs);
            first += if !(first..kinds.min(first + 16)).all(fits) {
                block(frontier, first, &mut self.large, per_node)
            } else if rest <= 8 {
                block(frontier, first, &mut self.narrow, per_node)
            } else {
                block(frontier, first, &mut self.wide, per_node)
            };
        }
        self.longest.clear();
        self.longest.resize(kinds, 0);
        for (node, &height) in self.heights.iter().enumerate() {
            let longest = &mut self.longest[frontier.kind(NodeId::new(node)).index()];
            *longest = (*longest).max(height);
        }
    }

    /// The most nodes of a node's own kind on any path that starts at it, itself included.
    #[must_use]
    pub fn height(&self, node: NodeId) -> u32 {
        self.heights[node.index()]
    }

    /// A measure of how much hangs on a node, 0 if nobody reads it: the square of the lower bound on
    /// the batches that what depends on it needs. (On real trees and lattices, any power from the
    /// first to the fourth breaks ties equally well, and so does the longest path.)
    #[must_use]
    pub fn urgency(&self, node: NodeId) -> u64 {
        u64::from(self.needs[node.index()] - 1).pow(2)
    }

    /// Number of kinds that may occur.
    #[must_use]
    pub fn kinds(&self) -> usize {
        self.longest.len()
    }

    /// The most nodes of a kind on any path.
    #[must_use]
    pub fn longest(&self, kind: Kind) -> u32 {
        self.longest[kind.index()]
    }

    /// Σ longest chains: no schedule has fewer batches.
    #[must_use]
    pub fn bound(&self) -> usize {
        self.longest.iter().map(|&chain| chain as usize).sum()
    }
}

/// A counter of a row: a count that cannot overflow, because a kind has fewer nodes.
trait Counter: Copy + Default + Ord {
    fn one_more(self) -> Self;
    fn get(self) -> u32;
}

impl Counter for u16 {
    fn one_more(self) -> Self {
        self + 1
    }
    fn get(self) -> u32 {
        self.into()
    }
}

impl Counter for u32 {
    fn one_more(self) -> Self {
        self + 1
    }
    fn get(self) -> u32 {
        self
    }
}

/// Heights of the nodes of the kinds `first..first + L`, and what these kinds add to the needs;
/// returns `L`.
fn block<C: Counter, const L: usize>(
    frontier: &Frontier,
    first: usize,
    rows: &mut Vec<[C; L]>,
    (heights, needs): (&mut [u32], &mut [u32]),
) -> usize {
    rows.resize(frontier.nodes(), [C::default(); L]);
    for node in (0..frontier.nodes()).rev() {
        let id = NodeId::new(node);
        let mut row = [C::default(); L];
        for user in frontier.users(id) {
            for (most, &of_user) in row.iter_mut().zip(&rows[user.index()]) {
                *most = (*most).max(of_user);
            }
        }
        let own = frontier.kind(id).index().wrapping_sub(first);
        if let Some(own) = row.get_mut(own) {
            *own = own.one_more();
            heights[node] = own.get();
        }
        needs[node] += row.iter().map(|count| count.get()).sum::<u32>();
        rows[node] = row;
    }
    L
}
