//! The tree itself: making one, and looking at its nodes.

use crate::conflict::LeafError;
use crate::node::{Kind, NodeId};
use crate::nodes::{MOST_LEAVES, Nodes};
use crate::work::Work;

/// A set of orders of the leaves `0..len`, as a PQ-tree. See the [crate's page](crate) for what
/// that is.
///
/// `Clone` copies four arrays, 12 bytes a leaf and 24 an inner node; a copy has no open checkpoint.
/// Trees are equal, and hash alike, if they admit the same orders, however they are stored. The
/// [default](Default) is the tree without leaves. `Debug` shows the text.
#[derive(Clone)]
pub struct PqTree {
    pub(crate) nodes: Nodes,
    pub(crate) work: Work,
}

impl PqTree {
    /// The most leaves that a tree can have, 2²⁹.
    pub const MOST_LEAVES: u32 = MOST_LEAVES;

    /// The tree that admits every order of the leaves `0..leaves`.
    ///
    /// # Panics
    ///
    /// If there are more than [`MOST_LEAVES`](Self::MOST_LEAVES): [`try_new`](Self::try_new) does
    /// not.
    pub fn new(leaves: u32) -> Self {
        match Self::try_new(leaves) {
            Ok(tree) => tree,
            Err(error) => panic!("{error}"),
        }
    }

    /// The tree that admits every order of the leaves `0..leaves`, if they are not too many.
    pub fn try_new(leaves: u32) -> Result<Self, LeafError> {
        check_count(leaves.into())?;
        Ok(Self::from_nodes(Nodes::universal(leaves)))
    }

    pub(crate) fn from_nodes(nodes: Nodes) -> Self {
        Self { nodes, work: Work::default() }
    }

    /// How many leaves there are.
    pub fn len(&self) -> u32 {
        self.nodes.leaves
    }

    /// Whether there is no leaf.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The root: the only leaf of a tree of one, `None` in an empty tree.
    pub fn root(&self) -> Option<NodeId> {
        some(self.nodes.root)
    }

    /// What a node is.
    ///
    /// # Panics
    ///
    /// If there is no such node, or no longer; so does every method that takes a node, but
    /// [`contains`](Self::contains).
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

    /// Whether there is such a node: after a reduction some may have gone, and of these numbers new
    /// nodes may have taken some.
    pub fn contains(&self, node: NodeId) -> bool {
        self.nodes.is_live(node)
    }

    #[track_caller]
    pub(crate) fn assert_live(&self, node: NodeId) {
        assert!(self.contains(node), "there is no node {}", node.0);
    }

    /// The leaf that a node is, if it is one.
    pub fn as_leaf(&self, node: NodeId) -> Option<u32> {
        self.assert_live(node);
        self.nodes.is_leaf(node).then_some(node.0)
    }

    /// The parent of a node, `None` for the root.
    ///
    /// *Cost*: O(1), and a step for each Q-node that was merged into another since the merged ones
    /// were cleared out last: nearly always none or one; never more than n/16 + 8, save while a
    /// checkpoint is open.
    pub fn parent(&self, node: NodeId) -> Option<NodeId> {
        self.assert_live(node);
        some(self.nodes.parent(node))
    }

    /// The nodes beside a node in its parent's list of children, in no order: which of them is the
    /// next one depends on where a walk comes from. Means nothing at the root; next to the children
    /// of a P-node any of the others may be.
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

    /// How many children a node has; 0 for a leaf.
    pub fn degree(&self, node: NodeId) -> u32 {
        self.assert_live(node);
        if self.nodes.is_leaf(node) { 0 } else { self.nodes.tag(node).degree() }
    }

    /// One more than the largest [`NodeId::index`]: the length of a table with a place for each
    /// node.
    pub fn node_bound(&self) -> usize {
        self.nodes.base as usize + self.nodes.tags().len()
    }

    /// How many P-nodes and how many Q-nodes there are.
    ///
    /// *Cost*: O(inner nodes).
    pub fn count_nodes(&self) -> (usize, usize) {
        let live = self.nodes.tags().iter().filter(|tag| tag.is_live());
        live.fold((0, 0), |(p, q), tag| if tag.is_q() { (p, q + 1) } else { (p + 1, q) })
    }

    /// The bytes of memory that the tree holds, what reductions work in included.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.nodes.bytes() + self.work.bytes()
    }
}

impl Default for PqTree {
    /// The tree without leaves.
    fn default() -> Self {
        Self::new(0)
    }
}

/// An error if there are too many leaves for a tree.
pub(crate) fn check_count(leaves: u64) -> Result<(), LeafError> {
    if leaves > MOST_LEAVES.into() { Err(LeafError::TooMany { leaves }) } else { Ok(()) }
}

fn some(node: NodeId) -> Option<NodeId> {
    (node != NodeId::NONE).then_some(node)
}
