//! Why a reduction was refused, with leaves that prove it.
//!
//! A [`Conflict`] names at most six leaves, `inside` of the set and `outside` of it. They prove the refusal on their own:
//! in the tree [projected](crate::PqTree::project) onto these leaves, those inside cannot be made consecutive either.
//!
//! *Source*: the cases follow the four ways in which the check can fail; R. McConnell, "A certifying algorithm for the
//! consecutive-ones property" (SODA 2004), for why a refusal ought to come with a proof.
//!
//! *Cost*: O(|S| + depth), only after a failure.

use crate::label::{NIL, Touched, Work};
use crate::node::NodeId;
use crate::nodes::Nodes;
use alloc::vec::Vec;
use core::fmt;

/// Why a set was not made consecutive. The tree is as it was.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ReduceError {
    /// No order that the tree admits has the set consecutive.
    Conflict(Conflict),
    /// The set is none.
    Leaf(LeafError),
}

/// What is wrong with a list of leaves, all of which have to be in the tree, and different.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LeafError {
    /// A leaf is named that the tree has not.
    OutOfRange {
        /// The leaf named.
        leaf: u32,
        /// How many leaves the tree has.
        leaves: u32,
    },
    /// A leaf is named twice.
    Repeated {
        /// That leaf.
        leaf: u32,
    },
}

/// Leaves that prove that a set cannot be made consecutive.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Conflict {
    /// In every order `outside` lies between the two leaves `inside`.
    Separated {
        /// Leaves of the set.
        inside: [u32; 2],
        /// A leaf not of the set.
        outside: u32,
    },
    /// In every order `inside` lies between the two leaves `outside`, and `beyond` does not.
    Enclosed {
        /// A leaf of the set.
        inside: u32,
        /// Leaves not of the set.
        outside: [u32; 2],
        /// A leaf of the set.
        beyond: u32,
    },
    /// `inside[i]` and `outside[i]`, for i = 0 and 1, are two groups which stay apart from each other, and `beyond` never
    /// comes between them: from `beyond`, one of the groups has to be crossed to reach the other.
    TwoSplits {
        /// Leaves of the set, one of each group.
        inside: [u32; 2],
        /// Leaves not of the set, one of each group.
        outside: [u32; 2],
        /// A leaf of the set.
        beyond: u32,
    },
    /// `inside[i]` and `outside[i]` are three groups that stay apart from each other: each of them has a border of the set
    /// inside it, and there are but two borders.
    ThreeSplits {
        /// Leaves of the set, one of each group.
        inside: [u32; 3],
        /// Leaves not of the set, one of each group.
        outside: [u32; 3],
    },
}

impl Conflict {
    /// The leaves of the proof that are in the set.
    pub fn inside(&self) -> Vec<u32> {
        match *self {
            Self::Separated { inside, .. } => inside.to_vec(),
            Self::Enclosed { inside, beyond, .. } => [inside, beyond].to_vec(),
            Self::TwoSplits { inside: [a, b], beyond, .. } => [a, b, beyond].to_vec(),
            Self::ThreeSplits { inside, .. } => inside.to_vec(),
        }
    }

    /// The leaves of the proof that are not in the set.
    pub fn outside(&self) -> Vec<u32> {
        match *self {
            Self::Separated { outside, .. } => [outside].to_vec(),
            Self::Enclosed { outside, .. } | Self::TwoSplits { outside, .. } => outside.to_vec(),
            Self::ThreeSplits { outside, .. } => outside.to_vec(),
        }
    }
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Separated { inside: [a, b], outside } => {
                write!(f, "{outside}, not of the set, lies between {a} and {b} in every order")
            }
            Self::Enclosed { inside, outside: [x, y], beyond } => {
                write!(
                    f,
                    "{inside} lies between {x} and {y}, not of the set, in every order, and {beyond} beyond them"
                )
            }
            Self::TwoSplits { inside: [a, b], outside: [x, y], beyond } => write!(
                f,
                "from {beyond}, either {a} with {x} or {b} with {y} has to be crossed to reach the other, and {x} and {y} \
                 are not of the set"
            ),
            Self::ThreeSplits { inside: [a, b, c], outside: [x, y, z] } => write!(
                f,
                "the set would need a border between {a} and {x}, one between {b} and {y}, and one between {c} and {z}"
            ),
        }
    }
}

impl fmt::Display for ReduceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conflict(conflict) => write!(f, "the set cannot be made consecutive: {conflict}"),
            Self::Leaf(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for LeafError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfRange { leaf, leaves } => {
                write!(
                    f,
                    "leaf {leaf} is out of range: the tree has {leaves} leaves, numbered from 0"
                )
            }
            Self::Repeated { leaf } => write!(f, "leaf {leaf} is named twice: name each leaf once"),
        }
    }
}

impl From<LeafError> for ReduceError {
    fn from(error: LeafError) -> Self {
        Self::Leaf(error)
    }
}

impl core::error::Error for LeafError {}

impl core::error::Error for Conflict {}

impl core::error::Error for ReduceError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Conflict(conflict) => Some(conflict),
            Self::Leaf(error) => Some(error),
        }
    }
}

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
        let [mut child, _] = nodes.inner(node).ends;
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
        let [mut child, _] = nodes.inner(node).ends;
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
            let [mut child, _] = nodes.inner(self.touched[place as usize].node).ends;
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
        [node, _] = nodes.inner(node).ends;
    }
    node.0
}
