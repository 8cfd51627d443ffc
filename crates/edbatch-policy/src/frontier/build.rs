//! From a graph to its frontier: three passes in flat loops.
//!
//! How many arguments or users a node has is hard to predict, and a branch misprediction costs more
//! than copying them: only the first pass, which asks the graph, goes node by node, and it copies a
//! few arguments whether the node has as many or not.

use edbatch_graph::{Dag, NodeId};

use super::{FEW, Frontier, NO_NODE, Node, Stretch, pending};

impl Frontier {
    /// Copies kinds and arguments, notes the sources, and counts: the users of a node in
    /// `first_user`, the nodes of a kind in `end`.
    pub(super) fn read(&mut self, dag: &impl Dag) {
        self.stretches.clear();
        self.stretches.resize(dag.kinds(), Stretch::default());
        self.ready.clear();
        self.ready.resize(dag.kinds().div_ceil(64), 0);
        self.queue.resize(dag.nodes(), NodeId(0));
        self.sources.resize(dag.nodes(), NodeId(0));
        self.nodes.resize(dag.nodes() + 1, NO_NODE);
        self.overflow.clear();
        // As slices: a write might alias a Vec's pointer, which is then reloaded each time.
        let (nodes, sources) = (self.nodes.as_mut_slice(), self.sources.as_mut_slice());
        let stretches = self.stretches.as_mut_slice();
        let (mut arguments, mut users) = self.edges.split();
        let (mut edge_count, mut source_count) = (0, 0);
        for user in (0..NodeId::new(dag.nodes()).0).map(NodeId) {
            let place = edge_count..edge_count + FEW;
            if users.len() < place.end {
                (arguments, users) = self.edges.grow();
            }
            let count = match dag.arguments(user).into_array() {
                Ok((few, count)) => {
                    // No branch: what is no argument is overwritten by those of the next node.
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
            stretches[kind.index()].end += 1;
            // Likewise, what is no source.
            sources[source_count] = user;
            source_count += usize::from(count == 0);
        }
        for argument in &arguments[..edge_count] {
            nodes[argument.index()].first_user += 1;
        }
        (self.edges.count, self.source_count) = (edge_count, source_count);
    }

    /// Gives each kind its stretch, beginning with the kind's sources.
    pub(super) fn lay_out_queue(&mut self) {
        let mut start = 0;
        for stretch in &mut self.stretches {
            stretch.start = start;
            start += stretch.end;
            stretch.end = start;
        }
        for &source in &self.sources[..self.source_count] {
            let stretch = &mut self.stretches[self.nodes[source.index()].kind.index()];
            self.queue[(stretch.start + stretch.sources) as usize] = source;
            stretch.sources += 1;
        }
    }

    /// Counting sort of the edges by argument: the counts become ends, and going through the edges
    /// backwards each end moves down to its start.
    pub(super) fn link_users(&mut self) {
        let mut end = 0;
        let (last, nodes) = self.nodes.split_last_mut().expect("there is one more than nodes");
        for node in nodes {
            end += node.first_user;
            node.first_user = end;
        }
        last.first_user = end;
        self.users.resize(self.edges.count + FEW, NodeId(0));
        self.gathered.resize(self.users.len().max(self.gathered.len()), NodeId(0));
        for (argument, user) in self.edges.iter().rev() {
            let node = &mut self.nodes[argument.index()];
            node.first_user -= 1;
            self.users[node.first_user as usize] = user;
            self.stretches[node.kind.index()].is_read = true;
        }
    }
}
