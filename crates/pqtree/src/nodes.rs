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

    // --- Lists of children. ---

    /// Puts `new` for `old` into the link that leads to `old` from `from`, or from an end of `list` if that is `NONE`.
    pub(crate) fn relink(&mut self, list: NodeId, from: NodeId, old: NodeId, new: NodeId) {
        if from != NodeId::NONE {
            self.replace_sibling(from, old, new);
            return;
        }
        let ends = self.inner(list).ends;
        self.set_ends(list, if ends[0] == old { [new, ends[1]] } else { [ends[0], new] });
    }

    /// Takes a child out of its list. The degree is left to the caller, as several are often taken out together.
    #[inline]
    pub(crate) fn unlink(&mut self, list: NodeId, child: NodeId) {
        let [a, b] = self.siblings(child);
        self.relink(list, a, child, b);
        self.relink(list, b, child, a);
    }

    /// Appends a child at the second end of a list. The degree is left to the caller.
    pub(crate) fn append(&mut self, list: NodeId, child: NodeId) {
        let [first, last] = self.inner(list).ends;
        self.set_up(child, list);
        self.set_siblings(child, [last, NodeId::NONE]);
        if last == NodeId::NONE {
            self.set_ends(list, [child, child]);
        } else {
            self.replace_sibling(last, NodeId::NONE, child);
            self.set_ends(list, [first, child]);
        }
    }

    /// Makes `children` the whole list of `node`.
    pub(crate) fn set_children(&mut self, node: NodeId, kind: Kind, children: &[NodeId]) {
        let mut before = NodeId::NONE;
        let after = children[1..].iter().copied().chain([NodeId::NONE]);
        for (&child, after) in children.iter().zip(after) {
            self.set_up(child, node);
            self.set_siblings(child, [before, after]);
            before = child;
        }
        self.set_ends(node, [children[0], before]);
        self.set_degree(node, kind, children.len() as u32);
    }

    /// Moves children out of the list of `from`, whose degree is left to the caller; they become all of the list of `to`.
    pub(crate) fn regroup(&mut self, from: NodeId, to: NodeId, children: &[NodeId]) {
        if self.journal.is_open() {
            children.iter().for_each(|&child| self.unlink(from, child));
            self.set_children(to, Kind::P, children);
            return;
        }
        // The same without logging. Most reductions spend most of their time here.
        let siblings = self.siblings.as_mut_slice();
        let mut ends = self.inner[(from.0 - self.leaves) as usize].ends;
        let mut before = NodeId::NONE;
        for chunk in children.chunks(CHUNK) {
            // As in `load_parents`.
            let load = |sum, sibling: &NodeId| {
                sum ^ siblings.get(sibling.index()).map_or(0, |pair| pair[0].0)
            };
            black_box(
                chunk.iter().fold(0, |sum, child| siblings[child.index()].iter().fold(sum, load)),
            );
            for &child in chunk {
                let [a, b] = siblings[child.index()];
                for (beside, other) in [(a, b), (b, a)] {
                    // `NONE` is beyond the slice: then the link is an end of the list.
                    let pair = siblings.get_mut(beside.index()).unwrap_or(&mut ends);
                    pair[usize::from(pair[0] != child)] = other;
                }
                self.up[child.index()] = to;
                // Of the pair, the second half is set when the next child is there.
                siblings[child.index()] = [before, NodeId::NONE];
                if let Some(pair) = siblings.get_mut(before.index()) {
                    pair[1] = child;
                }
                before = child;
            }
        }
        self.inner_mut(from).ends = ends;
        self.set_ends(to, [children[0], before]);
        self.set_degree(to, Kind::P, children.len() as u32);
    }

    /// Hangs `new` where `old` hangs now; `old` hangs nowhere then.
    pub(crate) fn take_place(&mut self, old: NodeId, new: NodeId) {
        let parent = self.parent(old);
        let pair = self.siblings(old);
        self.set_up(new, parent);
        self.set_siblings(new, pair);
        if parent == NodeId::NONE {
            self.root = new;
            return;
        }
        for sibling in pair {
            self.relink(parent, sibling, old, new);
        }
    }

    // --- Slots. ---

    /// A new inner node without children.
    pub(crate) fn allocate(&mut self) -> NodeId {
        if self.free != NodeId::NONE {
            let node = self.free;
            self.free = self.up[node.index()];
            self.set_ends(node, [NodeId::NONE; 2]);
            return node;
        }
        if self.up.len() == self.up.capacity() {
            self.grow();
        }
        let node = NodeId(self.up.len() as u32);
        self.up.push(NodeId::NONE);
        self.siblings.push([NodeId::NONE; 2]);
        self.inner.push(Inner { ends: [NodeId::NONE; 2], degree: 0, stamp: 0 });
        node
    }

    /// Room in small steps, where it matters: doubling would spend, on a million leaves, twelve megabytes for nothing.
    #[cold]
    fn grow(&mut self) {
        let steps = if self.leaves < 1 << 18 { 8 } else { 64 };
        let step = 16 + (self.leaves / steps) as usize;
        self.up.reserve_exact(step);
        self.siblings.reserve_exact(step);
        self.inner.reserve_exact(step);
    }

    /// Gives back the slot of a node that nobody points to any more.
    pub(crate) fn release(&mut self, node: NodeId) {
        self.set_degree(node, Kind::P, 0);
        self.set_ends(node, [NodeId::NONE; 2]);
        let free = self.free;
        self.set_up(node, free);
        self.free = node;
    }

    /// Makes the slot of a node whose children now belong to `heir` a forward to it.
    pub(crate) fn forward(&mut self, node: NodeId, heir: NodeId) {
        self.set_degree(node, Kind::P, 0);
        self.set_ends(node, [heir; 2]);
        self.set_up(node, heir);
        self.forwards += 1;
    }

    /// Clears out the forwards when they are many. Not while a checkpoint is open.
    ///
    /// *Cost*: O(leaves), paid for by the merges that made a sixteenth as many forwards.
    pub(crate) fn compact(&mut self) {
        if self.forwards < 64 + self.leaves / 16 || self.journal.is_open() {
            return;
        }
        for id in (0..self.up.len() as u32).map(NodeId) {
            let up = self.up[id.index()];
            if id != self.root && self.is_live(id) && self.is_forward(up) {
                self.up[id.index()] = self.climb_forwards(id);
            }
        }
        for slot in 0..self.inner.len() as u32 {
            let id = NodeId(self.leaves + slot);
            let inner = self.inner(id);
            if !inner.is_live() && inner.ends[0] != NodeId::NONE {
                self.release(id);
            }
        }
        self.forwards = 0;
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
