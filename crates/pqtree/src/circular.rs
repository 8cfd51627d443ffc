//! Circular orders: PC-trees.
//!
//! Cut the circle at one element, the *hinge*: a circular order becomes a linear order of the other
//! elements. A set without the hinge is consecutive in the circle exactly if it is consecutive in
//! the linear order. A set with the hinge is consecutive exactly if its complement is. So a PC-tree
//! is a PQ-tree attached to the hinge. The neighbours of a P-node may be in any order. The
//! neighbours of a Q-node, called C-node in a PC-tree, keep their circular order or its reverse.
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

/// A set of circular orders of the elements `0..len`, in which given sets are consecutive.
///
/// All rotations of an order count as the same order, but its mirror image is a different order.
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
    /// All elements except the hinge, which is the last one.
    tree: PqTree,
    elements: u32,
}

/// Elements that prove that a set cannot be consecutive: the tree admits no order of these elements
/// in which those inside are consecutive.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct CircularConflict {
    /// Elements of the set.
    pub inside: Vec<u32>,
    /// Elements outside the set.
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
    /// Creates a tree that admits every circular order of the elements `0..elements`.
    ///
    /// # Panics
    ///
    /// If there are more than [`PqTree::MAX_LEAVES`]. [`try_new`](Self::try_new) returns an error
    /// instead.
    pub fn new(elements: u32) -> Self {
        match Self::try_new(elements) {
            Ok(tree) => tree,
            Err(error) => panic!("{error}"),
        }
    }

    /// Creates a tree that admits every circular order of the elements `0..elements`. Fails if
    /// there are more than [`PqTree::MAX_LEAVES`].
    pub fn try_new(elements: u32) -> Result<Self, LeafError> {
        check_count(elements.into())?;
        Ok(Self { tree: PqTree::new(elements.saturating_sub(1)), elements })
    }

    /// Returns the number of elements.
    pub fn len(&self) -> u32 {
        self.elements
    }

    /// Returns true if there are no elements.
    pub fn is_empty(&self) -> bool {
        self.elements == 0
    }

    /// Keeps only the orders in which `set` is consecutive; its complement then is, too. Returns
    /// true if the tree now admits fewer orders. After an error the tree is unchanged.
    ///
    /// *Cost*: the same as [`PqTree::reduce`], or O(n) if the set contains the last element.
    pub fn reduce(&mut self, set: &[u32]) -> Result<bool, ReduceError> {
        let (set, _) = self.without_hinge(set)?;
        Ok(self.tree.reduce(&set)?.changed)
    }

    /// Checks that [`reduce`](Self::reduce) would succeed, at the same cost.
    pub fn can_reduce(&mut self, set: &[u32]) -> Result<(), ReduceError> {
        let (set, _) = self.without_hinge(set)?;
        self.tree.can_reduce(&set)
    }

    /// Returns true if the set is consecutive in every order that the tree admits.
    pub fn is_consecutive(&mut self, set: &[u32]) -> Result<bool, LeafError> {
        let (set, _) = self.without_hinge(set)?;
        self.tree.is_consecutive(&set)
    }

    /// Explains why [`reduce`](Self::reduce) refuses a set. Returns `None` if it does not.
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

    /// Runs `change`, and restores the tree if it fails. See [`PqTree::attempt`].
    pub fn attempt<T, E>(
        &mut self,
        change: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        attempt(self, change)
    }

    /// Returns true if the tree admits this circular order of all elements, given from any start.
    pub fn contains_order(&self, order: &[u32]) -> bool {
        let Some(hinge) = self.elements.checked_sub(1) else { return order.is_empty() };
        let Some(at) = order.iter().position(|&element| element == hinge) else { return false };
        let linear = [&order[at + 1..], &order[..at]].concat();
        self.tree.contains_order(&linear)
    }

    /// Returns one of the orders, with the last element at the end.
    pub fn frontier(&self) -> impl Iterator<Item = u32> + '_ {
        self.tree.frontier().chain(self.elements.checked_sub(1))
    }

    /// Returns all orders, each once, with the last element at the end.
    pub fn orders(&self) -> impl Iterator<Item = Vec<u32>> + '_ {
        let hinge = self.elements.checked_sub(1);
        self.tree.orders().map(move |order| order.into_iter().chain(hinge).collect())
    }

    /// Returns the number of orders, or `None` from 2¹²⁸ on.
    pub fn orders_count(&self) -> Option<u128> {
        self.tree.orders_count()
    }

    /// Returns the exact number of orders. See [`PqTree::orders_count_exact`].
    pub fn orders_count_exact(&self) -> OrderCount {
        self.tree.orders_count_exact()
    }

    /// Returns the tree of all elements except the last, where the circle is cut. Its inner nodes
    /// are the inner nodes of the PC-tree.
    pub fn tree(&self) -> &PqTree {
        &self.tree
    }

    /// Returns the inner nodes.
    pub fn inner_nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.tree.pre_order().filter(|&node| self.tree.as_leaf(node).is_none())
    }

    /// Returns the neighbours of an inner node, in the stored circular order. The neighbours of a
    /// P-node ([`Kind::P`]) may be in any order; the neighbours of a C-node ([`Kind::Q`]) in this
    /// order or its reverse.
    ///
    /// # Panics
    ///
    /// If the node does not exist.
    pub fn neighbours(&self, node: NodeId) -> impl Iterator<Item = CircularNode> + '_ {
        let name = |node| match self.tree.kind(node) {
            Kind::Leaf => CircularNode::Element(node.0),
            _ => CircularNode::Inner(node),
        };
        let hinge = CircularNode::Element(self.elements - 1);
        let above = self.tree.parent(node).map_or(hinge, name);
        core::iter::once(above).chain(self.tree.children(node).map(name))
    }

    /// Returns the set and `false`, or its complement and `true` if the set contains the hinge.
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
    /// Writes the last element and the tree of the others, such as `{5 (0 1 [2 3 4])}`.
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

    /// Parses the [displayed](fmt::Display) text.
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
