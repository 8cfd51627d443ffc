//! The working memory of a reduction.

use crate::node::NodeId;
use crate::nodes::{Nodes, Tag};
use crate::stack::Stack;
use alloc::vec::Vec;

/// Stands for a missing index into [`Work::marked`] or [`Work::touched`].
pub(crate) const NIL: u32 = u32::MAX;

/// The working memory of a reduction, kept between reductions so that it is reused.
#[derive(Debug, Default)]
pub(crate) struct Work {
    /// One bit per leaf: set if the leaf is in the set. All zero between reductions.
    pub(crate) in_set: Vec<u64>,
    /// The leaves of the set, then the full inner nodes. Each is linked to the previous one of the
    /// same parent.
    pub(crate) marked: Stack<Marked>,
    /// The inner nodes that the reduction has visited. The tag of such a node is overwritten with
    /// its place here.
    pub(crate) touched: Stack<Touched>,
    /// For each node in `touched`, the paths through it.
    pub(crate) paths: Stack<Path>,
    /// The places in `touched` of the partial nodes.
    pub(crate) starts: Stack<u32>,
    /// The full inner nodes, in the order in which they became full.
    pub(crate) full_nodes: Stack<NodeId>,
    /// The place in `touched` of the only node with two predecessors, or `NIL`.
    pub(crate) fork: u32,
    /// Full children on their way from one node to another.
    pub(crate) moving: Vec<NodeId>,
    /// The inner nodes whose children changed in the last change of the tree. `NONE` at the end
    /// stands for all inner nodes.
    pub(crate) changed: Vec<NodeId>,
}

/// A leaf of the set, or an inner node with all of its leaves in the set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Marked {
    pub(crate) node: NodeId,
    /// The place in `marked` of another full child of the same parent, or `NIL`.
    pub(crate) next: u32,
}

/// An inner node that is full, partial, or above a partial node on its path. Kept to 16 bytes,
/// because there is one for every parent of a leaf of the set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Touched {
    pub(crate) node: NodeId,
    /// The tag of the node before it was overwritten.
    pub(crate) tag: Tag,
    /// The number of children that are not full.
    pub(crate) not_full: u32,
    /// The place in `marked` of the full child that was counted last, or `NIL`.
    pub(crate) last_full: u32,
}

/// The paths through a node that is not full.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    /// True once a path has reached the node.
    pub(crate) climbs: bool,
    /// True if a path has left the node upwards and, as far as known, the node can be below the
    /// apex.
    pub(crate) fits: bool,
    /// The children through which paths came: places in `touched`, or `NIL`.
    pub(crate) predecessors: [u32; 2],
    /// For a Q-node: the sibling of each predecessor on the side away from the full children. For a
    /// Q-node below the apex, while it has no predecessor: the sibling next to the block of full
    /// children on its inner side, and the full child next to that sibling.
    pub(crate) outer: [NodeId; 2],
    /// For a Q-node below the apex: the end where its full children are, or its only predecessor.
    pub(crate) full_end: NodeId,
}

impl Marked {
    pub(crate) const NONE: Self = Self { node: NodeId::NONE, next: NIL };
}

impl Touched {
    pub(crate) const NONE: Self =
        Self { node: NodeId::NONE, tag: Tag::VACANT, not_full: 0, last_full: NIL };

    pub(crate) fn new(node: NodeId, tag: Tag) -> Self {
        Self { node, tag, not_full: tag.degree(), last_full: NIL }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.not_full == 0
    }

    /// The number of full children.
    pub(crate) fn full(&self) -> u32 {
        self.degree() - self.not_full
    }

    pub(crate) fn degree(&self) -> u32 {
        self.tag.degree()
    }

    pub(crate) fn is_q(&self) -> bool {
        self.tag.is_q()
    }

    /// Counts a full child at `place` in `marked`. Returns the place of the one counted before it.
    #[inline]
    pub(crate) fn count_full(&mut self, place: u32) -> u32 {
        self.not_full -= 1;
        core::mem::replace(&mut self.last_full, place)
    }
}

impl Path {
    /// The paths through a node that no path has reached.
    pub(crate) const NONE: Self = Self {
        climbs: false,
        fits: false,
        predecessors: [NIL; 2],
        outer: [NodeId::NONE; 2],
        full_end: NodeId::NONE,
    };

    pub(crate) fn predecessor_count(&self) -> u32 {
        self.predecessors.iter().filter(|&&place| place != NIL).count() as u32
    }
}

impl Clone for Work {
    /// Returns empty working memory: its contents are useless in a copy.
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Work {
    /// Restores the tags of the inner nodes. Must be called after each [`label`](Self::label), even
    /// if it failed, and before the tree changes.
    pub(crate) fn unmark(&self, nodes: &mut Nodes) {
        for touched in self.touched.iter() {
            nodes.put_tag(touched.node, touched.tag);
        }
    }

    /// Clears the bits of the leaves in `in_set`. The last step of a reduction.
    pub(crate) fn finish(&mut self, set: &[u32]) {
        for &leaf in set {
            if let Some(word) = self.in_set.get_mut(leaf as usize / 64) {
                *word = 0;
            }
        }
        self.trim();
    }

    /// Frees the memory that an unusually large set needed, so that the tree stays small. The next
    /// such set allocates it again.
    fn trim(&mut self) {
        let limit = (64 << 10) + 16 * self.in_set.len();
        if self.marked.bytes() > limit {
            (self.marked, self.moving) = (Stack::default(), Vec::new());
        }
        if self.full_nodes.bytes() > limit {
            self.full_nodes = Stack::default();
        }
        if self.touched.bytes() + self.paths.bytes() > limit {
            (self.touched, self.paths) = (Stack::default(), Stack::default());
            self.starts = Stack::default();
        }
    }

    pub(crate) fn is_full(&self, nodes: &Nodes, node: NodeId) -> bool {
        if nodes.is_leaf(node) {
            return self.in_set[node.index() / 64] >> (node.0 % 64) & 1 == 1;
        }
        self.place(nodes, node).is_some_and(|place| self.touched[place].is_full())
    }

    /// The node at a place in `touched`, or `NONE`.
    pub(crate) fn node_at(&self, place: u32) -> NodeId {
        if place == NIL { NodeId::NONE } else { self.touched[place].node }
    }

    /// Returns the place of a node in `touched`, if this reduction has visited it.
    pub(crate) fn place(&self, nodes: &Nodes, node: NodeId) -> Option<u32> {
        nodes.tag(node).place()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.in_set.capacity() * size_of::<u64>()
            + self.marked.bytes()
            + self.touched.bytes()
            + self.paths.bytes()
            + self.starts.bytes()
            + self.full_nodes.bytes()
            + self.moving.capacity() * size_of::<NodeId>()
            + self.changed.capacity() * size_of::<NodeId>()
    }
}
