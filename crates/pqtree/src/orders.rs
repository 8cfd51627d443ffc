//! Admissible orders one by one: testing an order, the k-th order, all orders, a random order.
//!
//! An order is a choice at each inner node: one of d! arrangements at a P-node, one of two at a
//! Q-node. Different choices give different orders. So an order is a number in mixed radix, with a
//! digit for each node.

use crate::node::{Kind, NodeId};
use crate::tree::PqTree;
use alloc::vec::Vec;
use core::iter::FusedIterator;

impl PqTree {
    /// Returns true if the tree admits this order of all its leaves.
    ///
    /// *Cost*: O(n).
    pub fn contains_order(&self, order: &[u32]) -> bool {
        const NOWHERE: u32 = u32::MAX;
        if order.len() != self.len() as usize {
            return false;
        }
        // For each node, the begin and end of its leaves in the order.
        let mut begin = alloc::vec![NOWHERE; self.node_bound()];
        for (place, &leaf) in order.iter().enumerate() {
            match begin.get_mut(leaf as usize) {
                Some(begin) if leaf < self.len() && *begin == NOWHERE => *begin = place as u32,
                _ => return false,
            }
        }
        let mut end: Vec<u32> = begin.iter().map(|&begin| begin.wrapping_add(1)).collect();
        self.post_order().filter(|&node| self.kind(node) != Kind::Leaf).all(|node| {
            let spans = self.children(node).map(|child| (begin[child.index()], end[child.index()]));
            let (first, last, leaves) =
                spans.clone().fold((NOWHERE, 0, 0), |(first, last, leaves), (begin, end)| {
                    (begin.min(first), end.max(last), leaves + (end - begin))
                });
            let fits = self.kind(node) == Kind::P
                || spans.clone().is_sorted()
                || spans.is_sorted_by(|a, b| a >= b);
            (begin[node.index()], end[node.index()]) = (first, last);
            fits && last - first == leaves
        })
    }

    /// Returns all orders that the tree admits, each once, starting with the
    /// [`frontier`](Self::frontier).
    ///
    /// ```
    /// let tree: pqtree::PqTree = "(0 [1 2 3])".parse()?;
    /// let orders: Vec<_> = tree.orders().collect();
    /// assert_eq!(orders, [[0, 1, 2, 3], [1, 2, 3, 0], [0, 3, 2, 1], [3, 2, 1, 0]]);
    /// # Ok::<(), pqtree::ParseError>(())
    /// ```
    pub fn orders(&self) -> Orders<'_> {
        Orders { tree: self, next: 0, end: self.orders_count().unwrap_or(u128::MAX) }
    }

    /// Returns order number `index` in the sequence of [`orders`](Self::orders), from 0, or `None`
    /// if there are fewer orders.
    ///
    /// *Cost*: O(n).
    pub fn nth_order(&self, index: u128) -> Option<Vec<u32>> {
        if self.orders_count().is_some_and(|count| index >= count) {
            return None;
        }
        let mut rest = index;
        let mut digit = |base: u128| {
            let digit = rest % base;
            rest /= base;
            digit as usize
        };
        let mut digits = Vec::new();
        Some(self.arrange(|kind, children| {
            if kind == Kind::Q {
                if digit(2) == 1 {
                    children.reverse();
                }
                return;
            }
            // Digits in the bases 2, 3, …: the number of places by which the last child but one
            // moves back, then the last but two, and so on. When a base exceeds the rest of the
            // number, all later digits are zero: few children move.
            digits.clear();
            digits.extend((2..=children.len() as u128).map(&mut digit));
            for (place, &digit) in digits.iter().enumerate().rev() {
                let tail = children.len() - place - 2;
                children[tail..=tail + digit].rotate_right(1);
            }
        }))
    }

    /// Returns a random order, uniformly distributed if `below(k)` is uniform in 0 to k − 1.
    ///
    /// *Cost*: O(n).
    pub fn sample_with(&self, mut below: impl FnMut(u32) -> u32) -> Vec<u32> {
        self.arrange(|kind, children| {
            if kind == Kind::Q {
                if below(2) == 1 {
                    children.reverse();
                }
                return;
            }
            for last in (1..children.len()).rev() {
                children.swap(last, below(last as u32 + 1) as usize);
            }
        })
    }

    /// Returns a random order, uniformly distributed.
    ///
    /// *Cost*: O(n).
    #[cfg(feature = "rand")]
    pub fn sample<R: rand::Rng + ?Sized>(&self, rng: &mut R) -> Vec<u32> {
        self.sample_with(|count| {
            // The high half of the product with a random 32-bit number. Rejects the few numbers
            // that would make it biased.
            loop {
                let product = u64::from(rng.next_u32()) * u64::from(count);
                if product as u32 >= count.wrapping_neg() % count {
                    return (product >> 32) as u32;
                }
            }
        })
    }

    /// Returns the leaves from left to right, after `choose` has arranged each node's children.
    fn arrange(&self, mut choose: impl FnMut(Kind, &mut [NodeId])) -> Vec<u32> {
        let mut order = Vec::with_capacity(self.len() as usize);
        let mut to_come: Vec<NodeId> = self.root().into_iter().collect();
        while let Some(node) = to_come.pop() {
            if self.nodes.is_leaf(node) {
                order.push(node.0);
                continue;
            }
            let begin = to_come.len();
            to_come.extend(self.children(node));
            choose(self.kind(node), &mut to_come[begin..]);
            to_come[begin..].reverse();
        }
        order
    }
}

/// All orders that a tree admits. See [`PqTree::orders`].
#[derive(Clone, Debug)]
pub struct Orders<'a> {
    tree: &'a PqTree,
    next: u128,
    end: u128,
}

impl Iterator for Orders<'_> {
    type Item = Vec<u32>;

    fn next(&mut self) -> Option<Vec<u32>> {
        if self.next == self.end {
            return None;
        }
        self.next += 1;
        self.tree.nth_order(self.next - 1)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::try_from(self.end - self.next).ok();
        (left.unwrap_or(usize::MAX), left)
    }
}

impl FusedIterator for Orders<'_> {}
