//! Circular orders: PC-trees.
//!
//! Cut the circle at one element, the *hinge*: a circular order becomes a linear order of the other
//! elements. A set without the hinge is consecutive in the circle exactly if it is consecutive in
//! the linear order. For a set with the hinge, the circle is cut at another element: the nodes
//! above that element are turned round, and turned back at the end. So a PC-tree is a PQ-tree
//! attached to the hinge. The neighbours of a P-node may be in any order. The neighbours of a
//! Q-node, called C-node in a PC-tree, keep their circular order or its reverse.
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

/// Elements that prove that a set cannot be consecutive: the tree admits no order of all these
/// elements in which the elements `inside` are consecutive.
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
    /// If there are more than [`PqTree::MAX_LEAVES`], or too many for the free memory.
    /// [`try_new`](Self::try_new) returns an error instead.
    pub fn new(elements: u32) -> Self {
        match Self::try_new(elements) {
            Ok(tree) => tree,
            Err(error) => panic!("{error}"),
        }
    }

    /// Creates a tree that admits every circular order of the elements `0..elements`. Fails like
    /// [`PqTree::try_new`].
    pub fn try_new(elements: u32) -> Result<Self, LeafError> {
        check_count(elements.into())?;
        Ok(Self { tree: PqTree::try_new(elements.saturating_sub(1))?, elements })
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
    /// *Cost*: the same as [`PqTree::reduce`]. A set with the last element costs O(depth) more.
    pub fn reduce(&mut self, set: &[u32]) -> Result<bool, ReduceError> {
        let (reduced, cut) = self.cut(set, PqTree::reduce)?;
        if reduced.changed {
            // The nodes above the leaf at the cut may have other neighbours now.
            let changed = &mut self.tree.work.changed;
            changed.extend(cut.turned.iter().skip(1));
            changed.sort_unstable();
            changed.dedup();
        }
        Ok(reduced.changed)
    }

    /// Checks that [`reduce`](Self::reduce) would succeed. *Cost*: the same.
    pub fn can_reduce(&mut self, set: &[u32]) -> Result<(), ReduceError> {
        self.cut(set, PqTree::can_reduce).map(|_| ())
    }

    /// Returns true if the set is consecutive in every order that the tree admits. *Cost*: the same
    /// as [`reduce`](Self::reduce).
    pub fn is_consecutive(&mut self, set: &[u32]) -> Result<bool, LeafError> {
        self.cut(set, PqTree::is_consecutive).map(|(is_consecutive, _)| is_consecutive)
    }

    /// Explains why [`reduce`](Self::reduce) refuses a set. Returns `None` if it accepts the set.
    ///
    /// *Cost*: the same as [`PqTree::conflict`]. A set with the last element costs O(depth) more.
    pub fn conflict(&mut self, set: &[u32]) -> Result<Option<CircularConflict>, LeafError> {
        let (conflict, cut) = self.cut(set, PqTree::conflict)?;
        Ok(conflict.map(|conflict| {
            let name = |leaf| if leaf == cut.at { self.elements - 1 } else { leaf };
            let inside = conflict.inside().into_iter().map(name).collect();
            let outside = conflict.outside().into_iter().map(name).chain([cut.at]).collect();
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

    /// Returns true if the tree admits this circular order of all elements. The list may start at
    /// any element.
    pub fn contains_order(&self, order: &[u32]) -> bool {
        let Some(hinge) = self.elements.checked_sub(1) else { return order.is_empty() };
        let Some(at) = order.iter().position(|&element| element == hinge) else { return false };
        let linear = [&order[at + 1..], &order[..at]].concat();
        self.tree.contains_order(&linear)
    }

    /// Returns one of the orders, rotated so that it ends with element `len - 1`.
    pub fn frontier(&self) -> impl Iterator<Item = u32> + '_ {
        self.tree.frontier().chain(self.elements.checked_sub(1))
    }

    /// Returns all orders, each once, rotated so that they end with element `len - 1`.
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
    /// are the inner nodes of the PC-tree. After a reduction by a set with the last element, its
    /// list of [changed](PqTree::changed) nodes may also name unchanged nodes.
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

    /// Calls `run` with a linear tree and the set. If the set contains the hinge (the last
    /// element), the circle is cut at the smallest element outside the set during the call. The
    /// leaf of that element then stands for the hinge.
    fn cut<R, E: From<LeafError>>(
        &mut self,
        set: &[u32],
        run: impl FnOnce(&mut PqTree, &[u32]) -> Result<R, E>,
    ) -> Result<(R, Cut), E> {
        let leaves = self.elements;
        if let Some(&leaf) = set.iter().find(|&&leaf| leaf >= leaves) {
            return Err(LeafError::OutOfRange { leaf, leaves }.into());
        }
        let mut linear: Vec<u32> = set.iter().copied().filter(|&it| it + 1 != leaves).collect();
        let mut cut = Cut { at: leaves.saturating_sub(1), turned: Vec::new() };
        match set.len() - linear.len() {
            0 => return Ok((run(&mut self.tree, set)?, cut)),
            1 => {}
            _ => return Err(LeafError::Repeated { leaf: cut.at }.into()),
        }
        let mut inside = alloc::vec![false; set.len()];
        for &element in &linear {
            inside.get_mut(element as usize).into_iter().for_each(|inside| *inside = true);
        }
        let outside = inside.iter().position(|&inside| !inside).expect("one is the hinge") as u32;
        if outside >= self.tree.len() {
            // All elements, or one of them twice.
            return Ok((run(&mut self.tree, &linear)?, cut));
        }
        linear.push(outside);
        self.tree.nodes.cut_at(NodeId(outside));
        let result = run(&mut self.tree, &linear);
        let turned = self.tree.nodes.cut_at(NodeId(outside));
        cut = Cut { at: outside, turned };
        Ok((result?, cut))
    }
}

/// The place where the circle is cut.
struct Cut {
    /// The element at which the circle is cut, above the root.
    at: u32,
    /// The leaf of this element and the nodes above it, if the cut is not at the hinge.
    turned: Vec<NodeId>,
}

impl Undo for CircularTree {
    type Checkpoint = Checkpoint;

    fn open(&mut self) -> Checkpoint {
        self.tree.open()
    }

    fn is_open(&self, checkpoint: &Checkpoint) -> bool {
        self.tree.is_open(checkpoint)
    }

    fn keep(&mut self, checkpoint: Checkpoint) {
        self.tree.keep(checkpoint);
    }

    fn undo(&mut self, checkpoint: Checkpoint) {
        self.tree.undo(checkpoint);
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
