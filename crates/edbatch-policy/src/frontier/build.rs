//! Building a frontier from a graph, in three passes.
//!
//! The number of arguments or users of a node is hard to predict, and a branch misprediction costs
//! more than copying them. So only the first pass, which reads the graph, runs node by node, and it
//! always copies a fixed number of arguments.

use edbatch_graph::{Dag, NodeId};

use super::{COPIED_AT_ONCE, Frontier, NO_NODE, Node, Segment, pending};

impl Frontier {
    /// Copies kinds and arguments, and collects the sources. Counts the users of each node in
    /// `first_user`, and the nodes of each kind in `end`.
    pub(super) fn read(&mut self, dag: &impl Dag) {
        self.segments.clear();
        self.segments.resize(dag.kinds(), Segment::default());
        self.ready.clear();
        self.ready.resize(dag.kinds().div_ceil(64), 0);
        self.queue.resize(dag.nodes(), NodeId(0));
        self.sources.resize(dag.nodes(), NodeId(0));
        self.nodes.resize(dag.nodes() + 1, NO_NODE);
        self.overflow.clear();
        // Slices, because the compiler reloads the pointer of a `Vec` after each write that might
        // alias it.
        let (nodes, sources) = (self.nodes.as_mut_slice(), self.sources.as_mut_slice());
        let segments = self.segments.as_mut_slice();
        let (mut arguments, mut users) = self.edges.split();
        let (mut edge_count, mut source_count) = (0, 0);
        for user in (0..NodeId::new(dag.nodes()).0).map(NodeId) {
            let place = edge_count..edge_count + COPIED_AT_ONCE;
            if users.len() < place.end {
                (arguments, users) = self.edges.grow();
            }
            let count = match dag.arguments(user).into_array() {
                Ok((few, count)) => {
                    // No branch: the next node overwrites the unused entries.
                    arguments[place.clone()].copy_from_slice(&few);
                    users[place].fill(user);
                    count
                }
                Err(many) => {
                    let count;
                    (arguments, users, count) = self.edges.put(edge_count, many, user);
                    count
                }
            };
            edge_count += count;
            let (pending, kind) = (pending(user, count, &mut self.overflow), dag.kind(user));
            nodes[user.index()] = Node { first_user: 0, pending, kind };
            segments[kind.index()].end += 1;
            // No branch here either: the next source overwrites a node with arguments.
            sources[source_count] = user;
            source_count += usize::from(count == 0);
        }
        for argument in &arguments[..edge_count] {
            nodes[argument.index()].first_user += 1;
        }
        (self.edges.count, self.source_count) = (edge_count, source_count);
    }

    /// Assigns a segment to each kind, and writes the kind's sources to its start.
    pub(super) fn lay_out_queue(&mut self) {
        let mut start = 0;
        for segment in &mut self.segments {
            segment.start = start;
            start += segment.end;
            segment.end = start;
        }
        for &source in &self.sources[..self.source_count] {
            let segment = &mut self.segments[self.nodes[source.index()].kind.index()];
            self.queue[(segment.start + segment.sources) as usize] = source;
            segment.sources += 1;
        }
    }

    /// Sorts the edges by argument, with a counting sort. A prefix sum first turns the counts into
    /// the end of each range. A reverse pass over the edges then decrements each end to its start.
    pub(super) fn link_users(&mut self) {
        let mut end = 0;
        let (last, nodes) = self.nodes.split_last_mut().expect("there is a sentinel");
        for node in nodes {
            end += node.first_user;
            node.first_user = end;
        }
        last.first_user = end;
        self.users.resize(self.edges.count + COPIED_AT_ONCE, NodeId(0));
        self.gathered.resize(self.users.len().max(self.gathered.len()), NodeId(0));
        for (argument, user) in self.edges.iter().rev() {
            let node = &mut self.nodes[argument.index()];
            node.first_user -= 1;
            self.users[node.first_user as usize] = user;
            self.segments[node.kind.index()].is_read = true;
        }
    }
}
