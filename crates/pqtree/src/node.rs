//! Node identifiers and kinds.

/// A node of a [`PqTree`](crate::PqTree): a leaf or an inner node.
///
/// Leaf `l` is always node `l`; inner nodes have larger numbers. An inner node keeps its number
/// until a reduction merges or removes it, or until leaves are inserted or removed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub(crate) u32);

impl NodeId {
    /// No node: the place after the last child, or above the root.
    pub(crate) const NONE: Self = Self(u32::MAX);

    /// The node of a leaf.
    pub const fn of_leaf(leaf: u32) -> Self {
        Self(leaf)
    }

    /// Returns the index of the node in a table of
    /// [`PqTree::node_bound`](crate::PqTree::node_bound) entries.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The kind of a node, which decides the orders of its children.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// A leaf: an element of the ordered set.
    Leaf,
    /// Children in any order. At least two.
    P,
    /// Children in the given order or its reverse. At least three.
    Q,
}
