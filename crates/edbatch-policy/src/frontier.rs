//! The ready nodes of a graph, by kind, updated as batches run.
//!
//! *Source*: `Frontier(G)` and `Frontier_a(G)`, §2 and Alg. 1 of the paper.
//!
//! Each kind owns a segment of one queue, with a place for each of its nodes. A node is appended to
//! the segment when its last argument has run. So a segment holds the completed nodes, then the
//! ready nodes, then free places. Nodes are never removed: a policy with counters remembers how far
//! it has read, and updates the counters when it is called (see [`Critical`](crate::Critical)).
//!
//! *Cost*: O(nodes + edges) to build, and the same over a whole run, whatever the number of
//! batches. [`reset`](Frontier::reset) reuses the memory for the next mini-batch. It allocates
//! nothing once the frontier has been used with the largest graph.

mod advance;
mod build;
mod edges;

use edbatch_graph::{Dag, Kind, NodeId, check_dag};

use edges::Edges;

/// The state of a run: the ready nodes, the completed nodes, and the edges of the graph.
#[derive(Clone, Debug, Default)]
pub struct Frontier {
    /// The nodes, followed by a sentinel that marks the end of the last node's users.
    nodes: Vec<Node>,
    /// The users of each node, ascending: from its `first_user` to the `first_user` of the next
    /// node. The rest of the list is spare.
    users: Vec<NodeId>,
    /// Space for the users of a few nodes of a batch, copied side by side.
    gathered: Vec<NodeId>,
    queue: Vec<NodeId>,
    segments: Vec<Segment>,
    /// A bit set of the kinds that have a ready node.
    ready: Vec<u64>,
    remaining: usize,
    /// Nodes with very many arguments: the number of arguments not counted in `pending`.
    overflow: Vec<(NodeId, u32)>,
    edges: Edges,
    /// The first `source_count` are the nodes without arguments, ascending; the rest is spare.
    sources: Vec<NodeId>,
    source_count: usize,
    /// The weights of the nodes; empty if all are 1.
    weights: Vec<u32>,
    /// The sum of the weights of the ready nodes, by kind. Empty if there are no weights.
    ready_weights: Vec<usize>,
    /// The sums of the weights of all nodes and of the completed nodes, if there are weights.
    weight_of_all: usize,
    weight_ran: usize,
}

/// The data of a node that a run accesses. The nodes of a batch are in different instances: in a
/// large mini-batch each access touches another cache line, so the data is kept small.
#[derive(Clone, Copy, Debug)]
struct Node {
    first_user: u32,
    /// The number of arguments that have not run, up to `MAX_PENDING`. More are counted in
    /// [`overflow`](Frontier::overflow).
    pending: u16,
    kind: Kind,
}

const NO_NODE: Node = Node { first_user: 0, pending: 0, kind: Kind(0) };

/// The number of arguments or users that are copied at once, even if a node has fewer.
const COPIED_AT_ONCE: usize = 4;

const MAX_PENDING: usize = u16::MAX as usize;

/// The segment of a kind in the queue, as indices: `start ≤ front ≤ back ≤ end`.
#[derive(Clone, Copy, Debug, Default)]
struct Segment {
    start: u32,
    /// The end of the completed nodes, and the start of the ready nodes.
    front: u32,
    back: u32,
    end: u32,
    /// The number of nodes without arguments; the segment begins with them.
    sources: u32,
    /// True if a node of the kind has a user.
    is_read: bool,
}

/// Checks in debug builds that a graph is valid, as [`Dag`] requires.
pub(crate) fn debug_check(dag: &impl Dag) {
    if cfg!(debug_assertions)
        && let Err(error) = check_dag(dag)
    {
        panic!("invalid graph: {error}");
    }
}

impl Frontier {
    /// Creates the frontier of a graph before its first batch.
    ///
    /// # Panics
    /// See [`reset`](Self::reset).
    #[must_use]
    pub fn new(dag: &impl Dag) -> Self {
        let mut frontier = Self::default();
        frontier.reset(dag);
        frontier
    }

    /// Starts with another graph. Memory is reused.
    ///
    /// # Panics
    /// If a kind is not less than `kinds()` or an argument does not precede its reader, as
    /// [`check_dag`] tests. Debug builds test it here; in release builds a policy may instead make
    /// an invalid schedule.
    pub fn reset(&mut self, dag: &impl Dag) {
        debug_check(dag);
        self.weights.clear();
        self.ready_weights.clear();
        self.read(dag);
        self.lay_out_queue();
        self.link_users();
        self.open();
    }

    /// Creates the frontier of a graph whose nodes have weights.
    pub(crate) fn weighted(dag: &impl Dag, weights: Vec<u32>) -> Self {
        let mut frontier = Self::new(dag);
        frontier.weight_of_all = weights.iter().map(|&weight| weight as usize).sum();
        frontier.weights = weights;
        frontier.rewind();
        frontier
    }

    /// Returns to the state before the first batch, without reading the graph again.
    pub fn rewind(&mut self) {
        self.overflow.clear();
        for edges in self.edges.users[..self.edges.count].chunk_by(|a, b| a == b) {
            let user = edges[0];
            self.nodes[user.index()].pending = pending(user, edges.len(), &mut self.overflow);
        }
        self.open();
    }

    /// Makes the nodes without arguments ready, and no others.
    fn open(&mut self) {
        self.remaining = self.nodes();
        self.weight_ran = 0;
        self.ready.fill(0);
        for (kind, segment) in self.segments.iter_mut().enumerate() {
            segment.front = segment.start;
            segment.back = segment.start + segment.sources;
            if segment.sources > 0 {
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
        self.segments.len()
    }

    /// The kind of a node.
    #[must_use]
    pub fn kind(&self, node: NodeId) -> Kind {
        self.nodes[node.index()].kind
    }

    /// The nodes that read a node, ascending. A node that reads it twice occurs twice.
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

    /// Calls `each` with the node and the kind of each user of `ready` nodes that waits for one
    /// argument only. (A user that reads its last argument twice waits for two.)
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

    /// Returns true if a node waits for more arguments than `pending` says.
    #[cold]
    fn overflows(&self, node: NodeId) -> bool {
        let found = self.overflow.binary_search_by_key(&node, |&(id, _)| id);
        found.is_ok_and(|found| self.overflow[found].1 > 0)
    }

    /// All pairs of an argument and its user, ascending by user.
    pub(crate) fn edges(
        &self,
    ) -> impl DoubleEndedIterator<Item = (NodeId, NodeId)> + ExactSizeIterator + Clone + '_ {
        self.edges.iter()
    }

    /// Returns true if a node of this kind has an argument.
    pub(crate) fn has_arguments(&self, kind: Kind) -> bool {
        let Segment { start, end, sources, .. } = self.segments[kind.index()];
        end - start > sources
    }

    /// The weight of a node: the number of nodes that it represents. It is 1 except in a
    /// [`quotient`](crate::quotient).
    #[must_use]
    pub fn weight(&self, node: NodeId) -> u32 {
        self.weights.get(node.index()).copied().unwrap_or(1)
    }

    /// Returns true if nodes have weights.
    pub(crate) fn has_weights(&self) -> bool {
        !self.weights.is_empty()
    }

    /// The sum of the [weights](Self::weight) of some nodes.
    #[must_use]
    pub fn weight_of(&self, nodes: &[NodeId]) -> usize {
        if self.weights.is_empty() {
            return nodes.len();
        }
        nodes.iter().map(|&node| self.weight(node) as usize).sum()
    }

    /// The number of ready nodes of a kind, each counted by its [weight](Self::weight).
    #[must_use]
    pub fn ready_count(&self, kind: Kind) -> usize {
        if self.weights.is_empty() {
            return self.ready(kind).len();
        }
        self.ready_weights[kind.index()]
    }

    /// Returns true if a node of this kind has a user.
    pub(crate) fn is_read(&self, kind: Kind) -> bool {
        self.segments[kind.index()].is_read
    }

    /// Number of nodes of a kind in the whole graph.
    #[must_use]
    pub fn total(&self, kind: Kind) -> usize {
        let segment = self.segments[kind.index()];
        (segment.end - segment.start) as usize
    }

    /// The ready nodes of a kind, in the order in which they became ready.
    #[must_use]
    pub fn ready(&self, kind: Kind) -> &[NodeId] {
        let segment = self.segments[kind.index()];
        &self.queue[segment.front as usize..segment.back as usize]
    }

    /// The completed nodes of a kind, in the order in which they ran.
    #[must_use]
    pub fn ran(&self, kind: Kind) -> &[NodeId] {
        let segment = self.segments[kind.index()];
        &self.queue[segment.start as usize..segment.front as usize]
    }

    /// The completed nodes of a kind, followed by the ready nodes. The list only grows.
    #[must_use]
    pub fn reached(&self, kind: Kind) -> &[NodeId] {
        let segment = self.segments[kind.index()];
        &self.queue[segment.start as usize..segment.back as usize]
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

    /// The number of completed nodes, each counted by its [weight](Self::weight).
    #[must_use]
    pub fn nodes_ran(&self) -> usize {
        if self.weights.is_empty() {
            return self.nodes() - self.remaining;
        }
        self.weight_ran
    }

    /// The sum of the weights of all nodes.
    #[must_use]
    pub fn weight_of_all(&self) -> usize {
        if self.weights.is_empty() {
            return self.nodes();
        }
        self.weight_of_all
    }

    /// Returns true if all nodes have run.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.remaining == 0
    }

    /// Runs the first `count` ready nodes of a kind and returns them.
    ///
    /// # Panics
    /// If fewer than `count` nodes are ready.
    pub fn run(&mut self, kind: Kind, count: usize) -> &[NodeId] {
        let segment = &mut self.segments[kind.index()];
        let ready = (segment.back - segment.front) as usize;
        assert!(count <= ready, "{count} nodes to run, but only {ready} are ready");
        let batch = segment.front as usize..segment.front as usize + count;
        let is_read = segment.is_read;
        segment.front += NodeId::new(count).0;
        if segment.front == segment.back {
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

/// Returns the initial value of `pending` for a node. Adds the number of arguments beyond
/// `MAX_PENDING` to `overflow`. Must be called in ascending order of nodes.
#[inline]
fn pending(node: NodeId, arguments: usize, overflow: &mut Vec<(NodeId, u32)>) -> u16 {
    if arguments > MAX_PENDING {
        overflow.push((node, NodeId::new(arguments - MAX_PENDING).0));
    }
    arguments.min(MAX_PENDING) as u16
}
