//! Orders of labels: listing, counting, testing, sampling; and labels of nodes.

use super::{Labeled, LabeledError};
use crate::count::OrderCount;
use crate::node::NodeId;
use crate::tree::PqTree;
use alloc::vec::Vec;
use core::fmt;
use core::hash::Hash;

impl<T> Labeled<T> {
    /// Returns the labels from left to right. See [`PqTree::frontier`].
    pub fn frontier(&self) -> impl Iterator<Item = &T> {
        self.tree.frontier().map(|leaf| self.label(leaf))
    }

    /// Returns the labels below a node, from left to right. See [`PqTree::leaves_of`].
    pub fn leaves_of(&self, node: NodeId) -> impl Iterator<Item = &T> {
        self.tree.leaves_of(node).map(|leaf| self.label(leaf))
    }

    /// Returns all orders, each once. See [`PqTree::orders`].
    pub fn orders(&self) -> impl Iterator<Item = Vec<&T>> {
        self.tree.orders().map(|order| self.labels(order))
    }

    /// Returns the order with a given number. See [`PqTree::nth_order`].
    pub fn nth_order(&self, index: u128) -> Option<Vec<&T>> {
        self.tree.nth_order(index).map(|order| self.labels(order))
    }

    /// Returns a random order. See [`PqTree::sample_with`].
    pub fn sample_with(&self, below: impl FnMut(u32) -> u32) -> Vec<&T> {
        self.labels(self.tree.sample_with(below))
    }

    /// Returns a random order. See [`PqTree::sample`].
    #[cfg(feature = "rand")]
    pub fn sample<R: rand::Rng + ?Sized>(&self, rng: &mut R) -> Vec<&T> {
        self.labels(self.tree.sample(rng))
    }

    /// Returns the number of orders, or `None` from 2¹²⁸ on.
    pub fn orders_count(&self) -> Option<u128> {
        self.tree.orders_count()
    }

    /// Returns the exact number of orders. See [`PqTree::orders_count_exact`].
    pub fn orders_count_exact(&self) -> OrderCount {
        self.tree.orders_count_exact()
    }

    /// Returns log₂ of the number of orders.
    pub fn orders_log2(&self) -> f64 {
        self.tree.orders_log2()
    }

    /// Returns sets by which a new tree can be reduced to make this one. See
    /// [`PqTree::restrictions`].
    pub fn restrictions(&self) -> Vec<Vec<&T>> {
        self.tree.restrictions().into_iter().map(|set| self.labels(set)).collect()
    }

    /// The inner nodes whose children changed in the last change of the tree. See
    /// [`PqTree::changed`].
    pub fn changed(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.tree.changed()
    }

    /// Returns the tree in the DOT language with labels for leaves, like [`PqTree::dot`].
    pub fn dot(&self) -> impl fmt::Display
    where
        T: fmt::Display,
    {
        Dot(self)
    }
}

impl<T: Eq + Hash> Labeled<T> {
    /// Returns true if the tree admits this order of all its labels. See
    /// [`PqTree::contains_order`].
    pub fn contains_order(&self, order: &[T]) -> bool {
        self.leaves(order).is_ok_and(|order| self.tree.contains_order(&order))
    }

    /// Creates the tree whose consecutive sets are those that are consecutive in each of `orders`.
    /// See [`PqTree::from_orders`].
    ///
    /// # Errors
    ///
    /// If there is no order, if the first order repeats a label, or if another is no permutation of
    /// the first: then the error is [`LabeledError::Unknown`] with the index of that order.
    pub fn from_orders<O: AsRef<[T]>>(orders: &[O]) -> Result<Self, LabeledError>
    where
        T: Clone,
    {
        let first = orders.first().ok_or(LabeledError::Unknown { index: 0 })?.as_ref();
        let universal = Self::new(first.iter().cloned())?;
        let leaves = |(index, order): (usize, &O)| {
            universal.leaves(order.as_ref()).map_err(|_| LabeledError::Unknown { index })
        };
        let orders: Vec<Vec<u32>> =
            orders.iter().enumerate().map(leaves).collect::<Result<_, _>>()?;
        let tree = PqTree::from_orders(&orders)
            .map_err(|error| LabeledError::Unknown { index: error.index().unwrap_or(0) })?;
        Self::with_tree(tree, universal.into_parts().1)
    }
}

struct Dot<'a, T>(&'a Labeled<T>);

impl<T: fmt::Display> fmt::Display for Dot<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(labeled) = self;
        labeled.tree.write_dot(f, |f, leaf| {
            f.write_str(" label=\"")?;
            write!(Escaped(f), "{}", labeled.label(leaf))?;
            f.write_str("\"")
        })
    }
}

/// Escapes quotes and backslashes with a backslash.
struct Escaped<'a, 'f>(&'a mut fmt::Formatter<'f>);

impl fmt::Write for Escaped<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            if matches!(character, '"' | '\\') {
                self.0.write_str("\\")?;
            }
            self.0.write_fmt(format_args!("{character}"))?;
        }
        Ok(())
    }
}

use fmt::Write as _;
