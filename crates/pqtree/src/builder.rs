//! Building a tree from outside in, as its text is read: open a node, leaves, close.
//!
//! Nodes that would have one child dissolve into it, nodes without children vanish, and a Q-node of
//! two children becomes a P-node. So any nesting gives a proper tree.

use crate::node::{Kind, NodeId};
use crate::nodes::Nodes;
use alloc::vec::Vec;

/// A tree under construction.
#[derive(Debug)]
pub(crate) struct Builder {
    nodes: Nodes,
    /// Of each open node, its kind and where its children begin in `children`.
    open: Vec<(Kind, usize)>,
    children: Vec<NodeId>,
}

impl Builder {
    /// For a tree of that many leaves, each of which has to be [added](Self::leaf) once.
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
        let (kind, begin) = self.open.pop().expect("closed no more often than opened");
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

    /// The tree, once all is closed: its root is what was built last, and must be all that was
    /// built.
    pub(crate) fn finish(mut self) -> Nodes {
        debug_assert!(self.open.is_empty() && self.children.len() < 2, "one tree");
        self.nodes.root = self.children.pop().unwrap_or(NodeId::NONE);
        self.nodes
    }
}
