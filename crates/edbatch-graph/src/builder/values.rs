//! The values at a port that takes any number of them.

use super::{CellBuilder, Tensor};
use crate::Reduction;

/// The values at a port that takes any number of them. Reduce them to get tensors.
#[derive(Clone, Copy, Debug)]
pub struct Values<'c> {
    pub(super) cell: &'c CellBuilder,
    /// `None` if the port is invalid.
    pub(super) port: Option<u16>,
}

impl<'c> Values<'c> {
    /// Returns the sum of all values at the port, one tensor for each field.
    #[must_use]
    pub fn sum<const N: usize>(self) -> [Tensor<'c>; N] {
        self.reduce(Reduction::Sum)
    }

    /// Returns the mean of all values at the port, one tensor for each field.
    #[must_use]
    pub fn mean<const N: usize>(self) -> [Tensor<'c>; N] {
        self.reduce(Reduction::Mean)
    }

    /// Returns the element-wise maximum of all values at the port, one tensor for each field.
    #[must_use]
    pub fn max<const N: usize>(self) -> [Tensor<'c>; N] {
        self.reduce(Reduction::Max)
    }

    /// Returns `ln Σ exp v` over all values v at the port, element by element: one tensor for each
    /// field. Does not overflow. The result is -∞ only if all values are -∞.
    #[must_use]
    pub fn log_sum_exp<const N: usize>(self) -> [Tensor<'c>; N] {
        self.reduce(Reduction::LogSumExp)
    }

    /// Scaled dot-product attention of `query` over all values at the port, whose keys and values
    /// are two fields of the record, given by name. All three are divided into `heads` equal parts.
    /// For each head, the result is the sum of the values, weighted by the softmax of
    /// `scale · query · key`. The usual scale is 1 / √(width of a head).
    ///
    /// *Source*: Vaswani et al., "Attention is all you need", 2017.
    ///
    /// ```
    /// use edbatch_graph::{Network, Shape};
    ///
    /// let mut network = Network::new();
    /// let state = network.record("state", [("k", Shape::Vector(8)), ("v", Shape::Vector(6))])?;
    /// let context = network.record("context", [("y", Shape::Vector(6))])?;
    /// network.cell("attend", context, |cell| {
    ///     let [query, _] = cell.one("from", state);
    ///     let sources = cell.many("sources", state);
    ///     vec![sources.attention(query, "k", "v", 2, 0.5)]
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn attention(
        self,
        query: Tensor<'c>,
        keys: &str,
        values: &str,
        heads: usize,
        scale: f32,
    ) -> Tensor<'c> {
        let heads = u32::try_from(heads).unwrap_or(0);
        if !std::ptr::eq(query.cell, self.cell) {
            let error = self.cell.trace().error("attention", &[], "a query of this cell");
            return self.cell.tensor(|_| Err(error));
        }
        let Some(port) = self.port else { return self.cell.poison() };
        let (fields, query) = ((keys, values), query.var);
        self.cell.tensor(|trace| trace.attention(port, query, fields, (heads, scale)))
    }

    /// The sum of a field over all values at the port, weighted by the softmax of their scores.
    /// Scores and values are two fields of the record, given by name. The number of scores is the
    /// number of heads: each weighs an equal part of the values.
    #[must_use]
    pub fn softmax_sum(self, scores: &str, values: &str) -> Tensor<'c> {
        let Some(port) = self.port else { return self.cell.poison() };
        self.cell.tensor(|trace| trace.softmax_sum(port, scores, values))
    }

    /// Reduces all values at the port to one tensor for each field, for a record whose number of
    /// fields is only known at run time.
    #[must_use]
    pub fn reduce_vec(self, by: Reduction) -> Vec<Tensor<'c>> {
        self.cell.all_fields(self.port, Some(by))
    }

    fn reduce<const N: usize>(self, by: Reduction) -> [Tensor<'c>; N] {
        self.cell.fields(self.port, Some(by))
    }
}
