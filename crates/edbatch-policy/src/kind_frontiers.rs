//! How many remaining nodes of a kind would be first among their kind.
//!
//! *Source*: `Frontier(G^a)`, §2.3 of the paper: the remaining nodes of kind `a` that have no
//! remaining ancestor of kind `a`. All ready nodes of the kind are among them, and the **ratio**
//! of a kind is ready over first, in (0, 1]. (Equation 1 prints the ratio upside down; its worked
//! example, 5/7 and 1/1, and its proof need this one.)
//!
//! Per node `v` and kind `t`, count the arguments of `v` that are of kind `t` and remain, or that
//! still have such an ancestor themselves. When the count falls to zero, `v` has lost its last
//! ancestor of kind `t`: if it is of kind `t` it is now first, and if not, its users' counts fall.
//!
//! Three kinds of work are saved. A kind whose longest chain is 1 has no ancestors among itself:
//! all of it is first, and it needs no column. A count at a node from which no path leads to kind
//! `t` is never needed: it starts so high that it never falls to zero. And nothing is counted
//! before the first question: from then on, [`update`](KindFrontiers::update) catches up.
//!
//! *Cost*: each pair of an edge and a column falls once: O(edges × kinds with chains) over a run.

use edbatch_graph::{Kind, NodeId};

use crate::{Chains, Frontier};

/// The size of `Frontier(G^a)` for every kind `a`, kept up to date on demand.
#[derive(Clone, Debug, Default)]
pub struct KindFrontiers {
    built: bool,
    /// Per kind.
    kinds: Vec<OfKind>,
    /// How many kinds have a column, rounded up to whole blocks.
    columns: usize,
    /// Counts of node `v`: `counts[v * columns..][..columns]`.
    counts: Vec<u32>,
    /// Per node, while building: bit `c` of a block says that kind `c` lies on a path from it.
    leads_to: Vec<u8>,
    /// Nodes that lost their last ancestor of a kind and have not passed that on to their users.
    lost: Vec<NodeId>,
}

#[derive(Clone, Copy, Debug, Default)]
struct OfKind {
    /// Among the columns; `NONE` for a kind without chains.
    column: u32,
    /// The remaining nodes that have no remaining ancestor of their kind, by weight.
    first: usize,
    /// How many of the nodes that ran have been dealt with.
    seen: usize,
}

const NONE: u32 = u32::MAX;

/// A count that is never needed, too high to fall to zero.
const IRRELEVANT: u32 = 1 << 31;

/// Columns come in blocks: a block's counts are added at once.
const BLOCK: usize = 4;

impl KindFrontiers {
    /// Forgets the last graph and keeps the memory. Costs nothing until the first question.
    pub fn start(&mut self) {
        self.built = false;
    }

    /// Brings the counts up to date with what has run.
    pub fn update(&mut self, frontier: &Frontier, chains: &Chains) {
        if !self.built {
            self.build(frontier, chains);
            self.built = true;
            return;
        }
        for kind in (0..self.kinds.len()).map(Kind::new) {
            let of_kind = &mut self.kinds[kind.index()];
            let ran = frontier.ran(kind);
            let news = &ran[std::mem::replace(&mut of_kind.seen, ran.len())..];
            if of_kind.column != NONE {
                for &node in news {
                    self.advance_users(frontier, node, kind);
                }
            }
            // Each of them was first before it ran: those of its users that became first may be
            // among them.
            self.kinds[kind.index()].first -= frontier.weight_of(news);
        }
    }

    /// `|Frontier(G^kind)|` as of the last [`update`](Self::update).
    #[must_use]
    pub fn size(&self, kind: Kind) -> usize {
        self.kinds[kind.index()].first
    }

    /// The number of columns, each kind's column, and the counts, node by node.
    pub(crate) fn into_counts(self) -> (usize, Vec<Option<u32>>, Vec<u32>) {
        let column = |kind: &OfKind| Some(kind.column).filter(|&column| column != NONE);
        let columns = self.kinds.iter().map(column).collect();
        (self.columns, columns, self.counts)
    }

    /// Whether `a`'s ratio of ready to first is less than `b`'s.
    #[must_use]
    pub(crate) fn less(&self, frontier: &Frontier, a: Kind, b: Kind) -> bool {
        let crosswise = |a, b| frontier.ready_count(a) as u64 * self.size(b) as u64;
        crosswise(a, b) < crosswise(b, a)
    }

    /// `node` of kind `kind` ran, or rather: it no longer is its users' ancestor.
    fn advance_users(&mut self, frontier: &Frontier, node: NodeId, kind: Kind) {
        let of_kind = &mut self.kinds[kind.index()];
        self.lost.push(node);
        while let Some(node) = self.lost.pop() {
            for &user in frontier.users(node) {
                let count = &mut self.counts[user.index() * self.columns + of_kind.column as usize];
                *count -= 1;
                if *count == 0 {
                    if frontier.kind(user) == kind {
                        of_kind.first += frontier.weight(user) as usize;
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
            self.kinds.push(OfKind {
                column: if has_chains { columns } else { NONE },
                first: 0,
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
        self.count_first(frontier);
    }

    /// The column of a kind within a block, if it is there.
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
        // What ran is no ancestor any more.
        for kind in (0..frontier.kinds()).map(Kind::new) {
            for node in frontier.ran(kind) {
                self.leads_to[node.index()] = 0;
            }
        }
    }

    /// Counts forwards, arguments before users.
    fn count(&mut self, frontier: &Frontier, block: usize) {
        for node in 0..frontier.nodes() {
            let id = NodeId::new(node);
            // From here no path leads to a kind of this block, or the node ran.
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

    fn count_first(&mut self, frontier: &Frontier) {
        for node in (0..frontier.nodes()).map(NodeId::new) {
            let kind = &mut self.kinds[frontier.kind(node).index()];
            let column = kind.column as usize;
            if kind.column == NONE || self.counts[node.index() * self.columns + column] == 0 {
                kind.first += frontier.weight(node) as usize;
            }
        }
        for (kind, of_kind) in self.kinds.iter_mut().enumerate() {
            of_kind.first -= frontier.weight_of(frontier.ran(Kind::new(kind)));
        }
    }
}
