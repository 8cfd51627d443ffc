//! Chains: the maximum number of nodes of one kind on a path.
//!
//! The **height** of a node `v` of kind `t` is the maximum number of nodes of kind `t` on a path
//! that starts at `v`, `v` included. The largest height of a kind is its longest chain. The sum of
//! the longest chains is the paper's lower bound (appendix A). Paths may pass through nodes of
//! other kinds: chains are transitive.
//!
//! Heights are computed from users to arguments. Each node has a row of one counter per kind: the
//! maximum number of nodes of that kind on a path that starts at a user of the node. The row is the
//! element-wise maximum of the users' rows, after one is added in each of them for the user's own
//! kind. If no node of a kind has arguments, no path leads to the kind, and it needs no counter. If
//! no node reads the nodes of a kind, all of them have height 1.
//!
//! Kinds are independent, so they are computed in blocks: a block of 16 counters of 8 bits is one
//! register, and one array of rows serves all blocks. The loop runs over edges and not over nodes:
//! the number of users of a node is hard to predict, and a branch misprediction costs more than an
//! element-wise maximum. Every 1024 edges, the rows that are complete are stored as heights and
//! needs of 16 bits, while they are still in the cache.
//!
//! If a chain has more than 254 nodes, or there are very many kinds, everything is computed with 8
//! counters of 32 bits and numbers of 32 bits.
//!
//! *Cost*: O(edges × kinds) time, kinds rounded up to whole blocks; O(nodes) memory.

use std::fmt;
use std::ops::Range;

use edbatch_graph::{Kind, NodeId};

use crate::Frontier;

/// The heights of all nodes, and the longest chains of all kinds. Its memory is reused.
#[derive(Clone, Debug, Default)]
pub struct Chains {
    narrow: Counters<u8, 16>,
    wide: Counters<u32, 8>,
    /// True if the result is in `wide`, false if it is in `narrow`.
    is_wide: bool,
    /// The number of nodes of each height, from height 1 up, for kind 0, then kind 1 and so on.
    tally: Vec<u32>,
    /// The start of each kind in `tally`, and the end of the last kind.
    starts: Vec<usize>,
    longest: Vec<u32>,
    /// The kinds that have a counter, one block of kinds after another.
    counted: Vec<Kind>,
}

/// The results for a node, side by side since they are read together. Small, because the nodes of a
/// batch are in different instances: in a large mini-batch every access is a cache miss.
#[derive(Clone, Copy, Debug)]
struct NodeChains<N> {
    height: N,
    /// The sum of the node's row: a lower bound on the batches of the nodes that depend on it.
    needs: N,
}

/// The [needs](Chains::needs) of all nodes, as numbers of 16 bits.
#[derive(Clone, Copy)]
pub(crate) struct Narrow<'a>(&'a [NodeChains<u16>]);

impl Narrow<'_> {
    #[inline]
    pub(crate) fn needs(self, node: NodeId) -> usize {
        self.0[node.index()].needs.into()
    }
}

/// With at most this many kinds, and chains of at most 254 nodes, needs fit in 16 bits.
const MAX_NARROW_KINDS: usize = 256;

/// The number of edges after which chains are checked for length, and complete rows stored.
const EDGES_AT_ONCE: usize = 1 << 10;

/// The counters of a block of kinds, and their results.
#[derive(Clone, Debug, Default)]
struct Counters<C: Counter, const L: usize> {
    /// *Invariant*: all zeros between two blocks.
    rows: Vec<[C; L]>,
    columns: Vec<Column<C, L>>,
    nodes: Vec<NodeChains<C::Number>>,
}

/// The column of a kind in a block.
#[derive(Clone, Copy, Debug)]
struct Column<C, const L: usize> {
    /// 1 in the kind's column, and 0 elsewhere.
    one_more: [C; L],
    index: usize,
    may_chain: bool,
}

impl Chains {
    /// Computes the chains of a graph.
    #[must_use]
    pub fn new(frontier: &Frontier) -> Self {
        let mut chains = Self::default();
        chains.reset(frontier);
        chains
    }

    /// Computes the chains of another graph, in the same memory. Includes the nodes that have run.
    pub fn reset(&mut self, frontier: &Frontier) {
        let kinds = (0..frontier.kinds()).map(Kind::new);
        self.counted.clear();
        self.counted.extend(kinds.clone().filter(|&kind| frontier.has_arguments(kind)));
        self.is_wide = self.counted.len() > MAX_NARROW_KINDS || !self.count_narrow(frontier);
        if self.is_wide {
            self.lay_out_tally(frontier, usize::MAX);
            let Self { wide, counted, tally, starts, .. } = self;
            let fits = wide.count(frontier, counted, &mut Tally { of_height: tally, starts });
            assert!(fits, "a kind has fewer than 2^32 nodes");
        }
        self.longest.clear();
        for kind in kinds {
            // If there is a node of some height, there are nodes of all lower heights.
            let tally = &self.tally[self.starts[kind.index()]..self.starts[kind.index() + 1]];
            let longest = tally.iter().take_while(|&&nodes| nodes > 0).count();
            self.longest.push(NodeId::new(longest).0);
        }
    }

    /// Counts in 8 bits. Returns false if a chain is too long.
    fn count_narrow(&mut self, frontier: &Frontier) -> bool {
        self.lay_out_tally(frontier, usize::from(u8::MAX));
        let Self { narrow, counted, tally, starts, .. } = self;
        narrow.count(frontier, counted, &mut Tally { of_height: tally, starts })
    }

    /// Allocates a counter of nodes for each kind and each height up to `max`. Nodes of kinds
    /// without chains have height 1.
    fn lay_out_tally(&mut self, frontier: &Frontier, max: usize) {
        self.tally.clear();
        self.starts.clear();
        self.starts.push(0);
        for kind in (0..frontier.kinds()).map(Kind::new) {
            let total = frontier.total(kind);
            if may_chain(frontier, kind) {
                self.tally.resize(self.tally.len() + total.min(max), 0);
            } else if total > 0 {
                self.tally.push(NodeId::new(total).0);
            }
            self.starts.push(self.tally.len());
        }
    }

    /// The numbers of nodes of a kind with height 1, 2 and so on.
    pub(crate) fn tally(&self, kind: Kind) -> &[u32] {
        &self.tally[self.starts[kind.index()]..][..self.longest(kind) as usize]
    }

    /// The height of a node: the maximum number of nodes of its kind on a path that starts at the
    /// node, the node included.
    #[must_use]
    pub fn height(&self, node: NodeId) -> u32 {
        self.of_node(node).height
    }

    /// A lower bound on the number of batches of the nodes that depend on this node. The bound is 0
    /// if no node reads this node.
    #[must_use]
    pub fn needs(&self, node: NodeId) -> u32 {
        self.of_node(node).needs
    }

    /// The [needs](Self::needs) of all nodes, if chains are so short that 16 bits hold them.
    pub(crate) fn narrow(&self) -> Option<Narrow<'_>> {
        (!self.is_wide).then_some(Narrow(&self.narrow.nodes))
    }

    /// The urgency of a node: the sixth power of its [needs](Self::needs). The most urgent nodes
    /// dominate the sum over a batch, and their number still counts. (On mini-batches of 64
    /// two-type trees, powers one to four need 1.3 % more batches, and powers five and seven the
    /// same number. On lattices there is no difference.)
    #[must_use]
    pub fn urgency(&self, node: NodeId) -> f64 {
        let needs = f64::from(self.needs(node));
        let cube = needs * needs * needs;
        cube * cube
    }

    fn of_node(&self, node: NodeId) -> NodeChains<u32> {
        if self.is_wide {
            return self.wide.nodes[node.index()];
        }
        let NodeChains { height, needs } = self.narrow.nodes[node.index()];
        NodeChains { height: height.into(), needs: needs.into() }
    }

    /// The maximum number of nodes of a kind on a path.
    #[must_use]
    pub fn longest(&self, kind: Kind) -> u32 {
        self.longest[kind.index()]
    }

    /// The sum of the longest chains: no schedule has fewer batches.
    #[must_use]
    pub fn bound(&self) -> usize {
        self.longest.iter().map(|&chain| chain as usize).sum()
    }
}

/// Returns true if a chain of a kind may have several nodes.
fn may_chain(frontier: &Frontier, kind: Kind) -> bool {
    frontier.has_arguments(kind) && frontier.is_read(kind)
}

/// A counter in a row. A counter of 8 bits stops at 255 instead of overflowing.
trait Counter: Copy + Ord + From<bool> + Into<u32> {
    const ZERO: Self;
    const MAX: Self;
    /// The type of heights and of needs.
    type Number: Copy + fmt::Debug + Into<u32> + TryFrom<u32>;
    fn plus(self, other: Self) -> Self;
}

impl Counter for u8 {
    const ZERO: Self = 0;
    const MAX: Self = Self::MAX;
    type Number = u16;
    fn plus(self, other: Self) -> Self {
        self.saturating_add(other)
    }
}

impl Counter for u32 {
    const ZERO: Self = 0;
    const MAX: Self = Self::MAX;
    type Number = Self;
    fn plus(self, other: Self) -> Self {
        self + other
    }
}

/// The numbers of nodes of each height, by kind.
struct Tally<'a> {
    of_height: &'a mut [u32],
    starts: &'a [usize],
}

impl<C: Counter, const L: usize> Counters<C, L> {
    /// Counts all kinds, block by block. Returns false if a chain is too long for a counter.
    fn count(&mut self, frontier: &Frontier, kinds: &[Kind], tally: &mut Tally<'_>) -> bool {
        if self.rows.len() < frontier.nodes() {
            self.rows.resize(frontier.nodes(), [C::ZERO; L]);
        }
        self.nodes.clear();
        self.nodes.resize(frontier.nodes(), NodeChains { height: number(1), needs: number(0) });
        kinds.chunks(L).all(|kinds| self.count_block(frontier, kinds, tally))
    }

    fn count_block(&mut self, frontier: &Frontier, kinds: &[Kind], tally: &mut Tally<'_>) -> bool {
        let none = Column { one_more: [C::ZERO; L], index: 0, may_chain: false };
        self.columns.clear();
        self.columns.resize(frontier.kinds(), none);
        for (index, &kind) in kinds.iter().enumerate() {
            let one_more = std::array::from_fn(|column| C::from(column == index));
            let may_chain = may_chain(frontier, kind);
            self.columns[kind.index()] = Column { one_more, index, may_chain };
        }
        let (mut edges, mut complete) = (frontier.edges().rev(), frontier.nodes());
        loop {
            if self.pass_on(frontier, edges.by_ref().take(EDGES_AT_ONCE)).contains(&C::MAX) {
                self.rows.fill([C::ZERO; L]);
                return false;
            }
            // The remaining edges have smaller arguments, so the rows of the nodes from `from` on
            // are complete.
            let next = edges.clone().next();
            let from = next.map_or(0, |(_, user)| user.index() + 1);
            self.keep(from..complete, frontier, tally);
            complete = from;
            if next.is_none() {
                return true;
            }
        }
    }

    /// Stores the heights of some nodes, adds their rows to their needs, and clears the rows.
    fn keep(&mut self, nodes: Range<usize>, frontier: &Frontier, tally: &mut Tally<'_>) {
        let (rows, node_chains) = (&mut self.rows[nodes.clone()], &mut self.nodes[nodes.clone()]);
        for ((index, row), node) in nodes.zip(rows).zip(node_chains) {
            let needs: u32 = row.iter().map(|&count| count.into()).sum();
            node.needs = number(node.needs.into() + needs);
            let kind = frontier.kind(NodeId::new(index)).index();
            let Column { index: column, may_chain, .. } = self.columns[kind];
            if may_chain {
                let after: u32 = row[column].into();
                node.height = number(1 + after);
                tally.of_height[tally.starts[kind] + after as usize] += 1;
            }
            *row = [C::ZERO; L];
        }
    }

    /// Updates rows along edges, from users to arguments. Returns the maximum of each counter.
    fn pass_on(
        &mut self,
        frontier: &Frontier,
        edges: impl Iterator<Item = (NodeId, NodeId)>,
    ) -> [C; L] {
        let mut maxima = [C::ZERO; L];
        for (argument, user) in edges {
            let mut through = self.rows[user.index()];
            let one_more = self.columns[frontier.kind(user).index()].one_more;
            for (count, one_more) in through.iter_mut().zip(one_more) {
                *count = count.plus(one_more);
            }
            for (max, count) in maxima.iter_mut().zip(through) {
                *max = count.max(*max);
            }
            for (max, count) in self.rows[argument.index()].iter_mut().zip(through) {
                *max = count.max(*max);
            }
        }
        maxima
    }
}

fn number<N: TryFrom<u32>>(number: u32) -> N {
    N::try_from(number).ok().expect("chains and kinds for which it is too large are counted wide")
}
