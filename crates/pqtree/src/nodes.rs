//! The nodes in memory, and edits of lists of children.
//!
//! A leaf takes 12 bytes: a pointer to the parent and two siblings. An inner node takes 12 bytes
//! more: the two ends of its list of children, and its [tag](Tag), which holds degree and kind.
//!
//! *The siblings of a node are an unordered pair.* Which of them is "next" depends on the direction
//! of a walk. So reversing a list costs nothing, and splicing two lists, in any of the four
//! orientations, updates two pairs.
//!
//! *Parents by union–find.* When a Q-node is spliced into another, its children still point to it.
//! Its slot becomes a forward to the new parent, and each lookup through it shortens the path.
//! Forwards are cleared when there is one for every 16 leaves.
//!
//! *Source*: W.-L. Hsu and R. McConnell, "PC trees and circular-ones arrangements" (2003), for
//! unordered siblings; S. Fink, M. Pfretzschner and I. Rutter, "Experimental comparison of PC-trees
//! and PQ-trees" (ESA 2021), for the union–find on the children of Q-nodes.

mod lists;
mod slots;
mod tag;

pub(crate) use tag::Tag;

use crate::conflict::LeafError;
use crate::journal::{Header, Journal, Write};
use crate::node::{Kind, NodeId};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::hint::black_box;

/// The limit on leaves. It makes the number of any node, forwards included, fit in 30 bits.
pub(crate) const MAX_LEAVES: u32 = 1 << 29;

/// The number of nodes that are processed together, so that their loads overlap.
pub(crate) const CHUNK: usize = 32;

/// Returns an empty list with room for `count` items. `leaves` is the number of leaves of the tree,
/// for the error.
pub(crate) fn room<T>(count: usize, leaves: u32) -> Result<Vec<T>, LeafError> {
    let mut list = Vec::new();
    let reserved = list.try_reserve_exact(count);
    reserved.map_err(|_| LeafError::OutOfMemory { leaves: leaves.into() })?;
    Ok(list)
}

/// All nodes of a tree. Nodes `0..leaves` are the leaves, and inner node `base + s` is in slot `s`.
/// The numbers between them are reserved for new leaves.
///
/// *Invariant*: the root's `up` is `NONE`; the `up` of any other live node leads, through forwards,
/// to its parent.
#[derive(Clone, Debug)]
pub(crate) struct Nodes {
    pub(crate) leaves: u32,
    pub(crate) base: u32,
    pub(crate) root: NodeId,
    up: Vec<NodeId>,
    siblings: Vec<[NodeId; 2]>,
    /// For each slot, the two ends of the list of children.
    ends: Vec<[NodeId; 2]>,
    tags: Vec<Tag>,
    /// Head of the list of free slots, linked by `up`.
    free: NodeId,
    forwards: u32,
    pub(crate) journal: Journal,
    #[cfg(test)]
    pub(crate) visits: crate::visits::Visits,
}

impl Nodes {
    /// Leaves that have no parent yet.
    pub(crate) fn unconnected(leaves: u32) -> Self {
        assert!(leaves <= MAX_LEAVES, "at most 2^29 leaves");
        let none = NodeId::NONE;
        Self {
            leaves,
            base: leaves,
            root: none,
            up: alloc::vec![none; leaves as usize],
            siblings: alloc::vec![[none; 2]; leaves as usize],
            ends: Vec::new(),
            tags: Vec::new(),
            free: none,
            forwards: 0,
            journal: Journal::default(),
            #[cfg(test)]
            visits: Default::default(),
        }
    }

    /// Creates a tree with all leaves under one P-node. Fails if there is not enough memory.
    pub(crate) fn universal(leaves: u32) -> Result<Self, LeafError> {
        if leaves < 2 {
            let mut nodes = Self::unconnected(leaves);
            nodes.root = if leaves == 1 { NodeId(0) } else { NodeId::NONE };
            return Ok(nodes);
        }
        assert!(leaves <= MAX_LEAVES, "at most 2^29 leaves");
        let root = NodeId(leaves);
        let ids = (0..leaves).map(NodeId);
        let mut up = room(leaves as usize + 1, leaves)?;
        up.extend(ids.clone().map(|_| root).chain([NodeId::NONE]));
        // Wrapping gives leaf 0 the sibling `NONE`, which is `u32::MAX`.
        let pairs = ids.map(|id| [NodeId(id.0.wrapping_sub(1)), NodeId(id.0 + 1)]);
        let mut siblings = room(leaves as usize + 1, leaves)?;
        siblings.extend(pairs.chain([[NodeId::NONE; 2]]));
        siblings[leaves as usize - 1][1] = NodeId::NONE;
        let ends = [[NodeId(0), NodeId(leaves - 1)]].to_vec();
        let tags = [Tag::new(Kind::P, leaves)].to_vec();
        let empty = Self::unconnected(0);
        Ok(Self { leaves, base: leaves, root, up, siblings, ends, tags, ..empty })
    }

    pub(crate) fn is_leaf(&self, node: NodeId) -> bool {
        node.0 < self.base
    }

    /// The two ends of the list of children of an inner node.
    pub(crate) fn ends(&self, node: NodeId) -> [NodeId; 2] {
        #[cfg(test)]
        self.visits.add();
        self.ends[self.slot(node)]
    }

    pub(crate) fn tag(&self, node: NodeId) -> Tag {
        #[cfg(test)]
        self.visits.add();
        self.tags[self.slot(node)]
    }

    /// Overwrites the tag of a node with a temporary mark, or restores the tag. Not logged.
    pub(crate) fn put_tag(&mut self, node: NodeId, tag: Tag) {
        let slot = self.slot(node);
        self.tags[slot] = tag;
    }

    /// The tags of all slots.
    pub(crate) fn tags(&self) -> &[Tag] {
        &self.tags
    }

    fn slot(&self, node: NodeId) -> usize {
        (node.0 - self.base) as usize
    }

    pub(crate) fn is_live(&self, node: NodeId) -> bool {
        if self.is_leaf(node) {
            return node.0 < self.leaves;
        }
        node.index() < self.up.len() && self.tag(node).is_live()
    }

    pub(crate) fn siblings(&self, node: NodeId) -> [NodeId; 2] {
        #[cfg(test)]
        self.visits.add();
        self.siblings[node.index()]
    }

    /// Returns the sibling of `node` on the other side from its sibling `one`.
    pub(crate) fn sibling_beside(&self, node: NodeId, one: NodeId) -> NodeId {
        #[cfg(test)]
        self.visits.add();
        let [a, b] = self.siblings[node.index()];
        if a == one { b } else { a }
    }

    /// Returns the parent, or `NONE` for the root.
    pub(crate) fn parent(&self, node: NodeId) -> NodeId {
        let mut up = self.up[node.index()];
        while up != NodeId::NONE && !self.tag(up).is_live() {
            up = self.up[up.index()];
        }
        up
    }

    /// Returns the parent and its tag, and halves the path of forwards. Not for the root.
    #[inline]
    pub(crate) fn climb(&mut self, node: NodeId) -> (NodeId, Tag) {
        self.climb_from(node, self.up[node.index()])
    }

    /// Returns the parent and its tag, given the node's `up`.
    #[inline]
    pub(crate) fn climb_from(&mut self, node: NodeId, up: NodeId) -> (NodeId, Tag) {
        let tag = self.tag(up);
        if tag.is_live() { (up, tag) } else { self.climb_forwards(node) }
    }

    #[cold]
    pub(crate) fn climb_forwards(&mut self, node: NodeId) -> (NodeId, Tag) {
        let (mut below, mut up) = (node, self.up[node.index()]);
        loop {
            let tag = self.tag(up);
            if tag.is_live() {
                return (up, tag);
            }
            let above = self.up[up.index()];
            if self.journal.is_open() {
                self.log_up(below, up);
            }
            self.up[below.index()] = above;
            (below, up) = (up, above);
        }
    }

    /// Logs a change of `up`. Out of line, so that the loop that calls it keeps its registers.
    #[inline(never)]
    fn log_up(&mut self, node: NodeId, up: NodeId) {
        self.journal.push(Write::Up(node, up));
    }

    /// Copies the `up` of each leaf to `parents`.
    ///
    /// Also loads the memory that counting these leaves at their parents reads. Counting has
    /// unpredictable branches, and a wrong guess discards the loads after it. The loads here depend
    /// on no branch, so they all overlap.
    #[inline]
    pub(crate) fn load_parents(&self, leaves: &[u32], parents: &mut [NodeId; CHUNK]) {
        let mut sum = 0;
        for (parent, &leaf) in parents.iter_mut().zip(leaves) {
            *parent = self.up[leaf as usize];
            sum ^= self.tags[self.slot(*parent)].bits();
        }
        black_box(sum);
    }

    /// Loads the `up` and the siblings of leaves early, like [`load_parents`](Self::load_parents).
    /// The additional loads are worth it for small sets only.
    #[inline]
    pub(crate) fn load_leaves(&self, leaves: &[u32]) {
        let load = |&leaf: &u32| self.up[leaf as usize].0 ^ self.siblings[leaf as usize][0].0;
        black_box(leaves.iter().fold(0, |sum, leaf| sum ^ load(leaf)));
    }

    pub(crate) fn is_forward(&self, node: NodeId) -> bool {
        !self.tag(node).is_live()
    }

    // --- Setters. All changes of the structure go through them, and are logged while a checkpoint
    // --- is open.

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

    /// Replaces the sibling `old` of a node by `new`.
    #[inline]
    pub(crate) fn replace_sibling(&mut self, node: NodeId, old: NodeId, new: NodeId) {
        let pair = self.siblings[node.index()];
        self.set_siblings(node, if pair[0] == old { [new, pair[1]] } else { [pair[0], new] });
    }

    #[inline]
    pub(crate) fn set_ends(&mut self, node: NodeId, ends: [NodeId; 2]) {
        let slot = self.slot(node);
        if self.journal.is_open() {
            self.journal.push(Write::Ends(node, self.ends[slot]));
        }
        self.ends[slot] = ends;
    }

    #[inline]
    pub(crate) fn set_degree(&mut self, node: NodeId, kind: Kind, degree: u32) {
        let slot = self.slot(node);
        if self.journal.is_open() {
            self.journal.push(Write::Tag(node, self.tags[slot]));
        }
        self.tags[slot] = Tag::new(kind, degree);
    }

    // --- Undo.

    pub(crate) fn header(&self) -> Header {
        let Self { leaves, root, free, forwards, .. } = *self;
        Header { leaves, root, free, forwards, slots: self.tags.len() }
    }

    pub(crate) fn set_header(&mut self, header: Header) {
        let Header { leaves, root, free, forwards, slots } = header;
        (self.leaves, self.root) = (leaves, root);
        (self.free, self.forwards) = (free, forwards);
        self.ends.truncate(slots);
        self.tags.truncate(slots);
        self.up.truncate(self.base as usize + slots);
        self.siblings.truncate(self.base as usize + slots);
    }

    /// Undoes a write. Writes are undone in reverse, so the nodes of an earlier list of changed
    /// nodes come first and gather in `list`; then [`Write::List`] moves them to `changed`.
    pub(crate) fn undo(&mut self, write: Write, list: &mut Vec<NodeId>, changed: &mut Vec<NodeId>) {
        match write {
            Write::Up(node, up) => self.up[node.index()] = up,
            Write::Siblings(node, siblings) => self.siblings[node.index()] = siblings,
            Write::Ends(node, ends) => {
                let slot = self.slot(node);
                self.ends[slot] = ends;
            }
            Write::Tag(node, tag) => self.put_tag(node, tag),
            Write::Changed(node) => list.push(node),
            Write::List => *changed = core::mem::take(list),
            Write::Everything(nodes) => {
                let journal = core::mem::take(&mut self.journal);
                *self = Nodes { journal, ..*nodes };
            }
        }
    }

    /// Replaces the whole tree. Can be undone.
    pub(crate) fn replace(&mut self, new: Nodes) {
        let mut old = core::mem::replace(self, new);
        self.journal = core::mem::take(&mut old.journal);
        if self.journal.is_open() {
            self.journal.push(Write::Everything(Box::new(old)));
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.up.capacity() * size_of::<NodeId>()
            + self.siblings.capacity() * size_of::<[NodeId; 2]>()
            + self.ends.capacity() * size_of::<[NodeId; 2]>()
            + self.tags.capacity() * size_of::<Tag>()
            + self.journal.bytes()
    }
}
