//! The ready nodes of a graph, kind by kind, kept up to date as batches run.
//!
//! *Source*: `Frontier(G)` and `Frontier_a(G)`, §2 and Alg. 1 of the paper.
//!
//! Every kind owns a stretch of one queue, as long as the kind has nodes. A node is appended to its
//! kind's stretch when its last argument has run, so a stretch holds what ran, what is ready, and
//! free places for the rest. Nothing is ever removed; a policy that keeps statistics remembers how
//! far it has read and catches up when it is asked (see [`Critical`](crate::Critical)).
//!
//! *Cost*: O(nodes + edges) to build and as much over a whole run, whatever the number of batches.
//! A frontier that is [`reset`](Frontier::reset) for the next mini-batch reuses its memory:
//! once it has seen the largest graph it allocates nothing.

mod advance;
mod build;
mod edges;

use edbatch_graph::{Dag, Kind, NodeId};

use edges::Edges;

/// What a policy sees: which nodes are ready, which ran, and which node reads which.
#[derive(Clone, Debug, Default)]
pub struct Frontier {
    /// The nodes, and after them one that says where the last one's users end.
    nodes: Vec<Node>,
    /// Users of node `v`: from its first to the first of node `v + 1`, ascending. What follows is
    /// spare.
    users: Vec<NodeId>,
    /// The users of a few nodes that run; the rest is spare.
    gathered: Vec<NodeId>,
    queue: Vec<NodeId>,
    stretches: Vec<Stretch>,
    /// Bit `k` of the whole: kind `k` has a ready node.
    ready: Vec<u64>,
    remaining: usize,
    /// By node, how many arguments it waits for beside those pending; of nodes with very many.
    overflow: Vec<(NodeId, u32)>,
    edges: Edges,
    /// The first `source_count` are the nodes without arguments, ascending; the rest is spare.
    sources: Vec<NodeId>,
    source_count: usize,
    /// For how many nodes each stands; empty when each stands for itself.
    weights: Vec<u32>,
    /// Per kind, Σ weight of the ready nodes; kept only if there are weights.
    ready_weights: Vec<usize>,
    /// Σ weight of all nodes, and of those that ran; likewise.
    weight_of_all: usize,
    weight_ran: usize,
}

/// All that a run touches of a node. The next node of a batch lies an instance away: in a large
/// mini-batch that is a cache line a node, and the more nodes share one, the longer it stays.
#[derive(Clone, Copy, Debug)]
struct Node {
    first_user: u32,
    /// For how many arguments it waits, up to `MOST`; those above [overflow](Frontier::overflow).
    pending: u16,
    kind: Kind,
}

const NO_NODE: Node = Node { first_user: 0, pending: 0, kind: Kind(0) };

/// So many arguments or users are copied at once, whether they are a node's or the next one's.
const FEW: usize = 4;

const MOST: usize = u16::MAX as usize;

/// A kind's part of the queue, as indices: `start ≤ front ≤ back ≤ end`.
#[derive(Clone, Copy, Debug, Default)]
struct Stretch {
    start: u32,
    /// Where the nodes that ran end and the ready ones begin.
    front: u32,
    back: u32,
    end: u32,
    /// How many nodes of the kind have no argument; the stretch begins with them.
    sources: u32,
    /// Whether any node of the kind has a user.
    is_read: bool,
}

impl Frontier {
    /// The frontier of a graph of which nothing has run.
    #[must_use]
    pub fn new(dag: &impl Dag) -> Self {
        let mut frontier = Self::default();
        frontier.reset(dag);
        frontier
    }

    /// Turns to another graph and keeps the memory.
    pub fn reset(&mut self, dag: &impl Dag) {
        self.weights.clear();
        self.ready_weights.clear();
        self.read(dag);
        self.lay_out_queue();
        self.link_users();
        self.open();
    }

    /// The frontier of a graph whose nodes stand for several each.
    pub(crate) fn weighted(dag: &impl Dag, weights: Vec<u32>) -> Self {
        let mut frontier = Self::new(dag);
        frontier.weight_of_all = weights.iter().map(|&weight| weight as usize).sum();
        frontier.weights = weights;
        frontier.rewind();
        frontier
    }

    /// Back to the state in which nothing has run, without looking at the graph again.
    pub fn rewind(&mut self) {
        self.overflow.clear();
        for edges in self.edges.users[..self.edges.count].chunk_by(|a, b| a == b) {
            let user = edges[0];
            self.nodes[user.index()].pending = pending(user, edges.len(), &mut self.overflow);
        }
        self.open();
    }

    /// Makes the sources ready, and nothing else.
    fn open(&mut self) {
        self.remaining = self.nodes();
        self.weight_ran = 0;
        self.ready.fill(0);
        for (kind, stretch) in self.stretches.iter_mut().enumerate() {
            stretch.front = stretch.start;
            stretch.back = stretch.start + stretch.sources;
            if stretch.sources > 0 {
                self.ready[kind / 64] |= 1 << (kind % 64);
            }
        }
        if !self.weights.is_empty() {
            let ready = (0..self.kinds()).map(|kind| self.ready(Kind::new(kind)));
            self.ready_weights = ready.map(|ready| self.weight_of(ready)).collect();
        }
    }

    /// Number of nodes of the graph.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.queue.len()
    }

    /// Number of kinds that may occur.
    #[must_use]
    pub fn kinds(&self) -> usize {
        self.stretches.len()
    }

    /// The kind of a node.
    #[must_use]
    pub fn kind(&self, node: NodeId) -> Kind {
        self.nodes[node.index()].kind
    }

    /// The nodes that read a node, ascending; one that reads it twice occurs twice.
    #[must_use]
    pub fn users(&self, node: NodeId) -> &[NodeId] {
        &self.users[advance::users_at(&self.nodes, node)]
    }

    /// The nodes in ascending order, each with its arguments.
    pub(crate) fn arguments(
        &self,
    ) -> impl Iterator<Item = (NodeId, impl ExactSizeIterator<Item = NodeId> + '_)> + '_ {
        let mut users = &self.edges.users[..self.edges.count];
        let mut rest = self.edges.arguments.as_slice();
        (0..self.nodes()).map(NodeId::new).map(move |node| {
            let count = users.iter().take_while(|&&user| user == node).count();
            users = &users[count..];
            let arguments;
            (arguments, rest) = rest.split_at(count);
            (node, arguments.iter().copied())
        })
    }

    /// Calls `each` for the users of some ready nodes that wait for these alone, with their kinds.
    /// (A user that reads its last argument twice waits for two.)
    #[inline]
    pub(crate) fn for_each_released<'a>(
        &self,
        ready: impl Iterator<Item = &'a NodeId>,
        mut each: impl FnMut(NodeId, Kind),
    ) {
        let (nodes, users) = (self.nodes.as_slice(), self.users.as_slice());
        let none_overflows = self.overflow.is_empty();
        for &node in ready {
            for &user in &users[advance::users_at(nodes, node)] {
                let Node { pending, kind, .. } = nodes[user.index()];
                if pending == 1 && (none_overflows || !self.overflows(user)) {
                    each(user, kind);
                }
            }
        }
    }

    /// Whether a node waits for more arguments than those pending.
    #[cold]
    fn overflows(&self, node: NodeId) -> bool {
        let found = self.overflow.binary_search_by_key(&node, |&(id, _)| id);
        found.is_ok_and(|found| self.overflow[found].1 > 0)
    }

    /// All pairs of an argument and a user, by user, ascending.
    pub(crate) fn edges(
        &self,
    ) -> impl DoubleEndedIterator<Item = (NodeId, NodeId)> + ExactSizeIterator + Clone + '_ {
        self.edges.iter()
    }

    /// Whether any node of a kind has an argument.
    pub(crate) fn has_arguments(&self, kind: Kind) -> bool {
        let Stretch { start, end, sources, .. } = self.stretches[kind.index()];
        end - start > sources
    }

    /// For how many nodes of the original graph a node stands: 1, except in a
    /// [`quotient`](crate::quotient).
    #[must_use]
    pub fn weight(&self, node: NodeId) -> u32 {
        self.weights.get(node.index()).copied().unwrap_or(1)
    }

    /// Whether any node stands for several.
    pub(crate) fn has_weights(&self) -> bool {
        !self.weights.is_empty()
    }

    /// Σ [`weight`](Self::weight): how many nodes of the original graph these are.
    #[must_use]
    pub fn weight_of(&self, nodes: &[NodeId]) -> usize {
        if self.weights.is_empty() {
            return nodes.len();
        }
        nodes.iter().map(|&node| self.weight(node) as usize).sum()
    }

    /// How many nodes of a kind are ready, by weight.
    #[must_use]
    pub fn ready_count(&self, kind: Kind) -> usize {
        if self.weights.is_empty() {
            return self.ready(kind).len();
        }
        self.ready_weights[kind.index()]
    }

    /// Whether any node of a kind has a user.
    pub(crate) fn is_read(&self, kind: Kind) -> bool {
        self.stretches[kind.index()].is_read
    }

    /// Number of nodes of a kind in the whole graph, whether they ran or not.
    #[must_use]
    pub fn total(&self, kind: Kind) -> usize {
        let stretch = self.stretches[kind.index()];
        (stretch.end - stretch.start) as usize
    }

    /// The ready nodes of a kind, in the order in which they became ready.
    #[must_use]
    pub fn ready(&self, kind: Kind) -> &[NodeId] {
        let stretch = self.stretches[kind.index()];
        &self.queue[stretch.front as usize..stretch.back as usize]
    }

    /// The nodes of a kind that ran, in the order in which they did.
    #[must_use]
    pub fn ran(&self, kind: Kind) -> &[NodeId] {
        let stretch = self.stretches[kind.index()];
        &self.queue[stretch.start as usize..stretch.front as usize]
    }

    /// The nodes of a kind that ran, and after them the ready ones: it only ever grows.
    #[must_use]
    pub fn reached(&self, kind: Kind) -> &[NodeId] {
        let stretch = self.stretches[kind.index()];
        &self.queue[stretch.start as usize..stretch.back as usize]
    }

    /// The kinds that have a ready node, ascending.
    pub fn ready_kinds(&self) -> impl Iterator<Item = Kind> + '_ {
        let mut words = (0..).step_by(64).zip(self.ready.iter().copied());
        let (mut base, mut bits) = (0, 0);
        std::iter::from_fn(move || {
            while bits == 0 {
                (base, bits) = words.next()?;
            }
            let kind = Kind::new(base + bits.trailing_zeros() as usize);
            bits &= bits - 1;
            Some(kind)
        })
    }

    /// How many nodes ran, by weight.
    #[must_use]
    pub fn nodes_ran(&self) -> usize {
        if self.weights.is_empty() {
            return self.nodes() - self.remaining;
        }
        self.weight_ran
    }

    /// Number of nodes of the original graph.
    #[must_use]
    pub fn weight_of_all(&self) -> usize {
        if self.weights.is_empty() {
            return self.nodes();
        }
        self.weight_of_all
    }

    /// Whether every node ran.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.remaining == 0
    }

    /// Runs the first `count` ready nodes of a kind and returns them.
    ///
    /// # Panics
    /// If fewer are ready.
    pub fn run(&mut self, kind: Kind, count: usize) -> &[NodeId] {
        let stretch = &mut self.stretches[kind.index()];
        assert!(count <= (stretch.back - stretch.front) as usize);
        let batch = stretch.front as usize..stretch.front as usize + count;
        let is_read = stretch.is_read;
        stretch.front += NodeId::new(count).0;
        if stretch.front == stretch.back {
            self.ready[kind.index() / 64] &= !(1 << (kind.index() % 64));
        }
        self.remaining -= count;
        if let Some(ready) = self.ready_weights.get_mut(kind.index()) {
            let weight = |node: &NodeId| self.weights[node.index()] as usize;
            let weights = self.queue[batch.clone()].iter().map(weight).sum::<usize>();
            *ready -= weights;
            self.weight_ran += weights;
        }
        if is_read && count == 1 {
            self.advance_users_of(self.queue[batch.start]);
        } else if is_read {
            self.advance_users(batch.clone());
        }
        &self.queue[batch]
    }
}

/// For how many arguments a node waits in its 16 bits; the others overflow. Nodes come in ascending
/// order.
#[inline]
fn pending(node: NodeId, arguments: usize, overflow: &mut Vec<(NodeId, u32)>) -> u16 {
    if arguments > MOST {
        overflow.push((node, NodeId::new(arguments - MOST).0));
    }
    arguments.min(MOST) as u16
}
