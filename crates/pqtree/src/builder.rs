//! Builds a tree from the outside in, in the order of its text: open a node, add leaves, close it.
//!
//! A node with one child is replaced by that child, a node without children is dropped, and a
//! Q-node with two children becomes a P-node. So any nesting gives a valid tree.

use crate::node::{Kind, NodeId};
use crate::nodes::Nodes;
use alloc::vec::Vec;

/// A tree under construction.
#[derive(Debug)]
pub(crate) struct Builder {
    nodes: Nodes,
    /// For each open node, its kind and the index of its first child in `children`.
    open: Vec<(Kind, usize)>,
    children: Vec<NodeId>,
}

impl Builder {
    /// Starts a tree of `leaves` leaves. Each must be [added](Self::leaf) once.
    pub(crate) fn new(leaves: u32) -> Self {
        Self { nodes: Nodes::unconnected(leaves), open: Vec::new(), children: Vec::new() }
    }

    pub(crate) fn open(&mut self, kind: Kind) {
        self.open.push((kind, self.children.len()));
    }

    pub(crate) fn leaf(&mut self, leaf: u32) {
        self.children.push(NodeId(leaf));
    }

    pub(crate) fn close(&mut self) {
        let (kind, begin) = self.open.pop().expect("each close follows an open");
        let count = self.children.len() - begin;
        if count < 2 {
            return;
        }
        let node = self.nodes.allocate();
        let kind = if count == 2 { Kind::P } else { kind };
        self.nodes.set_children(node, kind, &self.children[begin..]);
        self.children.truncate(begin);
        self.children.push(node);
    }

    /// Returns the tree. All nodes must be closed, and there must be exactly one root.
    pub(crate) fn finish(mut self) -> Nodes {
        debug_assert!(self.open.is_empty() && self.children.len() < 2, "one tree");
        self.nodes.root = self.children.pop().unwrap_or(NodeId::NONE);
        self.nodes
    }
}
