//! Walks: children, nodes before or after their children, leaves from left to right.
//!
//! The siblings of a node are an unordered pair, so a walk along a list remembers where it came from. For a whole walk one
//! word a level is enough: the next child, and which of its two siblings is the one before. A level whose last child is
//! being walked is not kept. So there are never more words than leaves still to come, and a frontier can be written
//! without allocation, with the unwritten part of the output as the stack.
//!
//! Nothing is recursive: a tree of a million nested nodes is walked like any other.

use crate::node::{Kind, NodeId};
use crate::nodes::Nodes;
use crate::tree::PqTree;
use alloc::vec::Vec;
use core::iter::FusedIterator;

impl PqTree {
    /// The children of a node, from left to right; none for a leaf.
    pub fn children(&self, node: NodeId) -> Children<'_> {
        let next =
            if self.kind(node) == Kind::Leaf { NodeId::NONE } else { self.nodes.ends(node)[0] };
        Children { nodes: &self.nodes, next, previous: NodeId::NONE, left: self.degree(node) }
    }

    /// All nodes, each before its children.
    pub fn pre_order(&self) -> PreOrder<'_> {
        self.pre_order_of(self.nodes.root)
    }

    /// All nodes, each after its children.
    pub fn post_order(&self) -> PostOrder<'_> {
        PostOrder(self.events())
    }

    /// The leaves from left to right: the order in which the tree is stored, one of those that it admits.
    ///
    /// The iterator keeps a stack; [`write_frontier`](Self::write_frontier) allocates nothing.
    pub fn frontier(&self) -> Leaves<'_> {
        Leaves(self.pre_order())
    }

    /// The leaves below a node, from left to right. Of a leaf, itself.
    pub fn leaves_of(&self, node: NodeId) -> Leaves<'_> {
        self.assert_live(node);
        Leaves(self.pre_order_of(node))
    }

    /// Writes the leaves from left to right, without allocation.
    ///
    /// # Panics
    ///
    /// If `frontier` is not as long as the tree.
    pub fn write_frontier(&self, frontier: &mut [u32]) {
        assert_eq!(frontier.len(), self.len() as usize, "a frontier has one entry a leaf");
        let mut next = self.nodes.root;
        if next == NodeId::NONE {
            return;
        }
        // Invariant: `written` leaves in front, then room, then the steps of the levels that are not at their last child.
        // Each of these has a leaf to come, and the node `next` has one.
        let (mut written, mut stack) = (0, frontier.len());
        loop {
            if !self.nodes.is_leaf(next) {
                let child = self.nodes.ends(next)[0];
                if let Some(step) = Step::first(&self.nodes, child).beside(&self.nodes) {
                    stack -= 1;
                    frontier[stack] = step.0;
                }
                next = child;
                continue;
            }
            let top = frontier.get(stack).copied();
            frontier[written] = next.0;
            written += 1;
            let Some(step) = top.map(Step) else { return };
            next = step.node();
            match step.beside(&self.nodes) {
                Some(step) => frontier[stack] = step.0,
                None => stack += 1,
            }
        }
    }

    /// The tree as brackets and leaves, from left to right.
    pub(crate) fn events(&self) -> Events<'_> {
        let root = self.nodes.root;
        let next = if root == NodeId::NONE { Step::NONE } else { Step::first(&self.nodes, root) };
        Events { nodes: &self.nodes, next, above: Vec::new() }
    }

    fn pre_order_of(&self, node: NodeId) -> PreOrder<'_> {
        PreOrder { nodes: &self.nodes, top: node, to_come: Vec::new() }
    }
}

/// The children of a node. See [`PqTree::children`].
#[derive(Clone, Debug)]
pub struct Children<'a> {
    nodes: &'a Nodes,
    next: NodeId,
    previous: NodeId,
    left: u32,
}

impl Iterator for Children<'_> {
    type Item = NodeId;

    fn next(&mut self) -> Option<NodeId> {
        let child = self.next;
        if child == NodeId::NONE {
            return None;
        }
        self.left -= 1;
        self.next = self.nodes.sibling_beside(child, self.previous);
        self.previous = child;
        Some(child)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for Children<'_> {}
impl FusedIterator for Children<'_> {}

/// All nodes, each before its children. See [`PqTree::pre_order`].
#[derive(Clone, Debug)]
pub struct PreOrder<'a> {
    nodes: &'a Nodes,
    /// The node that comes next, if it is not on the stack.
    top: NodeId,
    to_come: Vec<Step>,
}

impl Iterator for PreOrder<'_> {
    type Item = NodeId;

    fn next(&mut self) -> Option<NodeId> {
        let mut node = self.top;
        if node == NodeId::NONE {
            let step = self.to_come.pop()?;
            self.to_come.extend(step.beside(self.nodes));
            node = step.node();
        }
        self.top = NodeId::NONE;
        if !self.nodes.is_leaf(node) {
            let child = self.nodes.ends(node)[0];
            self.to_come.extend(Step::first(self.nodes, child).beside(self.nodes));
            self.top = child;
        }
        Some(node)
    }
}

impl FusedIterator for PreOrder<'_> {}

/// All nodes, each after its children. See [`PqTree::post_order`].
#[derive(Clone, Debug)]
pub struct PostOrder<'a>(Events<'a>);

impl Iterator for PostOrder<'_> {
    type Item = NodeId;

    fn next(&mut self) -> Option<NodeId> {
        loop {
            match self.0.next()? {
                Event::Open(_) => {}
                Event::Leaf(leaf) => return Some(NodeId(leaf)),
                Event::Close(node) => return Some(node),
            }
        }
    }
}

impl FusedIterator for PostOrder<'_> {}

/// A bracket or a leaf.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    Open(NodeId),
    Leaf(u32),
    Close(NodeId),
}

/// The tree as brackets and leaves. Unlike the other walks it keeps every level, to close it.
#[derive(Clone, Debug)]
pub(crate) struct Events<'a> {
    nodes: &'a Nodes,
    /// Where to go; `NONE` when all children of the innermost level above are done.
    next: Step,
    above: Vec<Step>,
}

impl Iterator for Events<'_> {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        if self.next == Step::NONE {
            let step = self.above.pop()?;
            self.next = self.after(step);
            return Some(Event::Close(step.node()));
        }
        let step = self.next;
        let node = step.node();
        if self.nodes.is_leaf(node) {
            self.next = self.after(step);
            return Some(Event::Leaf(node.0));
        }
        self.above.push(step);
        self.next = Step::first(self.nodes, self.nodes.ends(node)[0]);
        Some(Event::Open(node))
    }
}

impl Events<'_> {
    fn after(&self, step: Step) -> Step {
        step.beside(self.nodes).unwrap_or(Step::NONE)
    }
}

/// Leaves from left to right. See [`PqTree::frontier`].
#[derive(Clone, Debug)]
pub struct Leaves<'a>(PreOrder<'a>);

impl Iterator for Leaves<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        loop {
            let node = self.0.next()?;
            if self.0.nodes.is_leaf(node) {
                return Some(node.0);
            }
        }
    }
}

impl FusedIterator for Leaves<'_> {}

/// A child, and (the highest bit) which of its two siblings comes next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Step(u32);

impl Step {
    const NONE: Self = Self(u32::MAX);
    const SECOND: u32 = 1 << 31;

    /// To the first child of a list: next is the sibling that there is.
    fn first(nodes: &Nodes, child: NodeId) -> Self {
        Self::to(nodes, child, NodeId::NONE)
    }

    fn to(nodes: &Nodes, child: NodeId, before: NodeId) -> Self {
        let second = nodes.siblings(child)[0] == before;
        Self(if second { child.0 | Self::SECOND } else { child.0 })
    }

    fn node(self) -> NodeId {
        NodeId(self.0 & !Self::SECOND)
    }

    /// To the next child of the list.
    fn beside(self, nodes: &Nodes) -> Option<Self> {
        let node = self.node();
        let next = nodes.siblings(node)[(self.0 >> 31) as usize];
        (next != NodeId::NONE).then(|| Self::to(nodes, next, node))
    }
}
