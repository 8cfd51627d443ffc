//! Chains of one kind: how many nodes of its own kind still hang on a node.
//!
//! The **height** of a node `v` of kind `t` is the most nodes of kind `t` on any path that starts
//! at `v`, `v` included. The largest height of a kind is its longest chain, and the sum of the
//! longest chains is the paper's lower bound (its appendix A), with paths through nodes of other
//! kinds counted: `u → v` when *any* path leads from `u` to `v`, not only an edge.
//!
//! Computed backwards, users before arguments: a row of one counter a kind holds the most nodes of
//! that kind on any path that starts *behind* a node; it is the element-wise maximum over the
//! users' rows, each with one more for the user's own kind. A kind whose nodes all lack arguments
//! is behind no other, and needs no counter; if no node reads its nodes, nothing is behind them,
//! and all have height 1.
//!
//! Kinds do not mix, so they are taken in blocks: a block of 16 counters of 8 bits is a register,
//! and one array of rows serves block after block. Edges are taken one by one, not node by node:
//! how many users a node has is hard to predict, and a branch misprediction costs more than the
//! maximum. After some edges, the rows of all nodes behind them are complete; what comes of them is
//! kept in 16 bits a number while they are still in the cache.
//!
//! Where a chain has more than 254 nodes, or kinds are very many, all of it is done with 8 counters
//! of 32 bits, and numbers of 32 bits.
//!
//! *Cost*: O(edges × kinds) time in steps of a whole block, O(nodes) memory.

use std::fmt;
use std::ops::Range;

use edbatch_graph::{Kind, NodeId};

use crate::Frontier;

/// Heights of all nodes, and the longest chain of every kind. Reusable memory.
#[derive(Clone, Debug, Default)]
pub struct Chains {
    narrow: Counters<u8, 16>,
    wide: Counters<u32, 8>,
    /// Which of them counted.
    is_wide: bool,
    /// How many nodes of a kind have a height: from the kind's start on, a number for each height
    /// that it may have, from 1 up.
    tally: Vec<u32>,
    /// By kind, and where the last one ends.
    starts: Vec<usize>,
    longest: Vec<u32>,
    /// The kinds that have a counter: block after block of them.
    counted: Vec<Kind>,
}

/// Side by side: who asks for one will ask for the other. And small: the next node that is asked
/// for lies an instance away, in a large mini-batch a cache miss.
#[derive(Clone, Copy, Debug)]
struct OfNode<N> {
    height: N,
    /// Σ of the rows: at least so many batches are needed by what hangs on the node.
    needs: N,
}

/// The needs of all nodes.
#[derive(Clone, Copy)]
pub(crate) struct Narrow<'a>(&'a [OfNode<u16>]);

impl Narrow<'_> {
    #[inline]
    pub(crate) fn needs(self, node: NodeId) -> usize {
        self.0[node.index()].needs.into()
    }
}

/// So many kinds with chains of up to 254 nodes need fewer than 2^16 batches.
const MANY: usize = 256;

/// After so many edges we ask whether a chain is too long, and keep what has been counted.
const AT_ONCE: usize = 1 << 10;

/// The counters of a block of kinds, and what they counted.
#[derive(Clone, Debug, Default)]
struct Counters<C: Counter, const L: usize> {
    /// *Invariant*: zeros, when nothing is being counted.
    rows: Vec<[C; L]>,
    of_kind: Vec<OfKind<C, L>>,
    nodes: Vec<OfNode<C::Number>>,
}

/// A kind's place in a block; by default, none.
#[derive(Clone, Copy, Debug)]
struct OfKind<C, const L: usize> {
    /// One at the kind's column.
    one_more: [C; L],
    column: usize,
    may_chain: bool,
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
        let kinds = (0..frontier.kinds()).map(Kind::new);
        self.counted.clear();
        self.counted.extend(kinds.clone().filter(|&kind| frontier.has_arguments(kind)));
        self.is_wide = self.counted.len() > MANY || !self.count_narrow(frontier);
        if self.is_wide {
            self.lay_out_tally(frontier, usize::MAX);
            let Self { wide, counted, tally, starts, .. } = self;
            let fits = wide.count(frontier, counted, &mut Tally { of_height: tally, starts });
            assert!(fits, "a kind has fewer than 2^32 nodes");
        }
        self.longest.clear();
        for kind in kinds {
            // A node of one height stands before nodes of all lower heights.
            let tally = &self.tally[self.starts[kind.index()]..self.starts[kind.index() + 1]];
            let longest = tally.iter().take_while(|&&nodes| nodes > 0).count();
            self.longest.push(NodeId::new(longest).0);
        }
    }

    /// Whether no chain was too long.
    fn count_narrow(&mut self, frontier: &Frontier) -> bool {
        self.lay_out_tally(frontier, usize::from(u8::MAX));
        let Self { narrow, counted, tally, starts, .. } = self;
        narrow.count(frontier, counted, &mut Tally { of_height: tally, starts })
    }

    /// Capacity for the heights up to `most` of each kind. The nodes of kinds without chains have
    /// height 1.
    fn lay_out_tally(&mut self, frontier: &Frontier, most: usize) {
        self.tally.clear();
        self.starts.clear();
        self.starts.push(0);
        for kind in (0..frontier.kinds()).map(Kind::new) {
            let total = frontier.total(kind);
            if may_chain(frontier, kind) {
                self.tally.resize(self.tally.len() + total.min(most), 0);
            } else if total > 0 {
                self.tally.push(NodeId::new(total).0);
            }
            self.starts.push(self.tally.len());
        }
    }

    /// How many nodes of a kind have height 1, 2 and so on.
    pub(crate) fn tally(&self, kind: Kind) -> &[u32] {
        &self.tally[self.starts[kind.index()]..][..self.longest(kind) as usize]
    }

    /// The most nodes of a node's own kind on any path that starts at it, itself included.
    #[must_use]
    pub fn height(&self, node: NodeId) -> u32 {
        self.of_node(node).height
    }

    /// The lower bound on the batches that what hangs on a node needs; 0 if no node reads it.
    #[must_use]
    pub fn needs(&self, node: NodeId) -> u32 {
        self.of_node(node).needs
    }

    /// The same of graphs whose chains are short, in 16 bits.
    pub(crate) fn narrow(&self) -> Option<Narrow<'_>> {
        (!self.is_wide).then_some(Narrow(&self.narrow.nodes))
    }

    /// A measure of how much hangs on a node: the sixth power of its [needs](Self::needs), so that
    /// the sum over a batch is ruled by the most urgent nodes, and still counts how many they are.
    /// (On mini-batches of 64 two-type trees the powers from the first to the fourth need 1.3 %
    /// more batches, the fifth and the seventh as many; lattices see no difference.)
    #[must_use]
    pub fn urgency(&self, node: NodeId) -> f64 {
        let needs = f64::from(self.needs(node));
        let cube = needs * needs * needs;
        cube * cube
    }

    fn of_node(&self, node: NodeId) -> OfNode<u32> {
        if self.is_wide {
            return self.wide.nodes[node.index()];
        }
        let OfNode { height, needs } = self.narrow.nodes[node.index()];
        OfNode { height: height.into(), needs: needs.into() }
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

/// Whether a node of a kind may hang on another one.
fn may_chain(frontier: &Frontier, kind: Kind) -> bool {
    frontier.has_arguments(kind) && frontier.is_read(kind)
}

/// A counter of a row. It stays at the most that it can hold.
trait Counter: Copy + Ord + Into<u32> {
    const ZERO: Self;
    const ONE: Self;
    const MOST: Self;
    /// Holds a height, and the sum of all rows of a node.
    type Number: Copy + fmt::Debug + Into<u32> + TryFrom<u32>;
    fn plus(self, other: Self) -> Self;
}

impl Counter for u8 {
    const ZERO: Self = 0;
    const ONE: Self = 1;
    const MOST: Self = Self::MAX;
    type Number = u16;
    fn plus(self, other: Self) -> Self {
        self.saturating_add(other)
    }
}

impl Counter for u32 {
    const ZERO: Self = 0;
    const ONE: Self = 1;
    const MOST: Self = Self::MAX;
    type Number = Self;
    fn plus(self, other: Self) -> Self {
        self + other
    }
}

impl<C: Counter, const L: usize> OfKind<C, L> {
    const NONE: Self = Self { one_more: [C::ZERO; L], column: 0, may_chain: false };
}

/// How many nodes have a height, kind by kind.
struct Tally<'a> {
    of_height: &'a mut [u32],
    starts: &'a [usize],
}

impl<C: Counter, const L: usize> Counters<C, L> {
    /// Counts all kinds, block after block; whether no chain was too long for a counter.
    fn count(&mut self, frontier: &Frontier, kinds: &[Kind], tally: &mut Tally<'_>) -> bool {
        if self.rows.len() < frontier.nodes() {
            self.rows.resize(frontier.nodes(), [C::ZERO; L]);
        }
        self.nodes.clear();
        self.nodes.resize(frontier.nodes(), OfNode { height: number(1), needs: number(0) });
        kinds.chunks(L).all(|kinds| self.count_block(frontier, kinds, tally))
    }

    fn count_block(&mut self, frontier: &Frontier, kinds: &[Kind], tally: &mut Tally<'_>) -> bool {
        self.of_kind.clear();
        self.of_kind.resize(frontier.kinds(), OfKind::NONE);
        for (column, &kind) in kinds.iter().enumerate() {
            let mut one_more = [C::ZERO; L];
            one_more[column] = C::ONE;
            let may_chain = may_chain(frontier, kind);
            self.of_kind[kind.index()] = OfKind { one_more, column, may_chain };
        }
        let (mut edges, mut complete) = (frontier.edges().rev(), frontier.nodes());
        loop {
            if self.pass_on(frontier, edges.by_ref().take(AT_ONCE)).contains(&C::MOST) {
                self.rows.fill([C::ZERO; L]);
                return false;
            }
            // No user that is left is behind the next one, and the rows of these will not be read
            // again.
            let next = edges.clone().next();
            let from = next.map_or(0, |(_, user)| user.index() + 1);
            self.keep(from..complete, frontier, tally);
            complete = from;
            if next.is_none() {
                return true;
            }
        }
    }

    /// Keeps the heights of some nodes, and what the block adds to their needs, and clears their
    /// rows.
    fn keep(&mut self, nodes: Range<usize>, frontier: &Frontier, tally: &mut Tally<'_>) {
        let (rows, of_nodes) = (&mut self.rows[nodes.clone()], &mut self.nodes[nodes.clone()]);
        for ((index, row), node) in nodes.zip(rows).zip(of_nodes) {
            let needs: u32 = row.iter().map(|&count| count.into()).sum();
            node.needs = number(node.needs.into() + needs);
            let kind = frontier.kind(NodeId::new(index)).index();
            let OfKind { column, may_chain, .. } = self.of_kind[kind];
            if may_chain {
                let behind: u32 = row[column].into();
                node.height = number(1 + behind);
                tally.of_height[tally.starts[kind] + behind as usize] += 1;
            }
            *row = [C::ZERO; L];
        }
    }

    /// Counts along edges, and returns the most that was counted.
    fn pass_on(
        &mut self,
        frontier: &Frontier,
        edges: impl Iterator<Item = (NodeId, NodeId)>,
    ) -> [C; L] {
        let mut most_of_all = [C::ZERO; L];
        for (argument, user) in edges {
            let mut through = self.rows[user.index()];
            let one_more = self.of_kind[frontier.kind(user).index()].one_more;
            for (count, one_more) in through.iter_mut().zip(one_more) {
                *count = count.plus(one_more);
            }
            for (most, count) in most_of_all.iter_mut().zip(through) {
                *most = count.max(*most);
            }
            for (most, count) in self.rows[argument.index()].iter_mut().zip(through) {
                *most = count.max(*most);
            }
        }
        most_of_all
    }
}

fn number<N: TryFrom<u32>>(number: u32) -> N {
    N::try_from(number).ok().expect("chains and kinds for which it is too large are counted wide")
}
