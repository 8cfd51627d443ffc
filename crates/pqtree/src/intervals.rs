//! The tree of the common intervals of several orders.
//!
//! A set of leaves is a *common interval* if it is consecutive in each of the orders. In genomes,
//! it is a cluster of genes that stayed together. One tree represents them all: its consecutive
//! sets are the common intervals. In the literature, its P-nodes are *prime*, its Q-nodes *linear*.
//!
//! Name the leaves by their places in the first order, and let r go from left to right. For each
//! l ≤ r keep
//!
//! ```text
//!     gap[l] = Σ over the orders of (largest − smallest place of the leaves l..=r) − (r − l)
//! ```
//!
//! which is zero exactly if l..=r is a common interval. A segment tree holds the gaps. Two stacks
//! for each order, of maxima and of minima, tell how the gaps grow when r advances. Another stack
//! holds the finished trees, from left to right. Leaf r joins with the last of them, as long as
//! they lie within a common interval that ends at r.
//!
//! *Source*: T. Uno and M. Yagiura, "Fast algorithms to enumerate all common intervals of two
//! permutations" (2000), for the gaps; A. Bergeron, C. Chauve, F. de Montgolfier and M. Raffinot,
//! "Computing common intervals of K permutations" (2008), for the tree. Theirs is linear; ours is
//! slower by log n, but needs only one simple data structure.
//!
//! *Cost*: O(K n log n) for K orders.

use crate::builder::Builder;
use crate::conflict::LeafError;
use crate::node::Kind;
use crate::segments::Segments;
use crate::tree::{PqTree, check_count};
use alloc::vec::Vec;
use core::fmt;

/// An invalid list of orders.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum OrdersError {
    /// The list is empty, so that the number of leaves is unknown.
    NoOrder,
    /// The first order has more leaves than a tree can have.
    TooMany {
        /// The number of leaves.
        leaves: usize,
    },
    /// An order is not a permutation of 0 to n − 1, where n is the length of the first order.
    NoPermutation {
        /// The index of the order, from 0.
        index: usize,
    },
}

impl OrdersError {
    /// Returns the index of the invalid order, from 0.
    pub(crate) fn index(&self) -> Option<usize> {
        if let Self::NoPermutation { index } = self { Some(*index) } else { None }
    }
}

impl PqTree {
    /// Creates the tree whose consecutive sets are those that are consecutive in each of `orders`.
    /// It admits these orders.
    ///
    /// ```
    /// # use pqtree::PqTree;
    /// let tree = PqTree::from_orders(&[[0, 1, 2, 3, 4], [3, 2, 4, 1, 0]])?;
    /// assert_eq!(tree.to_string(), "[0 1 ((2 3) 4)]");
    /// # Ok::<(), pqtree::OrdersError>(())
    /// ```
    pub fn from_orders<O: AsRef<[u32]>>(orders: &[O]) -> Result<Self, OrdersError> {
        let first = orders.first().ok_or(OrdersError::NoOrder)?.as_ref();
        let leaves = first.len();
        check_count(leaves as u64).map_err(|_| OrdersError::TooMany { leaves })?;
        let place = places(first, first.len()).ok_or(OrdersError::NoPermutation { index: 0 })?;
        let mut sweep = Sweep::new(first.len());
        for (index, order) in orders.iter().enumerate().skip(1) {
            let moved =
                places(order.as_ref(), first.len()).ok_or(OrdersError::NoPermutation { index })?;
            let mut by_place = moved.clone();
            place.iter().zip(&moved).for_each(|(&place, &moved)| by_place[place as usize] = moved);
            sweep.extremes.push(Extremes {
                place: by_place,
                maxima: Vec::new(),
                minima: Vec::new(),
            });
        }
        (0..first.len()).for_each(|end| sweep.step(end));
        Ok(Self::from_nodes(sweep.build(first)))
    }
}

/// Returns the place of each leaf in an order, or `None` if the order is not a permutation.
fn places(order: &[u32], leaves: usize) -> Option<Vec<u32>> {
    let mut places = alloc::vec![u32::MAX; leaves];
    for (place, &leaf) in (0..).zip(order) {
        let old = core::mem::replace(places.get_mut(leaf as usize)?, place);
        if old != u32::MAX {
            return None;
        }
    }
    (order.len() == leaves).then_some(places)
}

/// A finished tree, of the leaves at the places from `begin` up to the `begin` of the next part.
struct Part {
    begin: usize,
    /// The `begin` of the last child of a Q-node. `None` for leaves and P-nodes.
    last_begin: Option<usize>,
    /// The index of this part in `Sweep::children`.
    name: usize,
}

struct Sweep {
    gaps: Segments,
    extremes: Vec<Extremes>,
    finished: Vec<Part>,
    /// For each part: true for a Q-node, and its children. The parts 0 to n − 1 are the leaves.
    children: Vec<(bool, Vec<usize>)>,
}

impl Sweep {
    fn new(leaves: usize) -> Self {
        let children = alloc::vec![(false, Vec::new()); leaves];
        Self { gaps: Segments::new(leaves), extremes: Vec::new(), finished: Vec::new(), children }
    }

    /// Adds the leaf at place `end` of the first order.
    fn step(&mut self, end: usize) {
        for extremes in &mut self.extremes {
            extremes.step(end, &mut self.gaps);
            // Each interval that ends here is longer by one. Gaps from `end` on must stay zero.
            self.gaps.add(0, end, -1);
        }
        let first = self.gaps.first_zero().expect("a single leaf is a common interval");
        let mut part = Part { begin: end, last_begin: None, name: end };
        while let Some(left) = self.finished.pop_if(|left| left.begin >= first) {
            part = self.join(left, part);
        }
        self.finished.push(part);
    }

    /// Joins `part` with `left`, and with more parts on its left until they are a common interval.
    fn join(&mut self, left: Part, part: Part) -> Part {
        if let Some(last_begin) = left.last_begin
            && self.gaps.is_zero(last_begin)
        {
            self.children[left.name].1.push(part.name);
            return Part { last_begin: Some(part.begin), ..left };
        }
        let name = self.children.len();
        if self.gaps.is_zero(left.begin) {
            self.children.push((true, [left.name, part.name].to_vec()));
            return Part { begin: left.begin, last_begin: Some(part.begin), name };
        }
        let mut children = [part.name, left.name].to_vec();
        let mut begin = left.begin;
        while !self.gaps.is_zero(begin) {
            let left = self.finished.pop().expect("all leaves so far form a common interval");
            children.push(left.name);
            begin = left.begin;
        }
        children.reverse();
        self.children.push((false, children));
        Part { begin, last_begin: None, name }
    }

    fn build(self, leaf_at: &[u32]) -> crate::nodes::Nodes {
        let mut builder = Builder::new(leaf_at.len() as u32);
        // The top of the stack is next. `None` closes a node.
        let mut to_come: Vec<Option<usize>> =
            self.finished.iter().map(|part| Some(part.name)).collect();
        while let Some(next) = to_come.pop() {
            match next {
                None => builder.close(),
                Some(place) if place < leaf_at.len() => builder.leaf(leaf_at[place]),
                Some(name) => {
                    let (is_linear, children) = &self.children[name];
                    builder.open(if *is_linear { Kind::Q } else { Kind::P });
                    to_come.push(None);
                    to_come.extend(children.iter().rev().map(|&child| Some(child)));
                }
            }
        }
        builder.finish()
    }
}

/// One of the orders: the place of each leaf in it, indexed by the leaf's place in the first order;
/// and the values of l at which the maximum and the minimum place of the leaves l..=r change.
struct Extremes {
    place: Vec<u32>,
    maxima: Vec<usize>,
    minima: Vec<usize>,
}

impl Extremes {
    fn step(&mut self, end: usize, gaps: &mut Segments) {
        let place = &self.place;
        let new = i64::from(place[end]);
        while let Some(top) = self.maxima.pop_if(|top| place[*top] < place[end]) {
            let begin = self.maxima.last().map_or(0, |&below| below + 1);
            gaps.add(begin, top + 1, new - i64::from(place[top]));
        }
        self.maxima.push(end);
        while let Some(top) = self.minima.pop_if(|top| place[*top] > place[end]) {
            let begin = self.minima.last().map_or(0, |&below| below + 1);
            gaps.add(begin, top + 1, i64::from(place[top]) - new);
        }
        self.minima.push(end);
    }
}

impl fmt::Display for OrdersError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoOrder => f.write_str("expected at least one order"),
            Self::TooMany { leaves } => LeafError::TooMany { leaves: *leaves as u64 }.fmt(f),
            Self::NoPermutation { index } => {
                write!(
                    f,
                    "order {index} is not one of the leaves 0 to n - 1, n being the length of the \
                     first order"
                )
            }
        }
    }
}

impl core::error::Error for OrdersError {}
