//! How many orders a tree admits: d! for each P-node of d children, times 2 for each Q-node.

use crate::log2::log2_factorial;
use crate::tree::PqTree;

impl PqTree {
    /// log₂ of the number of orders.
    ///
    /// *Cost*: O(inner nodes).
    pub fn orders_log2(&self) -> f64 {
        let live = self.nodes.slots().iter().filter(|inner| inner.degree() > 0);
        live.map(|inner| if inner.is_q() { 1.0 } else { log2_factorial(inner.degree()) }).sum()
    }

    /// The number of orders, if it is below 2¹²⁸.
    ///
    /// *Cost*: O(inner nodes).
    pub fn orders_count(&self) -> Option<u128> {
        let live = self.nodes.slots().iter().filter(|inner| inner.degree() > 0);
        live.into_iter().try_fold(1u128, |count, inner| {
            let last = if inner.is_q() { 2 } else { inner.degree() };
            (2..=u128::from(last)).try_fold(count, u128::checked_mul)
        })
    }
}
