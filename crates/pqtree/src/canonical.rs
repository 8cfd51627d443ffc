//! A canonical form, the same for all trees that admit the same orders; `Eq` and `Hash` use it.
//!
//! The set of orders determines the tree, except for the order of a P-node's children and the
//! direction of a Q-node. The canonical form sorts the children of a P-node by their smallest leaf,
//! and starts a Q-node at the end with the smaller leaf.
//!
//! No sorting is needed. Climb from the leaves 0, 1, 2, … in turn, each time up to the first node
//! that an earlier climb has visited. The leaf of the climb that first visits a node is the node's
//! smallest leaf, so the children of each parent are found in ascending order.
//!
//! *Cost*: O(n).

use crate::builder::Builder;
use crate::node::{Kind, NodeId};
use crate::tree::PqTree;
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};

impl PqTree {
    /// Returns the tree in canonical form. Equal trees have the same canonical text.
    pub fn canonical(&self) -> Self {
        let mut builder = Builder::new(self.len());
        for token in self.tokens() {
            match token {
                OPEN_P => builder.open(Kind::P),
                OPEN_Q => builder.open(Kind::Q),
                CLOSE => builder.close(),
                leaf => builder.leaf(leaf),
            }
        }
        Self::from_nodes(builder.finish())
    }

    /// The canonical form as brackets and leaves.
    fn tokens(&self) -> Vec<u32> {
        let Some(root) = self.root() else {
            return Vec::new();
        };
        let Ranked { rank, first_child, next_sibling } = self.rank();
        let mut tokens = Vec::with_capacity(2 * self.node_bound());
        let mut to_come = alloc::vec![root];
        while let Some(node) = to_come.pop() {
            if node == NodeId::NONE {
                tokens.push(CLOSE);
                continue;
            }
            if self.nodes.is_leaf(node) {
                tokens.push(node.0);
                continue;
            }
            let kind = self.kind(node);
            tokens.push(if kind == Kind::Q { OPEN_Q } else { OPEN_P });
            to_come.push(NodeId::NONE);
            let begin = to_come.len();
            if kind == Kind::Q {
                to_come.extend(self.children(node));
                let [first, last] = self.nodes.ends(node).map(|end| rank[end.index()]);
                if first < last {
                    to_come[begin..].reverse();
                }
            } else {
                let mut child = first_child[node.index()];
                while child != NodeId::NONE {
                    to_come.push(child);
                    child = next_sibling[child.index()];
                }
            }
        }
        tokens
    }

    fn rank(&self) -> Ranked {
        let mut rank = alloc::vec![u32::MAX; self.node_bound()];
        let mut first_child = alloc::vec![NodeId::NONE; self.node_bound()];
        let mut next_sibling = first_child.clone();
        for leaf in 0..self.len() {
            let mut node = NodeId(leaf);
            while rank[node.index()] == u32::MAX {
                rank[node.index()] = leaf;
                let Some(parent) = self.parent(node) else {
                    break;
                };
                // Lists grow at the front, so the largest comes first, in the order of a stack.
                next_sibling[node.index()] = first_child[parent.index()];
                first_child[parent.index()] = node;
                node = parent;
            }
        }
        Ranked { rank, first_child, next_sibling }
    }
}

/// For each node, its smallest leaf (`rank`), and a list of its children in descending order of
/// rank.
struct Ranked {
    rank: Vec<u32>,
    first_child: Vec<NodeId>,
    next_sibling: Vec<NodeId>,
}

// Larger than any leaf, because a tree has at most 2^29 leaves.
const OPEN_P: u32 = u32::MAX;
const OPEN_Q: u32 = u32::MAX - 1;
const CLOSE: u32 = u32::MAX - 2;

impl PartialEq for PqTree {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.tokens() == other.tokens()
    }
}

impl Eq for PqTree {}

impl Hash for PqTree {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.tokens().hash(state);
    }
}
