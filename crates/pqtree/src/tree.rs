//! The tree: construction, and access to its nodes.

use crate::conflict::LeafError;
use crate::node::{Kind, NodeId};
use crate::nodes::{MAX_LEAVES, Nodes};
use crate::work::Work;

/// A set of orders of the leaves `0..len`, as a PQ-tree. See the [crate documentation](crate) for
/// an introduction.
///
/// `Clone` copies four arrays, 12 bytes per leaf and 24 per inner node; the copy has no open
/// checkpoint and no [changed](Self::changed) nodes. Trees are equal, and have equal hashes, if
/// they admit the same orders. The [default](Default) is the tree without leaves. `Debug` prints
/// the tree as text.
#[derive(Clone)]
pub struct PqTree {
    pub(crate) nodes: Nodes,
    pub(crate) work: Work,
}

impl PqTree {
    /// The maximum number of leaves, 2²⁹.
    pub const MAX_LEAVES: u32 = MAX_LEAVES;

    /// The maximum number of leaves.
    #[deprecated(since = "1.1.0", note = "renamed to `MAX_LEAVES`")]
    pub const MOST_LEAVES: u32 = MAX_LEAVES;

    /// Creates a tree that admits every order of the leaves `0..leaves`.
    ///
    /// # Panics
    ///
    /// If there are more than [`MAX_LEAVES`](Self::MAX_LEAVES), or too many for the free memory.
    /// [`try_new`](Self::try_new) returns an error instead.
    pub fn new(leaves: u32) -> Self {
        match Self::try_new(leaves) {
            Ok(tree) => tree,
            Err(error) => panic!("{error}"),
        }
    }

    /// Creates a tree that admits every order of the leaves `0..leaves`. Fails if there are more
    /// than [`MAX_LEAVES`](Self::MAX_LEAVES), or if 12 bytes for each leaf cannot be allocated.
    ///
    /// Later allocations, such as 24 bytes for an inner node, abort the program if they fail, as
    /// for a `Vec`.
    pub fn try_new(leaves: u32) -> Result<Self, LeafError> {
        check_count(leaves.into())?;
        Ok(Self::from_nodes(Nodes::universal(leaves)?))
    }

    pub(crate) fn from_nodes(nodes: Nodes) -> Self {
        Self { nodes, work: Work::default() }
    }

    /// Returns the number of leaves.
    pub fn len(&self) -> u32 {
        self.nodes.leaves
    }

    /// Returns true if the tree has no leaves.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the root, or `None` in an empty tree. The root of a tree with one leaf is that leaf.
    pub fn root(&self) -> Option<NodeId> {
        some(self.nodes.root)
    }

    /// Returns the kind of a node.
    ///
    /// # Panics
    ///
    /// If the node does not exist, or no longer exists. The same holds for every method that takes
    /// a node, except [`contains`](Self::contains).
    pub fn kind(&self, node: NodeId) -> Kind {
        self.assert_live(node);
        if self.nodes.is_leaf(node) {
            Kind::Leaf
        } else if self.nodes.tag(node).is_q() {
            Kind::Q
        } else {
            Kind::P
        }
    }

    /// Returns true if the node exists. A reduction may remove nodes, and new nodes may reuse their
    /// numbers.
    pub fn contains(&self, node: NodeId) -> bool {
        self.nodes.is_live(node)
    }

    #[track_caller]
    pub(crate) fn assert_live(&self, node: NodeId) {
        assert!(self.contains(node), "there is no node {}", node.0);
    }

    /// Returns the number of a leaf, or `None` for an inner node.
    pub fn as_leaf(&self, node: NodeId) -> Option<u32> {
        self.assert_live(node);
        self.nodes.is_leaf(node).then_some(node.0)
    }

    /// Returns the parent of a node, or `None` for the root.
    ///
    /// *Cost*: O(1), plus a step for each merged Q-node between the node and its parent that was
    /// not cleared yet. That is nearly always at most one step, and never more than n/16 + 8 unless
    /// a checkpoint is open.
    pub fn parent(&self, node: NodeId) -> Option<NodeId> {
        self.assert_live(node);
        some(self.nodes.parent(node))
    }

    /// Returns the neighbours of a node in its parent's list of children, in no particular order:
    /// the next one depends on the direction of a walk. Not meaningful for the root, which is in no
    /// list. Below a P-node, siblings are neighbours only in the stored order: any two children can
    /// be neighbours.
    ///
    /// ```
    /// # use pqtree::{NodeId, PqTree};
    /// let tree: PqTree = "[0 1 2]".parse()?;
    /// let beside = tree.siblings(NodeId::of_leaf(2));
    /// assert!(beside.contains(&None) && beside.contains(&Some(NodeId::of_leaf(1))));
    /// # Ok::<(), pqtree::ParseError>(())
    /// ```
    pub fn siblings(&self, node: NodeId) -> [Option<NodeId>; 2] {
        self.assert_live(node);
        self.nodes.siblings(node).map(some)
    }

    /// Returns the number of children of a node, or 0 for a leaf.
    pub fn degree(&self, node: NodeId) -> u32 {
        self.assert_live(node);
        if self.nodes.is_leaf(node) { 0 } else { self.nodes.tag(node).degree() }
    }

    /// Returns the length that a table indexed by [`NodeId::index`] needs: all indices are smaller.
    pub fn node_bound(&self) -> usize {
        self.nodes.base as usize + self.nodes.tags().len()
    }

    /// Returns the number of P-nodes and the number of Q-nodes.
    ///
    /// *Cost*: O(inner nodes).
    pub fn count_nodes(&self) -> (usize, usize) {
        let live = self.nodes.tags().iter().filter(|tag| tag.is_live());
        live.fold((0, 0), |(p, q), tag| if tag.is_q() { (p, q + 1) } else { (p + 1, q) })
    }

    /// Returns the memory of the tree in bytes, including the working memory of reductions.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.nodes.bytes() + self.work.bytes()
    }
}

impl Default for PqTree {
    /// Returns the tree without leaves.
    fn default() -> Self {
        Self::new(0)
    }
}

/// Fails if there are too many leaves for a tree.
pub(crate) fn check_count(leaves: u64) -> Result<(), LeafError> {
    if leaves > MAX_LEAVES.into() { Err(LeafError::TooMany { leaves }) } else { Ok(()) }
}

fn some(node: NodeId) -> Option<NodeId> {
    (node != NodeId::NONE).then_some(node)
}
