//! A PQ-tree, flattened: its nodes in an array, each after its children.
//!
//! A sub-tree is a range of the array, and so are the nodes of an operand, as its variables are
//! consecutive. A node with two children counts as a Q-node, whichever it is in the tree: both of
//! its orders are a direction and its reverse.
//!
//! *Cost*: O(variables).

use pqtree::{Kind, NodeId, PqTree};

/// No node: above the root.
pub(super) const NONE: u32 = u32::MAX;

/// The nodes of a tree, each after its children. A node's name is its place.
#[derive(Debug)]
pub(super) struct Snapshot {
    nodes: Vec<Node>,
    place_of_leaf: Vec<u32>,
    /// The nodes that have no parent yet.
    open: Vec<u32>,
}

/// A node of a [`Snapshot`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub(super) parent: u32,
    /// Which of its parent's children this is, from the left.
    pub(super) index: u32,
    /// The number of children.
    pub(super) degree: u32,
    /// The first leaf below it. All places from there to its own are nodes below it.
    pub(super) first: u32,
    /// The variable, of a leaf.
    pub(super) variable: u32,
    /// Whether three or more children come in any order.
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
        let mut snapshot = Self::empty(tree.len());
        snapshot.nodes.reserve(2 * tree.len() as usize);
        tree.post_order().for_each(|id| snapshot.push(tree, id));
        snapshot
    }

    /// No node yet, of a tree with so many variables.
    pub(super) fn empty(variables: u32) -> Self {
        let place_of_leaf = vec![NONE; variables as usize];
        Self { nodes: Vec::new(), place_of_leaf, open: Vec::new() }
    }

    /// Takes all nodes out. The places of variables stand until these are pushed again.
    pub(super) fn clear(&mut self) {
        self.nodes.clear();
        self.open.clear();
    }

    /// Adds a node of a tree, after its children.
    pub(super) fn push(&mut self, tree: &PqTree, id: NodeId) {
        let degree = tree.degree(id);
        let permutes = degree > 2 && tree.kind(id) == Kind::P;
        let variable = tree.as_leaf(id).unwrap_or(NONE);
        if let Some(leaf) = tree.as_leaf(id) {
            self.place_of_leaf[leaf as usize] = self.nodes.len() as u32;
        }
        self.push_above(degree, permutes, variable);
    }

    /// Adds a part of a Q-node above the last nodes without parents: some children that are
    /// neighbours.
    pub(super) fn push_run(&mut self, degree: u32) {
        self.push_above(degree, false, NONE);
    }

    fn push_above(&mut self, degree: u32, permutes: bool, variable: u32) {
        let place = self.nodes.len() as u32;
        let children = self.open.len() - degree as usize;
        for (index, &child) in (0..).zip(&self.open[children..]) {
            self.nodes[child as usize].parent = place;
            self.nodes[child as usize].index = index;
        }
        let first =
            self.open.get(children).map_or(place, |&child| self.nodes[child as usize].first);
        self.open.truncate(children);
        self.open.push(place);
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

    /// The children of a node, or of the part of a list of children that ends at `last`, from right
    /// to left.
    pub(super) fn children_down_to(&self, first: u32, last: u32) -> impl Iterator<Item = u32> {
        let mut next = Some(last);
        std::iter::from_fn(move || {
            let child = next?;
            next = self.node(child).first.checked_sub(1).filter(|&place| place >= first);
            Some(child)
        })
    }

    /// The children of a node from right to left; none of a leaf.
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

    /// The nodes of an operand. *Invariant*: its variables are consecutive in every order of the
    /// tree.
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
    /// How many nodes there are.
    pub(super) fn len(self) -> usize {
        (self.last - self.first + 1) as usize
    }
}
