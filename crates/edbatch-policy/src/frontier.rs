//! The ready nodes of a graph, kind by kind, kept up to date as batches run.
//!
//! *Source*: `Frontier(G)` and `Frontier_a(G)`, §2 and Alg. 1 of the paper.
//!
//! Every kind owns a stretch of one queue, as long as the kind has nodes. A node is appended to
//! its kind's stretch when its last argument has run, so a stretch reads: what ran, what is ready,
//! room for the rest. Nothing is ever removed; a policy that keeps statistics remembers how far it
//! has read and catches up when it is asked (see [`Critical`](crate::Critical)).
//!
//! *Cost*: O(nodes + edges) to build and as much over a whole run, whatever the number of batches.
//! A frontier that is [`reset`](Frontier::reset) for the next mini-batch reuses its memory:
//! once it has seen the largest graph it allocates nothing.

use edbatch_graph::{Dag, Kind, NodeId};

/// What a policy sees: which nodes are ready, which ran, and who reads whom.
#[derive(Clone, Debug, Default)]
pub struct Frontier {
    kinds: Vec<Kind>,
    /// Users of node `v`: `users[first_user[v]..first_user[v + 1]]`, ascending.
    first_user: Vec<u32>,
    users: Vec<NodeId>,
    /// Per node, how many of its arguments it waits for at the start, and now.
    arguments: Vec<u32>,
    pending: Vec<u32>,
    queue: Vec<NodeId>,
    stretches: Vec<Stretch>,
    /// Bit `k` of the whole: kind `k` has a ready node.
    ready: Vec<u64>,
    remaining: usize,
    /// The arguments of all nodes, one after the other.
    edges: Vec<NodeId>,
    /// For how many nodes each stands; empty when each stands for itself.
    weights: Vec<u32>,
    /// Per kind, Σ weight of the ready nodes; kept only if there are weights.
    ready_weights: Vec<usize>,
}

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
        self.link_users();
        self.lay_out_queue();
        self.rewind();
    }

    /// The frontier of a graph whose nodes stand for several each.
    pub(crate) fn weighted(dag: &impl Dag, weights: Vec<u32>) -> Self {
        let mut frontier = Self::new(dag);
        frontier.weights = weights;
        frontier.rewind();
        frontier
    }

    /// Back to the state in which nothing has run, without looking at the graph again.
    pub fn rewind(&mut self) {
        self.pending.clone_from(&self.arguments);
        self.remaining = self.kinds.len();
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
        self.kinds.len()
    }

    /// Number of kinds that may occur.
    #[must_use]
    pub fn kinds(&self) -> usize {
        self.stretches.len()
    }

    /// The kind of a node.
    #[must_use]
    pub fn kind(&self, node: NodeId) -> Kind {
        self.kinds[node.index()]
    }

    /// The nodes that read a node, ascending; one that reads it twice occurs twice.
    #[must_use]
    pub fn users(&self, node: NodeId) -> &[NodeId] {
        let (first, end) = (self.first_user[node.index()], self.first_user[node.index() + 1]);
        &self.users[first as usize..end as usize]
    }

    /// The nodes in ascending order, each with its arguments.
    pub(crate) fn arguments(&self) -> impl Iterator<Item = (NodeId, &[NodeId])> + '_ {
        let mut edges = self.edges.as_slice();
        self.arguments.iter().enumerate().map(move |(node, &count)| {
            let (arguments, rest) = edges.split_at(count as usize);
            edges = rest;
            (NodeId::new(node), arguments)
        })
    }

    /// For how many nodes of the original graph a node stands: 1, except in a
    /// [`quotient`](crate::quotient).
    #[must_use]
    pub fn weight(&self, node: NodeId) -> u32 {
        self.weights.get(node.index()).copied().unwrap_or(1)
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
        self.ready.iter().enumerate().flat_map(|(word, &bits)| {
            let rest = |bits: &u64| Some(bits & (bits - 1)).filter(|&bits| bits != 0);
            std::iter::successors(Some(bits).filter(|&bits| bits != 0), rest)
                .map(move |bits| Kind::new(word * 64 + bits.trailing_zeros() as usize))
        })
    }

    /// How many nodes ran, by weight.
    #[must_use]
    pub fn nodes_ran(&self) -> usize {
        if self.weights.is_empty() {
            return self.nodes() - self.remaining;
        }
        let kinds = (0..self.kinds()).map(Kind::new);
        kinds.map(|kind| self.weight_of(self.ran(kind))).sum()
    }

    /// Number of nodes of the original graph.
    #[must_use]
    pub fn weight_of_all(&self) -> usize {
        if self.weights.is_empty() {
            return self.nodes();
        }
        self.weights.iter().map(|&weight| weight as usize).sum()
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
        stretch.front += NodeId::new(count).0;
        if stretch.front == stretch.back {
            self.ready[kind.index() / 64] &= !(1 << (kind.index() % 64));
        }
        self.remaining -= count;
        if let Some(ready) = self.ready_weights.get_mut(kind.index()) {
            let weight = |node: &NodeId| self.weights[node.index()] as usize;
            *ready -= self.queue[batch.clone()].iter().map(weight).sum::<usize>();
        }
        for index in batch.clone() {
            let node = self.queue[index].index();
            let users = self.first_user[node] as usize..self.first_user[node + 1] as usize;
            for &user in &self.users[users] {
                let pending = &mut self.pending[user.index()];
                *pending -= 1;
                if *pending == 0 {
                    let kind = self.kinds[user.index()].index();
                    let back = &mut self.stretches[kind].back;
                    self.queue[*back as usize] = user;
                    *back += 1;
                    self.ready[kind / 64] |= 1 << (kind % 64);
                    if let Some(ready) = self.ready_weights.get_mut(kind) {
                        *ready += self.weights[user.index()] as usize;
                    }
                }
            }
        }
        &self.queue[batch]
    }

    /// Copies kinds and arguments; counts, in `first_user[a]`, the users of each node `a`.
    fn read(&mut self, dag: &impl Dag) {
        self.kinds.clear();
        self.arguments.clear();
        self.edges.clear();
        self.first_user.clear();
        self.first_user.resize(dag.nodes() + 1, 0);
        for node in (0..dag.nodes()).map(NodeId::new) {
            let before = self.edges.len();
            for argument in dag.arguments(node) {
                self.first_user[argument.index()] += 1;
                self.edges.push(argument);
            }
            self.kinds.push(dag.kind(node));
            self.arguments.push(NodeId::new(self.edges.len() - before).0);
        }
        self.stretches.clear();
        self.stretches.resize(dag.kinds(), Stretch::default());
        self.ready.clear();
        self.ready.resize(dag.kinds().div_ceil(64), 0);
    }

    /// Counting sort of the edges by argument. The counts become ends, and going through the edges
    /// backwards each end walks down to its start.
    fn link_users(&mut self) {
        let mut end = 0;
        for count in &mut self.first_user {
            end += *count;
            *count = end;
        }
        self.users.clear();
        self.users.resize(self.edges.len(), NodeId(0));
        let mut edges = self.edges.as_slice();
        for (node, &count) in self.arguments.iter().enumerate().rev() {
            let (rest, arguments) = edges.split_at(edges.len() - count as usize);
            edges = rest;
            for argument in arguments.iter().rev() {
                let slot = &mut self.first_user[argument.index()];
                *slot -= 1;
                self.users[*slot as usize] = NodeId::new(node);
            }
        }
    }

    /// Gives each kind its stretch, beginning with the kind's sources.
    fn lay_out_queue(&mut self) {
        for kind in &self.kinds {
            self.stretches[kind.index()].end += 1;
        }
        let mut start = 0;
        for stretch in &mut self.stretches {
            stretch.start = start;
            start += stretch.end;
            stretch.end = start;
        }
        self.queue.resize(self.kinds.len(), NodeId(0));
        for (node, &arguments) in self.arguments.iter().enumerate() {
            if arguments == 0 {
                let stretch = &mut self.stretches[self.kinds[node].index()];
                self.queue[(stretch.start + stretch.sources) as usize] = NodeId::new(node);
                stretch.sources += 1;
            }
        }
    }
}
