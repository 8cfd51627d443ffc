//! Typed indices of nodes, kinds and values: a node is never a bare `usize`.

use std::fmt;

/// A node of a [`Dag`](crate::Dag). Ids are dense, and every argument's id is less than its
/// user's: ids are a topological order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub struct NodeId(pub u32);

impl NodeId {
    /// The node with this index.
    ///
    /// # Panics
    /// If `index` does not fit 32 bits.
    #[inline]
    #[must_use]
    pub fn new(index: usize) -> Self {
        Self(u32::try_from(index).expect("a graph has fewer than 2^32 nodes"))
    }

    /// The index into side tables.
    #[inline]
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n{}", self.0)
    }
}

/// What a node computes: nodes of one kind may run in one batch.
///
/// In a graph of cell calls a kind is a cell together with its parameters; inside a cell it is an
/// operation together with its shapes. Kinds are dense and stable from mini-batch to mini-batch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub struct Kind(pub u16);

impl Kind {
    /// The kind with this index.
    ///
    /// # Panics
    /// If `index` does not fit 16 bits.
    #[inline]
    #[must_use]
    pub fn new(index: usize) -> Self {
        Self(u16::try_from(index).expect("a network has fewer than 2^16 kinds"))
    }

    /// The index into side tables.
    #[inline]
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "k{}", self.0)
    }
}

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
