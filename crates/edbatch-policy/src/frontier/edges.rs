//! The edges of the graph, as a flat list.

use edbatch_graph::{Arguments, NodeId};

/// The arguments and the users of all edges, ascending by user. They are in two arrays, so that
/// several entries can be copied at once.
#[derive(Clone, Debug, Default)]
pub(super) struct Edges {
    pub(super) arguments: Vec<NodeId>,
    pub(super) users: Vec<NodeId>,
    /// The number of edges; the rest of the arrays is spare.
    pub(super) count: usize,
}

impl Edges {
    /// The pairs of an argument and its user.
    pub(super) fn iter(
        &self,
    ) -> impl DoubleEndedIterator<Item = (NodeId, NodeId)> + ExactSizeIterator + Clone + '_ {
        let (arguments, users) = (&self.arguments[..self.count], &self.users[..self.count]);
        arguments.iter().copied().zip(users.iter().copied())
    }

    /// The arguments and the users, followed by the spare entries.
    pub(super) fn split(&mut self) -> (&mut [NodeId], &mut [NodeId]) {
        (&mut self.arguments, &mut self.users)
    }

    /// Doubles the arrays.
    #[cold]
    pub(super) fn grow(&mut self) -> (&mut [NodeId], &mut [NodeId]) {
        let length = (2 * self.users.len()).max(64);
        self.arguments.resize(length, NodeId(0));
        self.users.resize(length, NodeId(0));
        self.split()
    }

    /// Writes the arguments of a node, and the node as their user, from index `start` on. Returns
    /// both arrays and the number of arguments.
    #[cold]
    pub(super) fn put(
        &mut self,
        start: usize,
        arguments: Arguments<'_>,
        user: NodeId,
    ) -> (&mut [NodeId], &mut [NodeId], usize) {
        let mut end = start;
        for argument in arguments {
            if end == self.users.len() {
                self.grow();
            }
            (self.arguments[end], self.users[end]) = (argument, user);
            end += 1;
        }
        (&mut self.arguments, &mut self.users, end - start)
    }
}
