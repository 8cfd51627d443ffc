//! Which node reads which, as one flat list.

use edbatch_graph::{Arguments, NodeId};

/// Each argument beside its user, by user, ascending; in two arrays, so that a few are copied at
/// once.
#[derive(Clone, Debug, Default)]
pub(super) struct Edges {
    pub(super) arguments: Vec<NodeId>,
    pub(super) users: Vec<NodeId>,
    /// So many are the graph's; the rest is spare.
    pub(super) count: usize,
}

impl Edges {
    /// Pairs of an argument and its user.
    pub(super) fn iter(
        &self,
    ) -> impl DoubleEndedIterator<Item = (NodeId, NodeId)> + ExactSizeIterator + Clone + '_ {
        let (arguments, users) = (&self.arguments[..self.count], &self.users[..self.count]);
        arguments.iter().copied().zip(users.iter().copied())
    }

    /// The arguments and the users, with the spare places behind them.
    pub(super) fn split(&mut self) -> (&mut [NodeId], &mut [NodeId]) {
        (&mut self.arguments, &mut self.users)
    }

    /// Makes more places, enough for a few.
    #[cold]
    pub(super) fn grow(&mut self) -> (&mut [NodeId], &mut [NodeId]) {
        let places = (2 * self.users.len()).max(64);
        self.arguments.resize(places, NodeId(0));
        self.users.resize(places, NodeId(0));
        self.split()
    }

    /// Puts a node's arguments from a place on, however many; also returns how many.
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
