//! Finding the leaves that prove a conflict, in the marks that a failed reduction leaves behind.
//!
//! By then all paths to the apex are complete: a node that no mark was put on has no leaf of the set below it.
//!
//! *Cost*: O(|S| + depth), only after a failure.

use crate::conflict::{Conflict, ReduceError};
use crate::label::{NIL, Touched, Work};
use crate::node::NodeId;
use crate::nodes::Nodes;

impl Work {
    /// Three predecessors of one node.
    pub(crate) fn three_splits(&self, nodes: &Nodes, places: [u32; 3]) -> ReduceError {
        let inside = places.map(|place| self.leaf_inside(nodes, place));
        let outside = places.map(|place| self.leaf_outside(nodes, place));
        ReduceError::Conflict(Conflict::ThreeSplits { inside, outside })
    }

    /// Two predecessors of a node below the apex.
    pub(crate) fn two_splits(&self, nodes: &Nodes, apex: u32, place: u32) -> ReduceError {
        let places = self.touched[place as usize].predecessors;
        let inside = places.map(|place| self.leaf_inside(nodes, place));
        let outside = places.map(|place| self.leaf_outside(nodes, place));
        let beyond = self.leaf_beyond(nodes, apex, place);
        ReduceError::Conflict(Conflict::TwoSplits { inside, outside, beyond })
    }

    /// A Q-node in which a child that is not full lies between two that are full or predecessors.
    pub(crate) fn separated(&self, nodes: &Nodes, place: u32) -> ReduceError {
        let node = self.touched[place as usize].node;
        let (mut before, mut between) = (None, None);
        let [mut child, _] = nodes.ends(node);
        let mut previous = NodeId::NONE;
        while child != NodeId::NONE {
            let inside = self.child_inside(nodes, place, child);
            if let (Some(a), Some(x), Some(b)) = (before, between, inside) {
                return ReduceError::Conflict(Conflict::Separated { inside: [a, b], outside: x });
            }
            if before.is_some() && !self.is_full(nodes, child) {
                between = between.or(Some(self.child_outside(nodes, child)));
            }
            before = before.or(inside);
            (previous, child) = (child, nodes.sibling_beside(child, previous));
        }
        unreachable!("a child that is not full lies between two that have leaves of the set")
    }

    /// A Q-node below the apex whose full children and predecessor lie together, but not at an end.
    pub(crate) fn enclosed(&self, nodes: &Nodes, apex: u32, place: u32) -> ReduceError {
        let node = self.touched[place as usize].node;
        let (mut first, mut inside, mut last) = (None, None, None);
        let [mut child, _] = nodes.ends(node);
        let mut previous = NodeId::NONE;
        while child != NodeId::NONE {
            let full = self.is_full(nodes, child);
            if let Some(leaf) = self.child_inside(nodes, place, child)
                && (full || inside.is_none())
            {
                inside = Some(leaf);
            }
            if !full {
                let outside = self.child_outside(nodes, child);
                first = first.or(Some(outside));
                last = Some(outside);
            }
            (previous, child) = (child, nodes.sibling_beside(child, previous));
        }
        let invariant = "children that are not full lie on both sides";
        ReduceError::Conflict(Conflict::Enclosed {
            inside: inside.expect(invariant),
            outside: [first.expect(invariant), last.expect(invariant)],
            beyond: self.leaf_beyond(nodes, apex, place),
        })
    }

    /// A leaf of the set that is not below the node at `place`, itself below the apex.
    fn leaf_beyond(&self, nodes: &Nodes, apex: u32, place: u32) -> u32 {
        let Touched { node, last_full, predecessors, .. } = self.touched[apex as usize];
        if last_full != NIL {
            return any_leaf(nodes, self.marked[last_full as usize].node);
        }
        let mut branch = self.touched[place as usize].node;
        while nodes.parent(branch) != node {
            branch = nodes.parent(branch);
        }
        let other =
            predecessors.into_iter().find(|&other| self.touched[other as usize].node != branch);
        self.leaf_inside(nodes, other.expect("an apex without full children has two predecessors"))
    }

    /// A leaf of the set below a child of the node at `place`, if the child is full or a predecessor.
    fn child_inside(&self, nodes: &Nodes, place: u32, child: NodeId) -> Option<u32> {
        if self.is_full(nodes, child) {
            return Some(any_leaf(nodes, child));
        }
        if nodes.is_leaf(child) {
            return None;
        }
        let below = self.place(nodes, child)?;
        let is_predecessor = self.touched[place as usize].predecessors.contains(&below);
        is_predecessor.then(|| self.leaf_inside(nodes, below))
    }

    /// A leaf not of the set below a node that is not full.
    fn child_outside(&self, nodes: &Nodes, child: NodeId) -> u32 {
        if nodes.is_leaf(child) {
            return child.0;
        }
        match self.place(nodes, child) {
            Some(place) => self.leaf_outside(nodes, place),
            None => any_leaf(nodes, child),
        }
    }

    /// A leaf of the set below a partial node, or one on the way from it.
    fn leaf_inside(&self, nodes: &Nodes, mut place: u32) -> u32 {
        loop {
            let Touched { last_full, predecessors, .. } = self.touched[place as usize];
            if last_full != NIL {
                return any_leaf(nodes, self.marked[last_full as usize].node);
            }
            place = predecessors[0];
        }
    }

    /// A leaf not of the set below a partial node, or one on the way from it.
    fn leaf_outside(&self, nodes: &Nodes, mut place: u32) -> u32 {
        loop {
            let [mut child, _] = nodes.ends(self.touched[place as usize].node);
            let mut previous = NodeId::NONE;
            while self.is_full(nodes, child) {
                (previous, child) = (child, nodes.sibling_beside(child, previous));
            }
            if nodes.is_leaf(child) {
                return child.0;
            }
            match self.place(nodes, child) {
                Some(below) => place = below,
                None => return any_leaf(nodes, child),
            }
        }
    }
}

fn any_leaf(nodes: &Nodes, mut node: NodeId) -> u32 {
    while !nodes.is_leaf(node) {
        [node, _] = nodes.ends(node);
    }
    node.0
}
