//! The constants by which a [`LookAhead`](crate::LookAhead) decides: given, or learned for a network.

use edbatch_graph::Kind;

/// How a [`LookAhead`](crate::LookAhead) scores a kind.
#[derive(Clone, PartialEq, Debug)]
pub struct PairRule {
    /// The urgency of a node is its [needs](crate::Chains::needs) to this power.
    pub power: u32,
    /// By what the score of a kind that lowers the bound is multiplied; none, if such a kind runs
    /// before all others, and without a look at their scores if it is the only one.
    pub lowering: Option<f64>,
    /// Weight of what was ready before, in the second batch.
    pub second: f64,
    /// Weights of what the first batch releases of the second's kind: `(first, second, weight)`.
    /// Pairs that do not occur have weight 1; so have all in graphs of more than
    /// [`MOST_KINDS`](Self::MOST_KINDS).
    pub weights: Vec<(Kind, Kind, f64)>,
}

impl PairRule {
    /// Graphs of so many kinds may have weights.
    pub const MOST_KINDS: usize = 256;

    /// `critical:pair`: looks only where [`Critical`](crate::Critical) sees several kinds that are
    /// equally good by the bound.
    #[must_use]
    pub fn pair() -> Self {
        Self { power: 6, lowering: None, second: 1.0, weights: Vec::new() }
    }

    /// `critical:soft`: looks at every batch; what is released may outweigh the bound.
    #[must_use]
    pub fn soft() -> Self {
        Self { lowering: Some(1.2), ..Self::pair() }
    }

    /// The urgency of a node on which so much hangs.
    pub(crate) fn urgency(&self, needs: u32) -> f64 {
        // By squaring, as `Chains::urgency` does it: the same bits.
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
