//! How many orders a tree admits: d! for each P-node of d children, times 2 for each Q-node.

use crate::log2::log2_factorial;
use crate::tree::PqTree;

impl PqTree {
    /// log₂ of the number of orders.
    ///
    /// *Cost*: O(inner nodes).
    pub fn orders_log2(&self) -> f64 {
        let live = self.nodes.tags().iter().filter(|tag| tag.is_live());
        live.map(|tag| if tag.is_q() { 1.0 } else { log2_factorial(tag.degree()) }).sum()
    }

    /// The number of orders, if it is below 2¹²⁸.
    ///
    /// *Cost*: O(inner nodes).
    pub fn orders_count(&self) -> Option<u128> {
        let live = self.nodes.tags().iter().filter(|tag| tag.is_live());
        live.into_iter().try_fold(1u128, |count, tag| {
            let last = if tag.is_q() { 2 } else { tag.degree() };
            (2..=u128::from(last)).try_fold(count, u128::checked_mul)
        })
    }
}
