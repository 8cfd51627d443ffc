//! A flattened PQ-tree: an array of nodes in which each node follows its children.
//!
//! A sub-tree is a range of the array, and so are the nodes of an operand, because its variables
//! are consecutive. A node with two children counts as a Q-node even if the tree has it as a
//! P-node: its two orders are a direction and its reverse.
//!
//! *Cost*: O(variables).

use pqtree::{Kind, NodeId, PqTree};

/// No node; the parent of the root.
pub(super) const NONE: u32 = u32::MAX;

/// The nodes of a tree, each after its children. A node is named by its index in the array, its
/// *place*.
#[derive(Debug)]
pub(super) struct Snapshot {
    nodes: Vec<Node>,
    place_of_leaf: Vec<u32>,
}

/// A node of a [`Snapshot`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub(super) parent: u32,
    /// The index among its parent's children, from the left.
    pub(super) index: u32,
    /// The number of children.
    pub(super) degree: u32,
    /// The place of the first leaf below this node. All places from there up to this node's own
    /// belong to its sub-tree.
    pub(super) first: u32,
    /// The variable of a leaf, else `NONE`.
    pub(super) variable: u32,
    /// True for a P-node with three or more children, which come in any order.
    pub(super) permutes: bool,
}

/// The nodes of an operand: a range of places.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Part {
    pub(super) first: u32,
    pub(super) last: u32,
}

impl Snapshot {
    pub(super) fn of(tree: &PqTree) -> Self {
        let mut snapshot = Self {
            nodes: Vec::with_capacity(2 * tree.len() as usize),
            place_of_leaf: vec![NONE; tree.len() as usize],
        };
        // The nodes without a parent so far.
        let mut open = Vec::new();
        tree.post_order().for_each(|id| snapshot.push(tree, id, &mut open));
        snapshot
    }

    /// Appends a node, after its children.
    fn push(&mut self, tree: &PqTree, id: NodeId, open: &mut Vec<u32>) {
        let degree = tree.degree(id);
        let permutes = degree > 2 && tree.kind(id) == Kind::P;
        let variable = tree.as_leaf(id).unwrap_or(NONE);
        let place = self.nodes.len() as u32;
        if let Some(leaf) = tree.as_leaf(id) {
            self.place_of_leaf[leaf as usize] = place;
        }
        let children = open.len() - degree as usize;
        for (index, &child) in (0..).zip(&open[children..]) {
            self.nodes[child as usize].parent = place;
            self.nodes[child as usize].index = index;
        }
        let first = open.get(children).map_or(place, |&child| self.nodes[child as usize].first);
        open.truncate(children);
        open.push(place);
        self.nodes.push(Node { parent: NONE, index: 0, degree, first, variable, permutes });
    }

    pub(super) fn len(&self) -> u32 {
        self.nodes.len() as u32
    }

    pub(super) fn node(&self, place: u32) -> &Node {
        &self.nodes[place as usize]
    }

    pub(super) fn place(&self, variable: u32) -> u32 {
        self.place_of_leaf[variable as usize]
    }

    /// Siblings from right to left: from `last` to the one whose sub-tree begins at `first`.
    pub(super) fn children_down_to(&self, first: u32, last: u32) -> impl Iterator<Item = u32> {
        let mut next = Some(last);
        std::iter::from_fn(move || {
            let child = next?;
            next = self.node(child).first.checked_sub(1).filter(|&place| place >= first);
            Some(child)
        })
    }

    /// The children of a node, from right to left.
    pub(super) fn children(&self, place: u32) -> impl Iterator<Item = u32> {
        let node = self.node(place);
        let some = (node.degree > 0).then(|| self.children_down_to(node.first, place - 1));
        some.into_iter().flatten()
    }

    /// The variables below a node.
    pub(super) fn variables(&self, place: u32) -> impl Iterator<Item = u32> {
        let below = &self.nodes[self.node(place).first as usize..=place as usize];
        below.iter().map(|node| node.variable).filter(|&variable| variable != NONE)
    }

    /// Returns the nodes of an operand. *Invariant*: its variables are consecutive in every order
    /// of the tree.
    pub(super) fn part(&self, positions: &[u32]) -> Part {
        let places = || positions.iter().map(|&variable| self.place(variable));
        let first = places().min().expect("operands have positions");
        let mut last = places().max().expect("operands have positions");
        loop {
            let &Node { parent, index, .. } = self.node(last);
            if parent == NONE || index + 1 < self.node(parent).degree {
                break;
            }
            if self.node(parent).first < first {
                break;
            }
            last = parent;
        }
        Part { first, last }
    }
}

impl Part {
    /// The number of nodes.
    pub(super) fn len(self) -> usize {
        (self.last - self.first + 1) as usize
    }
}
