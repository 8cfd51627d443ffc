//! What the arguments of a call refer to.

use crate::NodeId;

/// What a call's argument refers to: the result of an earlier call, or a value that exists before
/// the graph runs (an initial value of the network, or one carried over from an earlier graph).
///
/// Four bytes. A value belongs to the graph that made it, until that graph is cleared; initial
/// values belong to every graph of their network.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Value(pub(crate) u32);

/// Marks a [`Value`] that no node of the graph makes.
const GIVEN: u32 = 1 << 31;

impl Value {
    /// How many nodes, given values and arguments a graph may have: ids must leave a bit free.
    pub(crate) const LIMIT: usize = GIVEN as usize;

    pub(crate) fn given(index: usize) -> Self {
        assert!(index < Self::LIMIT, "fewer than 2^31 given values");
        Self(index as u32 | GIVEN)
    }

    /// The node that makes the value, or the index among the given ones.
    #[inline]
    #[must_use]
    pub fn source(self) -> Source {
        if self.0 & GIVEN == 0 {
            Source::Node(NodeId(self.0))
        } else {
            Source::Given((self.0 & !GIVEN) as usize)
        }
    }
}

/// The result of a node.
///
/// # Panics
/// If the node's id is 2³¹ or more: no graph has such a node.
impl From<NodeId> for Value {
    #[inline]
    fn from(node: NodeId) -> Self {
        assert!(node.index() < Self::LIMIT, "fewer than 2^31 nodes");
        Self(node.0)
    }
}

/// Where a [`Value`] comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// A node of the graph makes it.
    Node(NodeId),
    /// It exists before the graph runs: this index into [`Graph::given`](crate::Graph::given).
    Given(usize),
}
