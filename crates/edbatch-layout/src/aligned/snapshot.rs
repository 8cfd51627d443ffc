//! A flattened PQ-tree: an array of nodes in which each node follows its children.
//!
//! A sub-tree is a range of the array, and so are the nodes of a candidate, because its variables
//! are consecutive. A node with two children counts as a Q-node even if the tree has it as a
//! P-node: its two orders are a direction and its reverse.
//!
//! *Cost*: O(variables).

use std::ops::RangeInclusive;

use pqtree::{Kind, NodeId, PqTree};

/// No node; the parent of the root.
pub(super) const NONE: u32 = u32::MAX;

/// The nodes of a tree, each after its children. The id of a node is its index in the array.
#[derive(Debug)]
pub(super) struct Snapshot {
    nodes: Vec<Node>,
    /// For each variable, the id of its leaf.
    leaves: Vec<u32>,
}

/// A node of a [`Snapshot`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub(super) parent: u32,
    /// The index among its parent's children, from the left.
    pub(super) index: u32,
    /// The number of children.
    pub(super) degree: u32,
    /// The id of the first leaf below this node. All ids from there up to this node's own belong to
    /// its sub-tree.
    pub(super) first: u32,
    /// The variable of a leaf, else `NONE`.
    pub(super) variable: u32,
    /// True for a P-node with three or more children, which come in any order.
    pub(super) permutes: bool,
}

impl Snapshot {
    pub(super) fn of(tree: &PqTree) -> Self {
        let mut snapshot = Self {
            nodes: Vec::with_capacity(2 * tree.len() as usize),
            leaves: vec![NONE; tree.len() as usize],
        };
        // The nodes without a parent so far.
        let mut open = Vec::new();
        tree.post_order().for_each(|node| snapshot.push(tree, node, &mut open));
        snapshot
    }

    /// Appends a node, after its children.
    fn push(&mut self, tree: &PqTree, node: NodeId, open: &mut Vec<u32>) {
        let degree = tree.degree(node);
        let permutes = degree > 2 && tree.kind(node) == Kind::P;
        let variable = tree.as_leaf(node).unwrap_or(NONE);
        let id = self.len();
        if variable != NONE {
            self.leaves[variable as usize] = id;
        }
        let children = open.len() - degree as usize;
        for (index, &child) in (0..).zip(&open[children..]) {
            self.nodes[child as usize].parent = id;
            self.nodes[child as usize].index = index;
        }
        let first = open.get(children).map_or(id, |&child| self.nodes[child as usize].first);
        open.truncate(children);
        open.push(id);
        self.nodes.push(Node { parent: NONE, index: 0, degree, first, variable, permutes });
    }

    pub(super) fn len(&self) -> u32 {
        self.nodes.len() as u32
    }

    pub(super) fn node(&self, id: u32) -> &Node {
        &self.nodes[id as usize]
    }

    /// Returns the id of a variable's leaf.
    pub(super) fn leaf(&self, variable: u32) -> u32 {
        self.leaves[variable as usize]
    }

    /// Iterates over siblings from right to left: from `last` to the one whose sub-tree begins at
    /// `first`.
    pub(super) fn children_down_to(&self, first: u32, last: u32) -> impl Iterator<Item = u32> {
        let mut next = Some(last);
        std::iter::from_fn(move || {
            let child = next?;
            next = self.node(child).first.checked_sub(1).filter(|&sibling| sibling >= first);
            Some(child)
        })
    }

    /// Iterates over the children of a node, from right to left.
    pub(super) fn children(&self, id: u32) -> impl Iterator<Item = u32> {
        let node = self.node(id);
        let some = (node.degree > 0).then(|| self.children_down_to(node.first, id - 1));
        some.into_iter().flatten()
    }

    /// Iterates over the variables below a node.
    pub(super) fn variables(&self, id: u32) -> impl Iterator<Item = u32> {
        let below = &self.nodes[self.node(id).first as usize..=id as usize];
        below.iter().map(|node| node.variable).filter(|&variable| variable != NONE)
    }

    /// Returns the ids of a candidate's nodes: all leaves below them are variables of the
    /// candidate. *Invariant*: the variables are consecutive in every order of the tree, so the ids
    /// are a range. The nodes are a sub-tree, or the sub-trees of adjacent children of a Q-node.
    pub(super) fn nodes_of(&self, positions: &[u32]) -> RangeInclusive<u32> {
        let leaves = || positions.iter().map(|&variable| self.leaf(variable));
        let first = leaves().min().expect("candidates have positions");
        let mut last = leaves().max().expect("candidates have positions");
        loop {
            let &Node { parent, index, .. } = self.node(last);
            if parent == NONE
                || index + 1 < self.node(parent).degree
                || self.node(parent).first < first
            {
                return first..=last;
            }
            last = parent;
        }
    }
}
