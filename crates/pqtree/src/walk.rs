//! Walks: children, nodes before or after their children, leaves from left to right. None of them
//! allocates or recurses, so deep trees are not a special case.
//!
//! The siblings of a node are an unordered pair, so a walk along a list remembers the previous
//! node. At the end of the list it goes up; one bit per level says which sibling of the parent
//! comes next. It keeps these bits for the lowest 512 levels. When it returns to a higher level, it
//! searches the parent's list for its position. [`PqTree::write_frontier`] uses no parents: it
//! keeps a word for each level that is not at its last child, in the unwritten part of its output.
//!
//! *Cost*: O(n) for a whole walk. Each return to a level from more than 512 levels below adds the
//! length of the list there.

use crate::node::{Kind, NodeId};
use crate::nodes::Nodes;
use crate::tree::PqTree;
use core::iter::FusedIterator;

impl PqTree {
    /// Returns the children of a node, from left to right. A leaf has none.
    pub fn children(&self, node: NodeId) -> Children<'_> {
        let next =
            if self.kind(node) == Kind::Leaf { NodeId::NONE } else { self.nodes.ends(node)[0] };
        Children { nodes: &self.nodes, next, previous: NodeId::NONE, left: self.degree(node) }
    }

    /// Returns all nodes, each before its children.
    pub fn pre_order(&self) -> PreOrder<'_> {
        PreOrder(self.events())
    }

    /// Returns all nodes, each after its children.
    pub fn post_order(&self) -> PostOrder<'_> {
        PostOrder(self.events())
    }

    /// Returns the leaves from left to right, in the stored order, which is one that the tree
    /// admits. [`write_frontier`](Self::write_frontier) is faster.
    pub fn frontier(&self) -> Leaves<'_> {
        Leaves(self.events())
    }

    /// Returns the leaves below a node, from left to right. For a leaf, this is the leaf itself.
    pub fn leaves_of(&self, node: NodeId) -> Leaves<'_> {
        self.assert_live(node);
        Leaves(self.events_of(node))
    }

    /// Writes the leaves from left to right. Does not allocate.
    ///
    /// # Panics
    ///
    /// If the length of `frontier` is not the number of leaves.
    pub fn write_frontier(&self, frontier: &mut [u32]) {
        assert_eq!(frontier.len(), self.len() as usize, "a frontier has one entry per leaf");
        let mut next = self.nodes.root;
        if next == NodeId::NONE {
            return;
        }
        // *Invariant*: `frontier` holds `written` leaves, then a gap, then the steps of all levels
        // that are not at their last child. At least one leaf is left for each of these, and for
        // `next`.
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

    /// Returns the tree as brackets and leaves, from left to right.
    pub(crate) fn events(&self) -> Events<'_> {
        self.events_of(self.nodes.root)
    }

    fn events_of(&self, top: NodeId) -> Events<'_> {
        let at = if top == NodeId::NONE { At::End } else { At::Enter(Step(top.0)) };
        Events { nodes: &self.nodes, top, at, turns: Turns::default() }
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

/// Declares walks that return an item for some of the events of a tree.
macro_rules! walks {
    ($($(#[$doc:meta])* $Walk:ident($Item:ty) { $($event:pat => $item:expr,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $Walk<'a>(Events<'a>);

        impl Iterator for $Walk<'_> {
            type Item = $Item;

            fn next(&mut self) -> Option<$Item> {
                self.0.find_map(|event| match event {
                    $($event => Some($item),)*
                    _ => None,
                })
            }
        }

        impl FusedIterator for $Walk<'_> {}
    )*};
}

walks! {
    /// All nodes, each before its children. See [`PqTree::pre_order`].
    PreOrder(NodeId) { Event::Open(node) => node, Event::Leaf(leaf) => NodeId(leaf), }
    /// All nodes, each after its children. See [`PqTree::post_order`].
    PostOrder(NodeId) { Event::Leaf(leaf) => NodeId(leaf), Event::Close(node) => node, }
    /// Leaves from left to right. See [`PqTree::frontier`].
    Leaves(u32) { Event::Leaf(leaf) => leaf, }
}

/// A bracket or a leaf.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    Open(NodeId),
    Leaf(u32),
    Close(NodeId),
}

/// A walk of a tree or subtree as brackets and leaves.
#[derive(Clone, Debug)]
pub(crate) struct Events<'a> {
    nodes: &'a Nodes,
    top: NodeId,
    at: At,
    /// For each node that the walk is inside: true if its second sibling comes next.
    turns: Turns,
}

/// The next action of a walk.
#[derive(Clone, Copy, Debug)]
enum At {
    Enter(Step),
    Leave(NodeId),
    End,
}

impl Iterator for Events<'_> {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        match self.at {
            At::Enter(step) if self.nodes.is_leaf(step.node()) => {
                self.at = self.after(step);
                Some(Event::Leaf(step.node().0))
            }
            At::Enter(step) => {
                let node = step.node();
                self.turns.push(step.is_second());
                self.at = At::Enter(Step::first(self.nodes, self.nodes.ends(node)[0]));
                Some(Event::Open(node))
            }
            At::Leave(node) => {
                let step = match self.turns.pop() {
                    Some(true) => Step(node.0 | Step::SECOND),
                    Some(false) => Step(node.0),
                    None => self.find_step(node),
                };
                self.at = self.after(step);
                Some(Event::Close(node))
            }
            At::End => None,
        }
    }
}

impl Events<'_> {
    fn after(&self, step: Step) -> At {
        let node = step.node();
        if node == self.top {
            return At::End;
        }
        step.beside(self.nodes).map_or_else(|| At::Leave(self.nodes.parent(node)), At::Enter)
    }

    /// Finds which sibling of a node comes next, from the node's position in its parent's list.
    fn find_step(&self, node: NodeId) -> Step {
        if node == self.top {
            return Step(node.0);
        }
        let [first, _] = self.nodes.ends(self.nodes.parent(node));
        let mut step = Step::first(self.nodes, first);
        while step.node() != node {
            step = step.beside(self.nodes).expect("the node is in its parent's list");
        }
        step
    }
}

/// A stack of bits that keeps only the last `MAX` of them.
#[derive(Clone, Debug, Default)]
struct Turns {
    bits: [u64; 8],
    /// The index of the next bit; `kept` bits before it are valid.
    next: u32,
    kept: u32,
}

impl Turns {
    const MAX: u32 = 512;

    fn push(&mut self, bit: bool) {
        let (word, mask) = (&mut self.bits[self.next as usize / 64], 1 << (self.next % 64));
        *word = if bit { *word | mask } else { *word & !mask };
        self.next = (self.next + 1) % Self::MAX;
        self.kept = Self::MAX.min(self.kept + 1);
    }

    /// Returns the last bit, if it is still kept.
    fn pop(&mut self) -> Option<bool> {
        self.kept = self.kept.checked_sub(1)?;
        self.next = (self.next + Self::MAX - 1) % Self::MAX;
        Some(self.bits[self.next as usize / 64] >> (self.next % 64) & 1 == 1)
    }
}

/// A child and, in the highest bit, which of its two siblings comes next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Step(u32);

impl Step {
    const SECOND: u32 = 1 << 31;

    /// The step to the first child of a list, which has no sibling before it.
    fn first(nodes: &Nodes, child: NodeId) -> Self {
        Self::to(nodes, child, NodeId::NONE)
    }

    fn to(nodes: &Nodes, child: NodeId, before: NodeId) -> Self {
        let second = nodes.siblings(child)[0] == before;
        Self(if second { child.0 | Self::SECOND } else { child.0 })
    }

    fn is_second(self) -> bool {
        self.0 & Self::SECOND != 0
    }

    fn node(self) -> NodeId {
        NodeId(self.0 & !Self::SECOND)
    }

    /// The step to the next child of the list.
    fn beside(self, nodes: &Nodes) -> Option<Self> {
        let node = self.node();
        let next = nodes.siblings(node)[(self.0 >> 31) as usize];
        (next != NodeId::NONE).then(|| Self::to(nodes, next, node))
    }
}
