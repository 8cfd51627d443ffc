//! Slots of inner nodes: allocation, release, forwards and their removal; numbers for new leaves.

use crate::conflict::LeafError;
use crate::journal::Write;
use crate::node::{Kind, NodeId};
use crate::nodes::{MAX_LEAVES, Nodes, Tag, room};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// The number of free slots below which the next reduction may run out. A reduction takes one or
/// two slots for each level that it splits.
const SPARE: usize = 32;

impl Nodes {
    /// Allocates an inner node without children.
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
        self.ends.push([NodeId::NONE; 2]);
        self.tags.push(Tag::VACANT);
        node
    }

    #[cold]
    fn grow(&mut self) {
        let step = self.step();
        self.up.reserve_exact(step);
        self.siblings.reserve_exact(step);
        self.ends.reserve_exact(step);
        self.tags.reserve_exact(step);
    }

    /// The number of slots to add at once: a share of the number of leaves, which is smaller for
    /// large trees. Doubling would waste 12 MB on a million leaves.
    fn step(&self) -> usize {
        let steps = if self.leaves < 1 << 18 { 8 } else { 128 };
        16 + (self.leaves / steps) as usize
    }

    /// Frees the slot of a node to which no other node points.
    pub(crate) fn release(&mut self, node: NodeId) {
        self.set_degree(node, Kind::P, 0);
        self.set_ends(node, [NodeId::NONE; 2]);
        let free = self.free;
        self.set_up(node, free);
        self.free = node;
    }

    /// Turns the slot of a node into a forward to `heir`, which has taken over its children.
    pub(crate) fn forward(&mut self, node: NodeId, heir: NodeId) {
        self.set_degree(node, Kind::P, 0);
        self.set_ends(node, [heir; 2]);
        self.set_up(node, heir);
        self.forwards += 1;
    }

    /// Clears the forwards if there are many, or if this saves allocating slots. Does nothing while
    /// a checkpoint is open.
    ///
    /// *Cost*: O(leaves), amortised over the merges that made the forwards: at least one for every
    /// 128 leaves.
    pub(crate) fn compact(&mut self) {
        let is_short = self.free == NodeId::NONE && self.up.capacity() - self.up.len() < SPARE;
        let most = if is_short { self.step() } else { 8 + self.leaves as usize / 16 };
        if (self.forwards as usize) < most || self.journal.is_open() {
            return;
        }
        for id in (0..self.up.len() as u32).map(NodeId) {
            let up = self.up[id.index()];
            if id != self.root && self.is_live(id) && self.is_forward(up) {
                self.up[id.index()] = self.climb_forwards(id).0;
            }
        }
        for slot in 0..self.tags.len() as u32 {
            let id = NodeId(self.base + slot);
            if !self.is_live(id) && self.ends(id)[0] != NodeId::NONE {
                self.release(id);
            }
        }
        self.forwards = 0;
    }

    /// Returns true if `more` leaves need numbers that are not reserved.
    pub(crate) fn must_renumber(&self, more: u32) -> bool {
        self.leaves + more > self.base
    }

    /// Reserves numbers for `more` leaves; the caller has checked the limit. Returns the amount by
    /// which the numbers of inner nodes have grown: 0, or a large step, so that renumbering is
    /// rare. Fails if there is not enough memory.
    pub(crate) fn reserve_leaves(&mut self, more: u32) -> Result<u32, LeafError> {
        if !self.must_renumber(more) {
            return Ok(0);
        }
        let needed = self.leaves + more;
        let base = needed.max(self.base + self.base / 4 + 8).min(MAX_LEAVES);
        let by = base - self.base;
        let none = [NodeId::NONE; 2];
        let numbers = self.up.len() + by as usize;
        let (up, siblings) = (room(numbers, needed)?, room(numbers, needed)?);
        let up = self.shifted(&self.up, up, by, |up, shift| shift(up), NodeId::NONE);
        let siblings =
            self.shifted(&self.siblings, siblings, by, |pair, shift| pair.map(shift), none);
        if self.journal.is_open() {
            let old = Box::new(self.clone());
            self.journal.push(Write::Everything(old));
        }
        let shift = self.shift(by);
        self.ends.iter_mut().for_each(|pair| *pair = pair.map(&shift));
        (self.up, self.siblings) = (up, siblings);
        (self.root, self.free) = (shift(self.root), shift(self.free));
        self.base = base;
        Ok(by)
    }

    /// Copies a table of all nodes to `shifted`, with `by` unused entries before the inner nodes.
    fn shifted<T: Copy>(
        &self,
        table: &[T],
        mut shifted: Vec<T>,
        by: u32,
        entry: impl Fn(T, &dyn Fn(NodeId) -> NodeId) -> T,
        gap: T,
    ) -> Vec<T> {
        let shift = self.shift(by);
        let (leaves, inner) = table.split_at(self.base as usize);
        shifted.extend(leaves.iter().map(|&old| entry(old, &shift)));
        shifted.resize(leaves.len() + by as usize, gap);
        shifted.extend(inner.iter().map(|&old| entry(old, &shift)));
        shifted
    }

    /// Returns a function from old node numbers to new ones, when `by` is added to all inner nodes.
    fn shift(&self, by: u32) -> impl Fn(NodeId) -> NodeId + 'static {
        let base = self.base;
        move |node| {
            let is_inner = node != NodeId::NONE && node.0 >= base;
            if is_inner { NodeId(node.0 + by) } else { node }
        }
    }
}
