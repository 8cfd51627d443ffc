//! Updates of parameters by their gradients: the rules, as data.

use super::Gradients;
use crate::kernels::{Change, Rule};

/// A rule that turns the gradient of a parameter into its change.
///
/// Formulas, names and [moments](Self::moments) are as in `torch.optim`. If a mini-batch reads a
/// table only by row, the rule changes only the rows that the mini-batch names, and their moments:
///
/// - [`Sgd`](Self::Sgd) without momentum and [`AdaGrad`](Self::AdaGrad) compute the same numbers as
///   with zero gradients for the other rows;
/// - [`Adam`](Self::Adam) computes what `torch.optim.SparseAdam` does;
/// - the other rules leave the moments of the other rows as they are.
///
/// Weight decay does not apply to such tables.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum UpdateRule {
    /// `torch.optim.SGD`.
    Sgd {
        /// The factor of the momentum of the last update; 0 for no momentum.
        momentum: f64,
        /// 1 minus the factor of the gradient in the momentum, from the second update on.
        dampening: f64,
        /// Adds the momentum to the gradient once more.
        nesterov: bool,
    },
    /// `torch.optim.Adagrad`.
    AdaGrad {
        /// The rate is divided by 1 + (step - 1) · `rate_decay`.
        rate_decay: f64,
        /// The initial value of the sums of squares.
        initial: f64,
        /// Added to the divisor.
        epsilon: f64,
    },
    /// `torch.optim.RMSprop`.
    RmsProp {
        /// The factor of the old mean of squares.
        alpha: f64,
        /// Added to the divisor.
        epsilon: f64,
        /// The factor of the momentum of the last update; 0 for no momentum.
        momentum: f64,
        /// Divides by the standard deviation instead of the root of the mean of squares.
        centered: bool,
    },
    /// `torch.optim.Adam` and `AdamW`.
    Adam {
        /// The factors of the old mean and of the old mean of squares.
        betas: [f64; 2],
        /// Added to the divisor.
        epsilon: f64,
        /// AdamW: decay does not enter the means, but scales the weights.
        decoupled: bool,
    },
}

impl UpdateRule {
    /// Returns the names of the tensors that the rule keeps for each parameter, at most 3.
    #[must_use]
    pub fn moments(&self) -> &'static [&'static str] {
        match *self {
            Self::Sgd { momentum: 0.0, .. } => &[],
            Self::Sgd { .. } => &["momentum"],
            Self::AdaGrad { .. } => &["squares"],
            Self::RmsProp { momentum: 0.0, centered: false, .. } => &["squares"],
            Self::RmsProp { momentum: 0.0, centered: true, .. } => &["squares", "mean"],
            Self::RmsProp { centered: false, .. } => &["squares", "momentum"],
            Self::RmsProp { .. } => &["squares", "mean", "momentum"],
            Self::Adam { .. } => &["mean", "squares"],
        }
    }

    /// Returns the elements of all moments before the first update.
    #[must_use]
    pub fn initial_moment(&self) -> f32 {
        match *self {
            Self::AdaGrad { initial, .. } => initial as f32,
            _ => 0.0,
        }
    }
}

/// An update of all trained parameters.
#[derive(Clone, Copy, Debug)]
pub struct Update<'a> {
    /// The rule.
    pub rule: UpdateRule,
    /// The number of the update, from 1.
    pub step: u64,
    /// By parameter, the learning rate.
    pub rates: &'a [f64],
    /// By parameter, the weight decay.
    pub decays: &'a [f64],
    /// The limit of gradients.
    pub clip: Clipping,
    /// The gradients, if not those that [`Training::finish`](super::Training::finish) completed
    /// last.
    pub gradients: Option<&'a Gradients>,
}

/// A limit of gradients.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Clipping {
    /// No limit.
    #[default]
    None,
    /// Of the norm of all gradients together, as `torch.nn.utils.clip_grad_norm_`.
    Norm(f64),
    /// Of the magnitude of each element, as `torch.nn.utils.clip_grad_value_`.
    Value(f64),
}

impl Clipping {
    /// Returns the factor of all gradients, and the maximum magnitude of their elements after that.
    /// `squared_norm` returns the sum of the squares of all elements.
    #[must_use]
    pub fn scale_and_limit(self, squared_norm: impl FnOnce() -> f64) -> [f32; 2] {
        match self {
            Self::None => [1.0, f32::INFINITY],
            Self::Norm(limit) => {
                let scale = (limit / (squared_norm().sqrt() + 1e-6)).min(1.0);
                [scale as f32, f32::INFINITY]
            }
            Self::Value(limit) => [1.0, limit as f32],
        }
    }
}

impl Update<'_> {
    /// Returns the change of a parameter, or of some rows of a table. Gradients are scaled and
    /// limited by these two numbers.
    ///
    /// # Panics
    /// If there is no rate or decay for the parameter.
    #[must_use]
    pub fn change(&self, parameter: usize, of_rows: bool, [scale, clip]: [f32; 2]) -> Change {
        let rate = self.rates[parameter];
        let decay = if of_rows { 0.0 } else { self.decays[parameter] };
        let (mut coupled, mut keep) = (decay, 1.0);
        let rule = match self.rule {
            UpdateRule::Sgd { momentum: 0.0, .. } => Rule::Descent { rate: rate as f32 },
            UpdateRule::Sgd { momentum, dampening, nesterov } => Rule::Momentum {
                rate: rate as f32,
                momentum: momentum as f32,
                gradient: if self.step == 1 { 1.0 } else { (1.0 - dampening) as f32 },
                nesterov,
            },
            UpdateRule::AdaGrad { rate_decay, epsilon, .. } => Rule::AdaGrad {
                rate: (rate / (1.0 + (self.step - 1) as f64 * rate_decay)) as f32,
                epsilon: epsilon as f32,
            },
            UpdateRule::RmsProp { alpha, epsilon, momentum, centered } => Rule::RmsProp {
                rate: rate as f32,
                new: (1.0 - alpha) as f32,
                epsilon: epsilon as f32,
                momentum: momentum as f32,
                centered,
            },
            UpdateRule::Adam { betas, epsilon, decoupled } => {
                if decoupled {
                    (coupled, keep) = (0.0, 1.0 - rate * decay);
                }
                let [first, second] = betas.map(|beta| 1.0 - beta.powf(self.step as f64));
                // SparseAdam adds epsilon to the root before the root is corrected.
                let epsilon = if of_rows { epsilon / second.sqrt() } else { epsilon };
                Rule::Adam {
                    rate: (rate / first) as f32,
                    new: betas.map(|beta| (1.0 - beta) as f32),
                    root: (1.0 / second.sqrt()) as f32,
                    epsilon: epsilon as f32,
                }
            }
        };
        Change { rule, scale, clip, decay: coupled as f32, keep: keep as f32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected: `clip_grad_norm_` of PyTorch, which adds 1e-6 to the norm.
    #[test]
    fn small_norms_are_clipped_as_in_pytorch() {
        let scale = |limit, norm: f64| Clipping::Norm(limit).scale_and_limit(|| norm * norm)[0];
        assert!((scale(1e-5, 1e-5) - 1.0 / 1.1).abs() < 1e-7);
        assert!((scale(5e-6, 1e-5) - 0.5 / 1.1).abs() < 1e-7);
        assert_eq!((scale(0.0, 0.0), scale(1e-6, 0.0)), (0.0, 1.0));
    }
}
