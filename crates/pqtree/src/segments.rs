//! A segment tree: adds a number to a range of a row of numbers, and finds the first zero.
//!
//! *Cost*: O(log n) for each operation.

use alloc::vec::Vec;

/// A row of numbers, initially zero, that never become negative.
///
/// A binary tree in an array: a node holds the amount added to its whole range, and the minimum of
/// the range including that amount.
pub(crate) struct Segments {
    leaves: usize,
    nodes: Vec<(i64, i64)>,
}

impl Segments {
    pub(crate) fn new(length: usize) -> Self {
        let leaves = length.next_power_of_two();
        Self { leaves, nodes: alloc::vec![(0, 0); 2 * leaves] }
    }

    /// Adds `amount` to the numbers at `begin..end`.
    pub(crate) fn add(&mut self, begin: usize, end: usize, amount: i64) {
        let (mut left, mut right) = (begin + self.leaves, end + self.leaves);
        let (first, last) = (left, right - 1);
        if begin >= end {
            return;
        }
        while left < right {
            if left % 2 == 1 {
                self.add_to_node(left, amount);
                left += 1;
            }
            if right % 2 == 1 {
                right -= 1;
                self.add_to_node(right, amount);
            }
            (left, right) = (left / 2, right / 2);
        }
        self.renew_above(first);
        self.renew_above(last);
    }

    fn add_to_node(&mut self, node: usize, amount: i64) {
        self.nodes[node].0 += amount;
        self.nodes[node].1 += amount;
    }

    fn renew_above(&mut self, mut node: usize) {
        while node > 1 {
            node /= 2;
            self.nodes[node].1 =
                self.nodes[node].0 + self.nodes[2 * node].1.min(self.nodes[2 * node + 1].1);
        }
    }

    pub(crate) fn is_zero(&self, place: usize) -> bool {
        let path = core::iter::successors(Some(place + self.leaves), |&node| {
            (node > 1).then_some(node / 2)
        });
        path.map(|node| self.nodes[node].0).sum::<i64>() == 0
    }

    pub(crate) fn first_zero(&self) -> Option<usize> {
        if self.nodes[1].1 != 0 {
            return None;
        }
        let (mut node, mut above) = (1, 0);
        while node < self.leaves {
            above += self.nodes[node].0;
            node = if self.nodes[2 * node].1 + above == 0 { 2 * node } else { 2 * node + 1 };
        }
        Some(node - self.leaves)
    }
}
