//! The tree of the common intervals of several orders.
//!
//! A set of leaves is a *common interval* if it is consecutive in each of the orders: in genomes, a
//! cluster of genes that stayed together. One tree shows all of them: the sets that are consecutive
//! in every order it admits are the common intervals. Its P-nodes are the *prime* nodes of the
//! literature, its Q-nodes the *linear* ones.
//!
//! Name the leaves by their places in the first order, and let r go from left to right. For each l
//! ≤ r keep
//!
//! ```text
//!     gap[l] = Σ over the orders of (largest − smallest place of the leaves l..=r) − (r − l)
//! ```
//!
//! which is zero just if l..=r is a common interval. The gaps are in a tree of minima, and what a
//! step of r adds to them follows from a stack of maxima and one of minima for each order. A stack
//! holds the trees that are finished so far, from left to right; leaf r takes in those from its
//! right end that lie within a common interval that ends at r.
//!
//! *Source*: T. Uno and M. Yagiura, "Fast algorithms to enumerate all common intervals of two
//! permutations" (2000), for the gaps; A. Bergeron, C. Chauve, F. de Montgolfier and M. Raffinot,
//! "Computing common intervals of K permutations" (2008), for the tree. Theirs is linear; ours
//! trades that for one plain structure.
//!
//! *Cost*: O(K n log n) for K orders.

use crate::builder::Builder;
use crate::conflict::LeafError;
use crate::node::Kind;
use crate::segments::Segments;
use crate::tree::{PqTree, check_count};
use alloc::vec::Vec;
use core::fmt;

/// What is wrong with a list of orders.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum OrdersError {
    /// There is none, so that it is not known how many leaves there are.
    NoOrder,
    /// The first has more leaves than a tree can have.
    TooMany {
        /// How many it has.
        leaves: usize,
    },
    /// One of them is not an order of the leaves 0 to n − 1, n being the length of the first.
    NoPermutation {
        /// Which one, from 0.
        index: usize,
    },
}

impl OrdersError {
    /// Which order is at fault, from 0.
    pub(crate) fn index(&self) -> Option<usize> {
        if let Self::NoPermutation { index } = self { Some(*index) } else { None }
    }
}

impl PqTree {
    /// The tree whose consecutive sets are the sets that are consecutive in each of `orders`. It
    /// admits these orders.
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

/// The place of each leaf in an order; `None` if it is none.
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

/// A tree that is finished, of the leaves `begin..` up to the next one's.
struct Part {
    begin: usize,
    /// Of a linear part, where its last child begins; leaves and prime parts have none.
    last_begin: Option<usize>,
    /// Names in `Sweep::children`.
    name: usize,
}

struct Sweep {
    gaps: Segments,
    extremes: Vec<Extremes>,
    finished: Vec<Part>,
    /// Of each part by name, whether it is linear, and its children. The parts 0 to n − 1 are the
    /// leaves.
    children: Vec<(bool, Vec<usize>)>,
}

impl Sweep {
    fn new(leaves: usize) -> Self {
        let children = alloc::vec![(false, Vec::new()); leaves];
        Self { gaps: Segments::new(leaves), extremes: Vec::new(), finished: Vec::new(), children }
    }

    /// Takes in the leaf at place `end` of the first order.
    fn step(&mut self, end: usize) {
        for extremes in &mut self.extremes {
            extremes.step(end, &mut self.gaps);
            // The length of each interval that ends here grows, and what lies ahead has to begin at
            // zero.
            self.gaps.add(0, end, -1);
        }
        let first = self.gaps.first_zero().expect("a single leaf is a common interval");
        let mut part = Part { begin: end, last_begin: None, name: end };
        while let Some(left) = self.finished.pop_if(|left| left.begin >= first) {
            part = self.join(left, part);
        }
        self.finished.push(part);
    }

    /// Joins the last part with its left neighbour, and with as many more as make a common
    /// interval.
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
            let left = self.finished.pop().expect("some common interval begins further left");
            children.push(left.name);
            begin = left.begin;
        }
        children.reverse();
        self.children.push((false, children));
        Part { begin, last_begin: None, name }
    }

    fn build(self, leaf_at: &[u32]) -> crate::nodes::Nodes {
        let mut builder = Builder::new(leaf_at.len() as u32);
        // The top of the stack comes next; `None` closes a node.
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

/// An order: by places in the first order, its places, and where the maximum and minimum of l..=r
/// change with l.
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
            Self::NoOrder => f.write_str("expected one order or more"),
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
