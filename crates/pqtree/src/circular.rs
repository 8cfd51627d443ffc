//! Orders in a circle: PC-trees.
//!
//! Cut the circle at one element, the *hinge*, and a circular order is a linear order of the
//! others. A set without the hinge is together in the circle just if it is consecutive there; a set
//! with it, just if its complement is. So a PC-tree is a PQ-tree hung up at the hinge: its P-nodes,
//! and its Q-nodes, there called C-nodes, keep their neighbours in any order, or in a circular one
//! and its reverse.
//!
//! *Source*: W.-L. Hsu and R. McConnell, "PC trees and circular-ones arrangements" (2003).

use crate::conflict::{LeafError, ReduceError};
use crate::count::OrderCount;
use crate::journal::{Checkpoint, Undo, attempt};
use crate::node::{Kind, NodeId};
use crate::text::ParseError;
use crate::tree::{PqTree, check_count};
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

/// A set of circular orders of the elements `0..len`, in which given sets are each together.
///
/// Rotations of an order are the same order, its mirror image is another.
///
/// ```
/// # use pqtree::CircularTree;
/// let mut tree = CircularTree::new(6);
/// tree.reduce(&[0, 1])?;
/// tree.reduce(&[1, 2])?;
/// tree.reduce(&[5, 0])?;
/// assert!(tree.contains_order(&[1, 2, 4, 3, 5, 0]));
/// assert_eq!(tree.orders_count(), Some(2 * 2));
/// assert!(tree.reduce(&[0, 2]).is_err());
/// # Ok::<(), pqtree::ReduceError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct CircularTree {
    /// All elements but the hinge, which is the last one.
    tree: PqTree,
    elements: u32,
}

/// Elements that prove that a set cannot be together: in no order of just these, which the tree
/// admits, are those inside.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct CircularConflict {
    /// Elements of the set.
    pub inside: Vec<u32>,
    /// Elements not of the set.
    pub outside: Vec<u32>,
}

/// A neighbour of an inner node of a PC-tree.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CircularNode {
    /// An element.
    Element(u32),
    /// Another inner node.
    Inner(NodeId),
}

impl CircularTree {
    /// The tree that admits every circular order of the elements `0..elements`.
    ///
    /// # Panics
    ///
    /// If there are more than [`PqTree::MOST_LEAVES`]: [`try_new`](Self::try_new) does not.
    pub fn new(elements: u32) -> Self {
        match Self::try_new(elements) {
            Ok(tree) => tree,
            Err(error) => panic!("{error}"),
        }
    }

    /// The tree that admits every circular order of the elements `0..elements`, if they are not too
    /// many.
    pub fn try_new(elements: u32) -> Result<Self, LeafError> {
        check_count(elements.into())?;
        Ok(Self { tree: PqTree::new(elements.saturating_sub(1)), elements })
    }

    /// How many elements there are.
    pub fn len(&self) -> u32 {
        self.elements
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.elements == 0
    }

    /// Keeps only those orders in which `set` is together, and so is its complement. All or
    /// nothing. Returns whether an order was lost.
    ///
    /// *Cost*: that of [`PqTree::reduce`]; O(n) if the set has the last element.
    pub fn reduce(&mut self, set: &[u32]) -> Result<bool, ReduceError> {
        let (set, _) = self.without_hinge(set)?;
        Ok(self.tree.reduce(&set)?.changed)
    }

    /// Whether [`reduce`](Self::reduce) would succeed.
    pub fn can_reduce(&mut self, set: &[u32]) -> Result<(), ReduceError> {
        let (set, _) = self.without_hinge(set)?;
        self.tree.can_reduce(&set)
    }

    /// Whether the set is together in every order that the tree admits.
    pub fn is_consecutive(&mut self, set: &[u32]) -> Result<bool, LeafError> {
        let (set, _) = self.without_hinge(set)?;
        self.tree.is_consecutive(&set)
    }

    /// Why [`reduce`](Self::reduce) refuses a set, or would; `None` if it does not.
    pub fn conflict(&mut self, set: &[u32]) -> Result<Option<CircularConflict>, LeafError> {
        let (set, is_complement) = self.without_hinge(set)?;
        let conflict = self.tree.conflict(&set)?;
        Ok(conflict.map(|conflict| {
            let (inside, mut outside) = (conflict.inside(), conflict.outside());
            outside.push(self.elements - 1);
            let [inside, outside] =
                if is_complement { [outside, inside] } else { [inside, outside] };
            CircularConflict { inside, outside }
        }))
    }

    /// Changes the tree, all or nothing. See [`PqTree::attempt`].
    pub fn attempt<T, E>(
        &mut self,
        change: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        attempt(self, change)
    }

    /// Whether the tree admits this circular order of all elements, wherever it is cut.
    pub fn contains_order(&self, order: &[u32]) -> bool {
        let Some(hinge) = self.elements.checked_sub(1) else { return order.is_empty() };
        let Some(at) = order.iter().position(|&element| element == hinge) else { return false };
        let linear = [&order[at + 1..], &order[..at]].concat();
        self.tree.contains_order(&linear)
    }

    /// One of the orders, the last element at its end.
    pub fn frontier(&self) -> impl Iterator<Item = u32> + '_ {
        self.tree.frontier().chain(self.elements.checked_sub(1))
    }

    /// All orders, each once, the last element at the end of each.
    pub fn orders(&self) -> impl Iterator<Item = Vec<u32>> + '_ {
        let hinge = self.elements.checked_sub(1);
        self.tree.orders().map(move |order| order.into_iter().chain(hinge).collect())
    }

    /// The number of orders, if it is below 2¹²⁸.
    pub fn orders_count(&self) -> Option<u128> {
        self.tree.orders_count()
    }

    /// The number of orders, however large. See [`PqTree::orders_count_exact`].
    pub fn orders_count_exact(&self) -> OrderCount {
        self.tree.orders_count_exact()
    }

    /// The tree of all elements but the last, at which the circle is cut. Its inner nodes are those
    /// of the PC-tree.
    pub fn tree(&self) -> &PqTree {
        &self.tree
    }

    /// The inner nodes.
    pub fn inner_nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.tree.pre_order().filter(|&node| self.tree.as_leaf(node).is_none())
    }

    /// The neighbours of an inner node, in the circular order in which they are stored. Of a
    /// P-node,
    /// [`Kind::P`], they may stand in any order; of a C-node, [`Kind::Q`], in this and its reverse.
    ///
    /// # Panics
    ///
    /// If there is no such node.
    pub fn neighbours(&self, node: NodeId) -> impl Iterator<Item = CircularNode> + '_ {
        let name = |node| match self.tree.kind(node) {
            Kind::Leaf => CircularNode::Element(node.0),
            _ => CircularNode::Inner(node),
        };
        let hinge = CircularNode::Element(self.elements - 1);
        let above = self.tree.parent(node).map_or(hinge, name);
        core::iter::once(above).chain(self.tree.children(node).map(name))
    }

    /// The set, or its complement if it has the hinge; and whether it is that.
    fn without_hinge(&self, set: &[u32]) -> Result<(Vec<u32>, bool), LeafError> {
        let elements = self.elements;
        let is_out = |&&leaf: &&u32| leaf >= elements;
        if let Some(&leaf) = set.iter().find(is_out) {
            return Err(LeafError::OutOfRange { leaf, leaves: elements });
        }
        if !set.iter().any(|&element| element + 1 == elements) {
            return Ok((set.to_vec(), false));
        }
        let mut inside = alloc::vec![false; elements as usize];
        for &leaf in set {
            if core::mem::replace(&mut inside[leaf as usize], true) {
                return Err(LeafError::Repeated { leaf });
            }
        }
        Ok(((0..elements).filter(|&element| !inside[element as usize]).collect(), true))
    }
}

impl Undo for CircularTree {
    type Checkpoint = Checkpoint;

    fn open(&mut self) -> Checkpoint {
        self.tree.checkpoint()
    }

    fn is_open(&self, checkpoint: &Checkpoint) -> bool {
        self.tree.is_open(checkpoint)
    }

    fn keep(&mut self, checkpoint: Checkpoint) {
        self.tree.commit(checkpoint);
    }

    fn undo(&mut self, checkpoint: Checkpoint) {
        self.tree.rollback(checkpoint);
    }
}

impl fmt::Display for CircularTree {
    /// The last element and the tree of the others, `{5 (0 1 [2 3 4])}`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.elements {
            0 => f.write_str("{}"),
            1 => f.write_str("{0}"),
            elements => write!(f, "{{{} {}}}", elements - 1, self.tree),
        }
    }
}

impl FromStr for CircularTree {
    type Err = ParseError;

    /// Reads a tree as it is [displayed](fmt::Display).
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let inner = text.trim().strip_prefix('{').and_then(|text| text.strip_suffix('}'));
        let inner = inner.ok_or(ParseError::NotOneTree)?.trim_end();
        if inner.is_empty() {
            return Ok(Self::default());
        }
        let (blanks, inner) = inner.split_at(inner.len() - inner.trim_start().len());
        let end = inner.find(|part: char| !part.is_ascii_digit()).unwrap_or(inner.len());
        let (hinge, rest) = inner.split_at(end);
        let before = text.len() - text.trim_start().len() + 1 + blanks.len() + hinge.len();
        let tree = match rest.trim().is_empty() {
            true => PqTree::default(),
            false => rest.parse().map_err(|error: ParseError| error.after(before))?,
        };
        let elements = tree.len() + 1;
        check_count(elements.into())
            .map_err(|_| ParseError::TooMany { leaves: elements.into() })?;
        if hinge.parse() == Ok(elements - 1) {
            Ok(Self { tree, elements })
        } else {
            Err(ParseError::Hinge { elements })
        }
    }
}
