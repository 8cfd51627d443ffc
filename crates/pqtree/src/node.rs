//! Names of nodes, and what a node is.

/// A node of a [`PqTree`](crate::PqTree): a leaf, or an inner node.
///
/// Leaf `l` is always node `l`; inner nodes have larger numbers. An inner node keeps its number
/// until a reduction merges it into another node or dissolves it, or until leaves are inserted or
/// removed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub(crate) u32);

impl NodeId {
    /// No node: beyond the end of a list of children, or above the root.
    pub(crate) const NONE: Self = Self(u32::MAX);

    /// The node of a leaf.
    pub const fn of_leaf(leaf: u32) -> Self {
        Self(leaf)
    }

    /// The place of this node in a side table of [`PqTree::node_bound`](crate::PqTree::node_bound)
    /// entries.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a node is, and so which orders of its children it admits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// A leaf: an element of the set that is being ordered.
    Leaf,
    /// Children in any order. Has two children or more.
    P,
    /// Children in the given order or its reverse. Has three children or more.
    Q,
}
