//! Orders of labels: listed, counted, tested, drawn; and what a tree says of nodes, by labels.

use super::{Labeled, LabeledError};
use crate::count::OrderCount;
use crate::node::NodeId;
use crate::tree::PqTree;
use alloc::vec::Vec;
use core::fmt;
use core::hash::Hash;

impl<T> Labeled<T> {
    /// The labels from left to right. See [`PqTree::frontier`].
    pub fn frontier(&self) -> impl Iterator<Item = &T> {
        self.tree.frontier().map(|leaf| self.label(leaf))
    }

    /// The labels below a node, from left to right. See [`PqTree::leaves_of`].
    pub fn leaves_of(&self, node: NodeId) -> impl Iterator<Item = &T> {
        self.tree.leaves_of(node).map(|leaf| self.label(leaf))
    }

    /// All orders, each once. See [`PqTree::orders`].
    pub fn orders(&self) -> impl Iterator<Item = Vec<&T>> {
        self.tree.orders().map(|order| self.labels(order))
    }

    /// The order with a number. See [`PqTree::nth_order`].
    pub fn nth_order(&self, index: u128) -> Option<Vec<&T>> {
        self.tree.nth_order(index).map(|order| self.labels(order))
    }

    /// One of the orders at random. See [`PqTree::sample_with`].
    pub fn sample_with(&self, below: impl FnMut(u32) -> u32) -> Vec<&T> {
        self.labels(self.tree.sample_with(below))
    }

    /// One of the orders at random. See [`PqTree::sample`].
    #[cfg(feature = "rand")]
    pub fn sample<R: rand::Rng + ?Sized>(&self, rng: &mut R) -> Vec<&T> {
        self.labels(self.tree.sample(rng))
    }

    /// The number of orders, if it is below 2¹²⁸.
    pub fn orders_count(&self) -> Option<u128> {
        self.tree.orders_count()
    }

    /// The number of orders, however large. See [`PqTree::orders_count_exact`].
    pub fn orders_count_exact(&self) -> OrderCount {
        self.tree.orders_count_exact()
    }

    /// log₂ of the number of orders.
    pub fn orders_log2(&self) -> f64 {
        self.tree.orders_log2()
    }

    /// The sets that, reduced in a new tree, give this one. See [`PqTree::restrictions`].
    pub fn restrictions(&self) -> Vec<Vec<&T>> {
        self.tree.restrictions().into_iter().map(|set| self.labels(set)).collect()
    }

    /// The inner nodes that the last successful reduction changed. See [`PqTree::changed`].
    pub fn changed(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.tree.changed()
    }

    /// The tree in the DOT language, as [`PqTree::dot`], with labels for leaves.
    pub fn dot(&self) -> impl fmt::Display
    where
        T: fmt::Display,
    {
        Dot(self)
    }
}

impl<T: Eq + Hash> Labeled<T> {
    /// Whether the tree admits this order of all its labels. See [`PqTree::contains_order`].
    pub fn contains_order(&self, order: &[T]) -> bool {
        self.leaves(order).is_ok_and(|order| self.tree.contains_order(&order))
    }

    /// The tree whose consecutive sets are those that are consecutive in each of `orders`. See
    /// [`PqTree::from_orders`].
    ///
    /// # Errors
    ///
    /// If there is no order; or an [unknown](LabeledError::Unknown) order, which is not one of the
    /// labels of the first: `index` says which one; or the first names a label twice.
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

/// Writes a backslash before what would end a quoted text.
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
