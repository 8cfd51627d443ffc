//! Chains of one kind: how many nodes of its own kind still hang on a node.
//!
//! The **height** of a node `v` of kind `t` is the most nodes of kind `t` on any path that starts
//! at `v`, `v` included. The largest height of a kind is its longest chain, and the sum of the
//! longest chains is the paper's lower bound (its appendix A), with paths through nodes of other
//! kinds counted: `u → v` when *any* path leads from `u` to `v`, not only an edge.
//!
//! Computed backwards, users before arguments: a row of one counter a kind holds the most nodes of
//! that kind on any path that starts *behind* a node; it is the element-wise maximum over the users'
//! rows, each with one more for the user's own kind. A kind whose nodes all lack arguments is behind
//! nobody, and needs no counter; if nobody reads its nodes, nothing is behind them, and all have
//! height 1.
//!
//! Kinds do not mix, so they are taken in blocks: a block of 16 counters of 8 bits is a register, and
//! one array of rows serves block after block. Where a chain has more than 254 nodes, its block is
//! counted again with 8 counters of 32 bits. Edges are taken one by one, not node by node: how many
//! users a node has is as good as random, and a loop that ends at random costs more than the maximum.
//!
//! What comes of it is kept in 16 bits a number; in 32 where a chain is long or kinds are very many.
//!
//! *Cost*: O(edges × kinds) time in steps of a whole block, O(nodes) memory.

use edbatch_graph::{Kind, NodeId};

use crate::Frontier;

/// Heights of all nodes, and the longest chain of every kind. Reusable memory.
#[derive(Clone, Debug, Default)]
pub struct Chains {
    nodes: Vec<OfNode<u16>>,
    /// In their stead, unless it is empty.
    wide: Vec<OfNode<u32>>,
    /// How many nodes of a kind have a height: from the kind's start on, a number for each height
    /// from 1 up to the kind's number of nodes.
    tally: Vec<u32>,
    starts: Vec<usize>,
    longest: Vec<u32>,
    /// The kinds that have a counter: block after block of them.
    counted: Vec<Kind>,
    short: Rows<u8, 16>,
    long: Rows<u32, 8>,
}

/// Side by side: who asks for one will ask for the other. And small: the next node that is asked for
/// lies an instance away, in a large mini-batch a cache miss.
#[derive(Clone, Copy, Debug)]
struct OfNode<W> {
    height: W,
    /// Σ of the row: at least so many batches are needed by what hangs on the node.
    needs: W,
}

/// So many kinds with chains of up to 254 nodes need fewer than 2^16 batches.
const MANY: usize = 256;

/// After so many edges we ask whether a chain is too long.
const AT_ONCE: usize = 1 << 10;

/// The counters of a block of kinds.
#[derive(Clone, Debug, Default)]
struct Rows<C, const L: usize> {
    of_node: Vec<[C; L]>,
    of_kind: Vec<OfKind<C, L>>,
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
        self.nodes.clear();
        self.nodes.resize(frontier.nodes(), OfNode { height: 1, needs: 0 });
        self.wide.clear();
        let kinds = (0..frontier.kinds()).map(Kind::new);
        self.counted.clear();
        self.counted.extend(kinds.clone().filter(|&kind| frontier.has_arguments(kind)));
        self.lay_out_tally(frontier);
        if self.counted.len() > MANY {
            widen(&self.nodes, &mut self.wide);
        }
        let mut done = 0;
        while done < self.counted.len() {
            done += self.count_block(frontier, done);
        }
        self.longest.clear();
        for kind in kinds {
            // A node of one height stands before nodes of all lower heights.
            let tally = &self.tally[self.starts[kind.index()]..][..frontier.total(kind)];
            let longest = tally.iter().take_while(|&&nodes| nodes > 0).count();
            self.longest.push(NodeId::new(longest).0);
        }
    }

    /// Counts a block of kinds, from the first one that is not done, and returns how many they are.
    fn count_block(&mut self, frontier: &Frontier, done: usize) -> usize {
        let kinds = &self.counted[done..];
        let mut tally = Tally { of_height: &mut self.tally, starts: &self.starts };
        if let Some(kinds) = self.short.count(frontier, kinds) {
            if self.wide.is_empty() {
                self.short.add_to(&mut self.nodes, frontier, &mut tally);
            } else {
                self.short.add_to(&mut self.wide, frontier, &mut tally);
            }
            return kinds;
        }
        let kinds = self.long.count(frontier, kinds).expect("a kind has fewer than 2^32 nodes");
        if self.wide.is_empty() {
            widen(&self.nodes, &mut self.wide);
        }
        self.long.add_to(&mut self.wide, frontier, &mut tally);
        kinds
    }

    /// The nodes of kinds without chains have height 1.
    fn lay_out_tally(&mut self, frontier: &Frontier) {
        self.tally.clear();
        self.tally.resize(frontier.nodes(), 0);
        self.starts.clear();
        let mut start = 0;
        for kind in (0..frontier.kinds()).map(Kind::new) {
            self.starts.push(start);
            if !may_chain(frontier, kind) && frontier.total(kind) > 0 {
                self.tally[start] = NodeId::new(frontier.total(kind)).0;
            }
            start += frontier.total(kind);
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

    /// The lower bound on the batches that what hangs on a node needs; 0 if nobody reads it.
    #[must_use]
    pub fn needs(&self, node: NodeId) -> u32 {
        self.of_node(node).needs
    }

    /// A measure of how much hangs on a node: the sixth power of its [needs](Self::needs), so that
    /// the sum over a batch is ruled by the most urgent nodes, and still counts how many they are.
    /// (On mini-batches of 64 two-type trees the powers from the first to the fourth need 1.3 % more
    /// batches, the fifth and the seventh as many; lattices see no difference.)
    #[must_use]
    pub fn urgency(&self, node: NodeId) -> f64 {
        let needs = f64::from(self.needs(node));
        let cube = needs * needs * needs;
        cube * cube
    }

    fn of_node(&self, node: NodeId) -> OfNode<u32> {
        self.wide.get(node.index()).copied().unwrap_or_else(|| self.nodes[node.index()].into())
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

impl From<OfNode<u16>> for OfNode<u32> {
    fn from(OfNode { height, needs }: OfNode<u16>) -> Self {
        Self { height: height.into(), needs: needs.into() }
    }
}

/// From here on chains may be long.
#[cold]
fn widen(nodes: &[OfNode<u16>], wide: &mut Vec<OfNode<u32>>) {
    wide.extend(nodes.iter().map(|&node| OfNode::from(node)));
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
    fn plus(self, other: Self) -> Self;
}

impl Counter for u8 {
    const ZERO: Self = 0;
    const ONE: Self = 1;
    const MOST: Self = Self::MAX;
    fn plus(self, other: Self) -> Self {
        self.saturating_add(other)
    }
}

impl Counter for u32 {
    const ZERO: Self = 0;
    const ONE: Self = 1;
    const MOST: Self = Self::MAX;
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

impl<C: Counter, const L: usize> Rows<C, L> {
    /// Counts the first kinds of `kinds`, and returns how many these are; nothing if a chain is too
    /// long for a counter.
    fn count(&mut self, frontier: &Frontier, kinds: &[Kind]) -> Option<usize> {
        let kinds = &kinds[..kinds.len().min(L)];
        self.of_kind.clear();
        self.of_kind.resize(frontier.kinds(), OfKind::NONE);
        for (column, &kind) in kinds.iter().enumerate() {
            let mut one_more = [C::ZERO; L];
            one_more[column] = C::ONE;
            let may_chain = may_chain(frontier, kind);
            self.of_kind[kind.index()] = OfKind { one_more, column, may_chain };
        }
        self.of_node.clear();
        self.of_node.resize(frontier.nodes(), [C::ZERO; L]);
        let mut edges = frontier.edges().rev();
        while edges.len() > 0 {
            if self.pass_on(frontier, edges.by_ref().take(AT_ONCE)).contains(&C::MOST) {
                return None;
            }
        }
        Some(kinds.len())
    }

    /// Heights of the nodes of the counted kinds, and what these kinds add to the needs of all.
    fn add_to<W: Copy + Into<u32> + TryFrom<u32>>(
        &self,
        nodes: &mut [OfNode<W>],
        frontier: &Frontier,
        tally: &mut Tally<'_>,
    ) {
        let fit = |number| W::try_from(number).ok().expect("what may be more is wide");
        for (index, (row, node)) in self.of_node.iter().zip(nodes).enumerate() {
            let needs: u32 = row.iter().map(|&count| count.into()).sum();
            node.needs = fit(node.needs.into() + needs);
            let kind = frontier.kind(NodeId::new(index)).index();
            let OfKind { column, may_chain, .. } = self.of_kind[kind];
            if may_chain {
                let behind: u32 = row[column].into();
                node.height = fit(1 + behind);
                tally.of_height[tally.starts[kind] + behind as usize] += 1;
            }
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
            let mut through = self.of_node[user.index()];
            let one_more = self.of_kind[frontier.kind(user).index()].one_more;
            for (count, one_more) in through.iter_mut().zip(one_more) {
                *count = count.plus(one_more);
            }
            for (most, count) in most_of_all.iter_mut().zip(through) {
                *most = count.max(*most);
            }
            for (most, count) in self.of_node[argument.index()].iter_mut().zip(through) {
                *most = count.max(*most);
            }
        }
        most_of_all
    }
}
