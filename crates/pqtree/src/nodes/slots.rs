//! Slots of inner nodes: taken, given back, forwarded, and the forwards cleared out.

use crate::node::{Kind, NodeId};
use crate::nodes::{Nodes, Tag};

/// With fewer slots left than this the next reduction may need more: it takes one or two at each level that it splits.
const SPARE: usize = 32;

impl Nodes {
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

    /// How many slots are added at once: few, where it matters. Doubling would spend, on a million leaves, twelve megabytes
    /// for nothing.
    fn step(&self) -> usize {
        let steps = if self.leaves < 1 << 18 { 8 } else { 128 };
        16 + (self.leaves / steps) as usize
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

    /// Clears out the forwards when they are many, or when they are as many as the slots that would otherwise be added
    /// now. Not while a checkpoint is open.
    ///
    /// *Cost*: O(leaves), paid for by the merges that made a sixteenth as many forwards, or a 128th.
    pub(crate) fn compact(&mut self) {
        let is_short = self.free == NodeId::NONE && self.up.capacity() - self.up.len() < SPARE;
        let most = if is_short { self.step() } else { 8 + self.leaves as usize / 16 };
        if (self.forwards as usize) < most || self.journal.is_open() {
            return;
        }
        for id in (0..self.up.len() as u32).map(NodeId) {
            let up = self.up[id.index()];
            if id != self.root && self.is_live(id) && self.is_forward(up) {
                self.up[id.index()] = self.climb_forwards(id);
            }
        }
        for slot in 0..self.tags.len() as u32 {
            let id = NodeId(self.leaves + slot);
            if !self.is_live(id) && self.ends(id)[0] != NodeId::NONE {
                self.release(id);
            }
        }
        self.forwards = 0;
    }
}
