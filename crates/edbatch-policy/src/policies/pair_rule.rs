//! The constants of a [`LookAhead`](crate::LookAhead): preset, or learned for a network.

use edbatch_graph::Kind;

/// The constants by which a [`LookAhead`](crate::LookAhead) scores a kind.
#[derive(Clone, PartialEq, Debug)]
pub struct PairRule {
    /// The urgency of a node is its [needs](crate::Chains::needs) to this power.
    pub power: u32,
    /// The factor for the score of a kind that lowers the bound. If it is `None`, such a kind
    /// always runs before other kinds.
    pub lowering: Option<f64>,
    /// Weight of the nodes in the second batch that are ready before the first batch.
    pub second: f64,
    /// Weights of the nodes of kind `second` that a batch of kind `first` releases, as
    /// `(first, second, weight)`. Pairs that are not listed have weight 1, and so do all pairs in
    /// graphs of more than [`MAX_KINDS`](Self::MAX_KINDS) kinds.
    pub weights: Vec<(Kind, Kind, f64)>,
}

impl PairRule {
    /// A graph with more kinds than this ignores the [`weights`](Self::weights).
    pub const MAX_KINDS: usize = 256;

    /// `critical:pair`: compares scores only if several kinds are equally good by the bound.
    #[must_use]
    pub fn pair() -> Self {
        Self { power: 6, lowering: None, second: 1.0, weights: Vec::new() }
    }

    /// `critical:soft`: compares scores for every batch; released nodes may outweigh the bound.
    #[must_use]
    pub fn soft() -> Self {
        Self { lowering: Some(1.2), ..Self::pair() }
    }

    /// The urgency of a node with these needs.
    pub(crate) fn urgency(&self, needs: u32) -> f64 {
        // By multiplication: `powi` may give other bits on other machines.
        let (mut square, mut power, mut product) = (f64::from(needs), self.power, 1.0);
        while power > 0 {
            if power % 2 == 1 {
                product *= square;
            }
            square *= square;
            power /= 2;
        }
        product
    }
}

impl Default for PairRule {
    fn default() -> Self {
        Self::pair()
    }
}
