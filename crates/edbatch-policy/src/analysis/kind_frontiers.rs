//! The frontier of each kind: its remaining nodes without a remaining ancestor of the same kind.
//!
//! *Source*: `Frontier(G^a)`, §2.3 of the paper. It contains all ready nodes of the kind. The
//! **ratio** of a kind is the number of its ready nodes over the size of its frontier, in (0, 1].
//! (Equation 1 prints the ratio upside down. The paper's worked example, 5/7 and 1/1, and its proof
//! need the ratio as defined here.)
//!
//! For each node `v` and kind `t` there is a count of the arguments of `v` that are remaining nodes
//! of kind `t`, or have such an ancestor. When the count reaches zero, `v` has lost its last
//! ancestor of kind `t`: if `v` is of kind `t`, it enters the frontier; otherwise the counts of its
//! users decrease.
//!
//! Three kinds of work are saved. A kind whose longest chain is 1 has no ancestors of its own kind:
//! all of its nodes are in the frontier, and it needs no column of counts. The count of a node from
//! which no path leads to kind `t` is never needed: it starts so high that it never reaches zero.
//! And nothing is counted before the first call of [`update`](KindFrontiers::update).
//!
//! *Cost*: each pair of an edge and a column decreases a count once: O(edges × kinds with chains)
//! over a run.

use edbatch_graph::{Kind, NodeId};

use crate::memory::is_available;
use crate::{Chains, Frontier};

/// The sizes of the frontiers of all kinds, updated on demand.
#[derive(Clone, Debug, Default)]
pub struct KindFrontiers {
    built: bool,
    kinds: Vec<KindState>,
    /// The number of columns of `counts`, a multiple of [`BLOCK`].
    columns: usize,
    /// Counts of node `v`: `counts[v * columns..][..columns]`.
    counts: Vec<u32>,
    /// During a build, by node: bit `c` is set if a path from the node reaches the kind of column
    /// `c` of the block.
    leads_to: Vec<u8>,
    /// Nodes that lost their last ancestor of a kind, and whose users have not been updated.
    lost: Vec<NodeId>,
}

#[derive(Clone, Copy, Debug, Default)]
struct KindState {
    /// The index of the kind's column in `counts`; `NONE` if no chain of the kind has two nodes.
    column: u32,
    /// The number of nodes in the kind's frontier, each counted by its weight.
    size: usize,
    /// The number of completed nodes of the kind at the last update.
    seen: usize,
}

const NONE: u32 = u32::MAX;

/// The initial value of a count that is not needed: too high to reach zero.
const IRRELEVANT: u32 = 1 << 31;

/// The number of columns in a block. The counts of a block are added at once.
const BLOCK: usize = 4;

impl KindFrontiers {
    /// Builds the counts of a graph. Returns `None` if there is no memory for two copies of the
    /// counts.
    pub(crate) fn try_new(frontier: &Frontier, chains: &Chains) -> Option<Self> {
        let kinds = (0..frontier.kinds()).map(Kind::new);
        let columns = kinds.filter(|&kind| chains.longest(kind) > 1).count() + BLOCK;
        let bytes = columns.saturating_mul(2 * size_of::<u32>() * frontier.nodes());
        is_available(bytes).then(|| {
            let mut kind_frontiers = Self::default();
            kind_frontiers.update(frontier, chains);
            kind_frontiers
        })
    }

    /// Starts a new graph and keeps the memory. The work is left to the first update.
    pub fn start(&mut self) {
        self.built = false;
    }

    /// Updates the counts and sizes for the batches that have run.
    pub fn update(&mut self, frontier: &Frontier, chains: &Chains) {
        if !self.built {
            self.build(frontier, chains);
            self.built = true;
            return;
        }
        for kind in (0..self.kinds.len()).map(Kind::new) {
            let state = &mut self.kinds[kind.index()];
            let ran = frontier.ran(kind);
            let news = &ran[std::mem::replace(&mut state.seen, ran.len())..];
            if state.column != NONE {
                for &node in news {
                    self.advance_users(frontier, node, kind);
                }
            }
            // All of `news` were in the frontier when they ran, also the users that entered it
            // above.
            self.kinds[kind.index()].size -= frontier.weight_of(news);
        }
    }

    /// The size of the frontier of a kind at the last [`update`](Self::update).
    #[must_use]
    pub fn size(&self, kind: Kind) -> usize {
        self.kinds[kind.index()].size
    }

    /// Returns the number of columns, each kind's column, and the counts, node by node.
    pub(crate) fn into_counts(self) -> (usize, Vec<Option<u32>>, Vec<u32>) {
        let column = |kind: &KindState| Some(kind.column).filter(|&column| column != NONE);
        let columns = self.kinds.iter().map(column).collect();
        (self.columns, columns, self.counts)
    }

    /// Updates the counts for `kind` of the nodes that depend on `node`, which is of this kind and
    /// has run.
    fn advance_users(&mut self, frontier: &Frontier, node: NodeId, kind: Kind) {
        let state = &mut self.kinds[kind.index()];
        self.lost.push(node);
        while let Some(node) = self.lost.pop() {
            for &user in frontier.users(node) {
                let count = &mut self.counts[user.index() * self.columns + state.column as usize];
                *count -= 1;
                if *count == 0 {
                    if frontier.kind(user) == kind {
                        state.size += frontier.weight(user) as usize;
                    } else {
                        self.lost.push(user);
                    }
                }
            }
        }
    }

    fn build(&mut self, frontier: &Frontier, chains: &Chains) {
        self.kinds.clear();
        let mut columns = 0;
        for kind in (0..frontier.kinds()).map(Kind::new) {
            let has_chains = chains.longest(kind) > 1;
            self.kinds.push(KindState {
                column: if has_chains { columns } else { NONE },
                size: 0,
                seen: frontier.ran(kind).len(),
            });
            columns += u32::from(has_chains);
        }
        self.columns = (columns as usize).next_multiple_of(BLOCK);
        self.counts.clear();
        self.counts.resize(self.columns * frontier.nodes(), 0);
        for block in 0..self.columns / BLOCK {
            self.mark_relevant(frontier, block);
            self.count(frontier, block);
        }
        self.count_frontiers(frontier);
    }

    /// The column of a kind within a block, if the block has it.
    fn within(&self, kind: Kind, block: usize) -> Option<usize> {
        let column = self.kinds[kind.index()].column as usize;
        Some(column.wrapping_sub(block * BLOCK)).filter(|&column| column < BLOCK)
    }

    fn mark_relevant(&mut self, frontier: &Frontier, block: usize) {
        self.leads_to.resize(frontier.nodes(), 0);
        for node in (0..frontier.nodes()).rev() {
            let id = NodeId::new(node);
            let own = self.within(frontier.kind(id), block);
            let own = own.map_or(0, |column| 1 << column);
            let users = frontier.users(id).iter();
            self.leads_to[node] = users.fold(own, |bits, user| bits | self.leads_to[user.index()]);
            let counts = &mut self.counts[node * self.columns + block * BLOCK..][..BLOCK];
            for (column, count) in counts.iter_mut().enumerate() {
                let relevant = self.leads_to[node] & (1 << column) != 0;
                *count = if relevant { 0 } else { IRRELEVANT };
            }
        }
        // Completed nodes no longer count as ancestors.
        for kind in (0..frontier.kinds()).map(Kind::new) {
            for node in frontier.ran(kind) {
                self.leads_to[node.index()] = 0;
            }
        }
    }

    /// Fills the counts of a block of columns, from arguments to users.
    fn count(&mut self, frontier: &Frontier, block: usize) {
        for node in 0..frontier.nodes() {
            let id = NodeId::new(node);
            // No path from the node reaches a kind of this block, or the node has run.
            if self.leads_to[node] == 0 {
                continue;
            }
            let counts = &self.counts[node * self.columns + block * BLOCK..][..BLOCK];
            let mut passed_on = [0; BLOCK];
            for (passed_on, &count) in passed_on.iter_mut().zip(counts) {
                *passed_on = u32::from(count != 0);
            }
            if let Some(own) = self.within(frontier.kind(id), block) {
                passed_on[own] = 1;
            }
            for user in frontier.users(id) {
                let counts =
                    &mut self.counts[user.index() * self.columns + block * BLOCK..][..BLOCK];
                for (count, passed_on) in counts.iter_mut().zip(passed_on) {
                    *count += passed_on;
                }
            }
        }
    }

    fn count_frontiers(&mut self, frontier: &Frontier) {
        for node in (0..frontier.nodes()).map(NodeId::new) {
            let kind = &mut self.kinds[frontier.kind(node).index()];
            let column = kind.column as usize;
            if kind.column == NONE || self.counts[node.index() * self.columns + column] == 0 {
                kind.size += frontier.weight(node) as usize;
            }
        }
        for (kind, state) in self.kinds.iter_mut().enumerate() {
            state.size -= frontier.weight_of(frontier.ran(Kind::new(kind)));
        }
    }
}
