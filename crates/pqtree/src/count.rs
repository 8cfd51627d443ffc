//! The number of orders that a tree admits: d! for each P-node of d children, times 2 for each
//! Q-node.

use crate::log2::log2_factorial;
use crate::tree::PqTree;
use alloc::vec::Vec;
use core::fmt;

impl PqTree {
    /// Returns log₂ of the number of orders.
    ///
    /// *Cost*: O(inner nodes).
    pub fn orders_log2(&self) -> f64 {
        let live = self.nodes.tags().iter().filter(|tag| tag.is_live());
        live.map(|tag| if tag.is_q() { 1.0 } else { log2_factorial(tag.degree()) }).sum()
    }

    /// Returns the number of orders, or `None` from 2¹²⁸ on.
    ///
    /// *Cost*: O(inner nodes).
    pub fn orders_count(&self) -> Option<u128> {
        self.factors(1u128, u128::checked_mul)
    }

    /// Returns the exact number of orders.
    ///
    /// *Cost*: O(n b), where b is the number of bits of the result, up to n log n.
    /// [`orders_log2`](Self::orders_log2) computes b.
    ///
    /// ```
    /// let count = pqtree::PqTree::new(40).orders_count_exact();
    /// assert_eq!(count.to_string(), "815915283247897734345611269596115894272000000000");
    /// assert_eq!((count.to_u128(), count.bits()), (None, 160));
    /// ```
    pub fn orders_count_exact(&self) -> OrderCount {
        let mut count = OrderCount { digits: [1].into() };
        let rest = self.factors(1u32, |product, factor| {
            product.checked_mul(factor as u32).or_else(|| {
                count.multiply(product);
                Some(factor as u32)
            })
        });
        count.multiply(rest.expect("the closure never returns `None`"));
        count
    }

    /// Multiplies `one` by each factor of the number of orders. Every factor is below 2³². Returns
    /// `None` as soon as `multiply` does.
    fn factors<N>(&self, one: N, mut multiply: impl FnMut(N, u128) -> Option<N>) -> Option<N> {
        let mut live = self.nodes.tags().iter().filter(|tag| tag.is_live());
        live.try_fold(one, |product, tag| {
            let last = if tag.is_q() { 2 } else { tag.degree() };
            (2..=u128::from(last)).try_fold(product, &mut multiply)
        })
    }
}

/// An exact number of orders. See [`PqTree::orders_count_exact`].
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct OrderCount {
    /// Base 2³², lowest digit first; the last digit is not 0.
    digits: Vec<u32>,
}

impl OrderCount {
    /// Returns the digits in base 2³², lowest first; the last digit is not 0. This is the form that
    /// most big-integer libraries accept.
    pub fn digits(&self) -> &[u32] {
        &self.digits
    }

    /// Returns the number of binary digits of this number.
    pub fn bits(&self) -> u64 {
        let last = self.digits.last().map_or(0, |digit| digit.leading_zeros());
        32 * self.digits.len() as u64 - u64::from(last)
    }

    /// Returns the number, or `None` from 2¹²⁸ on.
    pub fn to_u128(&self) -> Option<u128> {
        let digits = self.digits.iter().rev().map(|&digit| u128::from(digit));
        (self.digits.len() <= 4).then(|| digits.fold(0, |number, digit| number << 32 | digit))
    }

    fn multiply(&mut self, by: u32) {
        let mut carry = 0;
        for digit in &mut self.digits {
            let product = u64::from(*digit) * u64::from(by) + carry;
            (*digit, carry) = (product as u32, product >> 32);
        }
        if carry > 0 {
            self.digits.push(carry as u32);
        }
    }

    /// Divides by 10⁹ and returns the remainder.
    fn divide(&mut self) -> u64 {
        let mut rest = 0;
        for digit in self.digits.iter_mut().rev() {
            let number = rest << 32 | u64::from(*digit);
            (*digit, rest) = ((number / 1_000_000_000) as u32, number % 1_000_000_000);
        }
        while self.digits.pop_if(|last| *last == 0).is_some() {}
        rest
    }
}

impl fmt::Display for OrderCount {
    /// Writes the number in decimal. *Cost*: O(b²) for b bits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.clone();
        let mut nines = Vec::new();
        while !rest.digits.is_empty() {
            nines.push(rest.divide());
        }
        write!(f, "{}", nines.pop().unwrap_or(0))?;
        nines.iter().rev().try_for_each(|nine| write!(f, "{nine:09}"))
    }
}

impl fmt::Debug for OrderCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OrderCount({self})")
    }
}
