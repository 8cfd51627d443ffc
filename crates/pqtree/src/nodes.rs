//! The nodes in memory, and the surgery on lists of children.
//!
//! Twelve bytes a leaf: a pointer up and two siblings. An inner node has these and sixteen bytes more: the two ends of
//! its list of children, its degree with its kind, and a stamp.
//!
//! *The siblings of a node are an unordered pair*: which of them is "next" depends on where a walk comes from. So a list
//! is reversed by doing nothing, and two lists are spliced, in any of the four orientations, by mending two pairs.
//!
//! *Parents by union–find.* When a Q-node is spliced into another its children still point to it; its slot becomes a
//! forward to the node that took them, and whoever climbs through it shortens the path. Forwards are cleared out when
//! they are a sixteenth of the leaves.
//!
//! *Source*: W.-L. Hsu and R. McConnell, "PC trees and circular-ones arrangements" (2003), for unordered siblings;
//! S. Fink, M. Pfretzschner and I. Rutter, "Experimental comparison of PC-trees and PQ-trees" (ESA 2021), for the
//! union–find on the children of Q-nodes.

mod lists;
mod slots;

use crate::journal::{Header, Journal, Write};
use crate::node::{Kind, NodeId};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::hint::black_box;

const Q_BIT: u32 = 1 << 31;

/// How many nodes are looked at together, so that their loads overlap.
pub(crate) const CHUNK: usize = 32;

/// What an inner node has beyond a leaf.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inner {
    /// The two ends of the list of children.
    pub(crate) ends: [NodeId; 2],
    /// The number of children, and the kind in the highest bit. Zero: this slot is free, or a forward.
    degree: u32,
    /// Where this node stands among the nodes touched by a reduction, offset by that reduction's base.
    pub(crate) stamp: u32,
}

impl Inner {
    pub(crate) fn degree(&self) -> u32 {
        self.degree & !Q_BIT
    }

    pub(crate) fn is_q(&self) -> bool {
        self.degree & Q_BIT != 0
    }

    fn is_live(&self) -> bool {
        self.degree != 0
    }
}

/// All nodes of a tree. Nodes `0..leaves` are the leaves, node `leaves + s` lives in slot `s`.
///
/// Invariant: the root's `up` is `NONE`; any other live node's `up` leads, through forwards, to its parent.
#[derive(Clone, Debug)]
pub(crate) struct Nodes {
    pub(crate) leaves: u32,
    pub(crate) root: NodeId,
    up: Vec<NodeId>,
    siblings: Vec<[NodeId; 2]>,
    inner: Vec<Inner>,
    /// Head of the list of free slots, linked by `up`.
    free: NodeId,
    forwards: u32,
    pub(crate) journal: Journal,
}

impl Nodes {
    /// Leaves that belong to nobody yet.
    pub(crate) fn unconnected(leaves: u32) -> Self {
        assert!(leaves <= 1 << 30, "at most 2^30 leaves");
        let none = NodeId::NONE;
        Self {
            leaves,
            root: none,
            up: alloc::vec![none; leaves as usize],
            siblings: alloc::vec![[none; 2]; leaves as usize],
            inner: Vec::new(),
            free: none,
            forwards: 0,
            journal: Journal::default(),
        }
    }

    /// All leaves under one P-node.
    pub(crate) fn universal(leaves: u32) -> Self {
        let mut nodes = Self::unconnected(0);
        nodes.leaves = leaves;
        if leaves < 2 {
            nodes = Self::unconnected(leaves);
            nodes.root = if leaves == 1 { NodeId(0) } else { NodeId::NONE };
            return nodes;
        }
        assert!(leaves <= 1 << 30, "at most 2^30 leaves");
        let root = NodeId(leaves);
        let ids = (0..leaves).map(NodeId);
        nodes.up = ids.clone().map(|_| root).chain([NodeId::NONE]).collect();
        // Wrapping gives leaf 0 the sibling NONE on its left.
        nodes.siblings = ids
            .map(|id| [NodeId(id.0.wrapping_sub(1)), NodeId(id.0 + 1)])
            .chain([[NodeId::NONE; 2]])
            .collect();
        nodes.siblings[leaves as usize - 1][1] = NodeId::NONE;
        nodes.inner.push(Inner { ends: [NodeId(0), NodeId(leaves - 1)], degree: leaves, stamp: 0 });
        nodes.root = root;
        nodes
    }

    pub(crate) fn is_leaf(&self, node: NodeId) -> bool {
        node.0 < self.leaves
    }

    pub(crate) fn inner(&self, node: NodeId) -> &Inner {
        &self.inner[(node.0 - self.leaves) as usize]
    }

    pub(crate) fn inner_mut(&mut self, node: NodeId) -> &mut Inner {
        &mut self.inner[(node.0 - self.leaves) as usize]
    }

    pub(crate) fn slots(&self) -> &[Inner] {
        &self.inner
    }

    pub(crate) fn is_live(&self, node: NodeId) -> bool {
        self.is_leaf(node) || (node.index() < self.up.len() && self.inner(node).is_live())
    }

    pub(crate) fn siblings(&self, node: NodeId) -> [NodeId; 2] {
        self.siblings[node.index()]
    }

    /// The sibling that is not `one`.
    pub(crate) fn sibling_beside(&self, node: NodeId, one: NodeId) -> NodeId {
        let [a, b] = self.siblings[node.index()];
        if a == one { b } else { a }
    }

    /// The parent, or `NONE` above the root.
    pub(crate) fn parent(&self, node: NodeId) -> NodeId {
        let mut up = self.up[node.index()];
        while up != NodeId::NONE && !self.inner(up).is_live() {
            up = self.up[up.index()];
        }
        up
    }

    /// The parent, halving the path of forwards to it. Not for the root.
    #[inline]
    pub(crate) fn climb(&mut self, node: NodeId) -> NodeId {
        let up = self.up[node.index()];
        if self.inner(up).is_live() { up } else { self.climb_forwards(node) }
    }

    #[cold]
    fn climb_forwards(&mut self, node: NodeId) -> NodeId {
        let (mut below, mut up) = (node, self.up[node.index()]);
        while !self.inner(up).is_live() {
            let above = self.up[up.index()];
            self.set_up(below, above);
            (below, up) = (up, above);
        }
        up
    }

    /// Puts the `up` of each leaf into `parents`.
    ///
    /// Also loads what counting these leaves at their parents will read. Counting takes branches that cannot be
    /// predicted, and a wrong guess throws away the loads that were begun beyond it. The loads here depend on no branch,
    /// so that the memory works on all of them at once.
    #[inline]
    pub(crate) fn load_parents(&self, leaves: &[u32], parents: &mut [NodeId; CHUNK]) {
        for (parent, &leaf) in parents.iter_mut().zip(leaves) {
            *parent = self.up[leaf as usize];
        }
        if leaves.len() > 2 {
            black_box(
                parents
                    .iter()
                    .zip(leaves)
                    .fold(0, |sum, (&parent, _)| sum ^ self.inner(parent).degree),
            );
        }
    }

    pub(crate) fn is_forward(&self, node: NodeId) -> bool {
        !self.inner(node).is_live()
    }

    // --- Setters: every structural write passes here, and is logged while a checkpoint is open. ---

    #[inline]
    pub(crate) fn set_up(&mut self, node: NodeId, up: NodeId) {
        let place = &mut self.up[node.index()];
        if self.journal.is_open() {
            self.journal.push(Write::Up(node, *place));
        }
        *place = up;
    }

    #[inline]
    pub(crate) fn set_siblings(&mut self, node: NodeId, siblings: [NodeId; 2]) {
        let place = &mut self.siblings[node.index()];
        if self.journal.is_open() {
            self.journal.push(Write::Siblings(node, *place));
        }
        *place = siblings;
    }

    /// Puts `new` where `old` is among the siblings of `node`.
    #[inline]
    pub(crate) fn replace_sibling(&mut self, node: NodeId, old: NodeId, new: NodeId) {
        let pair = self.siblings[node.index()];
        self.set_siblings(node, if pair[0] == old { [new, pair[1]] } else { [pair[0], new] });
    }

    #[inline]
    fn log_inner(&mut self, node: NodeId) {
        if self.journal.is_open() {
            let old = *self.inner(node);
            self.journal.push(Write::Inner(node, old));
        }
    }

    pub(crate) fn set_ends(&mut self, node: NodeId, ends: [NodeId; 2]) {
        self.log_inner(node);
        self.inner_mut(node).ends = ends;
    }

    pub(crate) fn set_degree(&mut self, node: NodeId, kind: Kind, degree: u32) {
        self.log_inner(node);
        self.inner_mut(node).degree = if kind == Kind::Q { degree | Q_BIT } else { degree };
    }

    // --- Undoing. ---

    pub(crate) fn header(&self) -> Header {
        Header {
            root: self.root,
            free: self.free,
            forwards: self.forwards,
            slots: self.inner.len(),
        }
    }

    pub(crate) fn set_header(&mut self, header: Header) {
        let Header { root, free, forwards, slots } = header;
        (self.root, self.free, self.forwards) = (root, free, forwards);
        self.inner.truncate(slots);
        self.up.truncate(self.leaves as usize + slots);
        self.siblings.truncate(self.leaves as usize + slots);
    }

    pub(crate) fn undo(&mut self, write: Write) {
        match write {
            Write::Up(node, up) => self.up[node.index()] = up,
            Write::Siblings(node, siblings) => self.siblings[node.index()] = siblings,
            Write::Inner(node, inner) => {
                // The stamp is no structure: an old one would be taken for a current one.
                let stamp = self.inner(node).stamp;
                *self.inner_mut(node) = Inner { stamp, ..inner };
            }
            Write::Everything(nodes) => {
                let journal = core::mem::take(&mut self.journal);
                *self = Nodes { journal, ..*nodes };
                // They may be from before the stamps were last cleared.
                self.clear_stamps();
            }
        }
    }

    /// Becomes another tree, in a way that can be undone.
    pub(crate) fn replace(&mut self, new: Nodes) {
        let mut old = core::mem::replace(self, new);
        self.journal = core::mem::take(&mut old.journal);
        if self.journal.is_open() {
            self.journal.push(Write::Everything(Box::new(old)));
        }
    }

    pub(crate) fn clear_stamps(&mut self) {
        self.inner.iter_mut().for_each(|inner| inner.stamp = 0);
    }

    pub(crate) fn bytes(&self) -> usize {
        self.up.capacity() * size_of::<NodeId>()
            + self.siblings.capacity() * size_of::<[NodeId; 2]>()
            + self.inner.capacity() * size_of::<Inner>()
            + self.journal.bytes()
    }
}
