//! Slots of inner nodes: taken, given back, forwarded, and the forwards cleared out.

use crate::node::{Kind, NodeId};
use crate::nodes::{Inner, Nodes};

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
}
