//! A PQ-tree, flattened: its nodes in an array, each after its children.
//!
//! A sub-tree is a range of the array, and so are the nodes of an operand, as its variables are consecutive. A node with
//! two children counts as a Q-node, whichever it is in the tree: both of its orders are a direction and its reverse.
//!
//! *Cost*: O(variables).

use pqtree::{Kind, PqTree};

/// No node: above the root.
pub(super) const NONE: u32 = u32::MAX;

/// The nodes of a tree, each after its children. A node's name is its place.
#[derive(Debug)]
pub(super) struct Snapshot {
    nodes: Vec<Node>,
    place_of_leaf: Vec<u32>,
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
        let mut nodes: Vec<Node> = Vec::with_capacity(2 * tree.len() as usize);
        let mut place_of_leaf = vec![NONE; tree.len() as usize];
        let mut open: Vec<u32> = Vec::new();
        for id in tree.post_order() {
            let (place, degree) = (nodes.len() as u32, tree.degree(id));
            let children = open.len() - degree as usize;
            for (index, &child) in (0..).zip(&open[children..]) {
                nodes[child as usize].parent = place;
                nodes[child as usize].index = index;
            }
            let first = open.get(children).map_or(place, |&child| nodes[child as usize].first);
            open.truncate(children);
            open.push(place);
            let variable = tree.as_leaf(id).unwrap_or(NONE);
            if let Some(leaf) = tree.as_leaf(id) {
                place_of_leaf[leaf as usize] = place;
            }
            let permutes = tree.kind(id) == Kind::P && degree > 2;
            nodes.push(Node { parent: NONE, index: 0, degree, first, variable, permutes });
        }
        Self { nodes, place_of_leaf }
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

    /// The children of a node, or of the part of a list of children that ends at `last`, from right to left.
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

    /// The nodes of an operand. *Invariant*: its variables are consecutive in every order of the tree.
    pub(super) fn part(&self, lanes: &[u32]) -> Part {
        let places = || lanes.iter().map(|&variable| self.place(variable));
        let first = places().min().expect("operands have lanes");
        let mut last = places().max().expect("operands have lanes");
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
