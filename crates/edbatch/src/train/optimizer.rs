//! Optimizers, groups of parameters and learning rates, as data.

use std::f64::consts::PI;

use edbatch_runtime::{Clipping, UpdateRule};

use crate::TrainError;

/// An optimizer: a rule with its learning rate and weight decay.
///
/// Names, formulas and defaults are as in `torch.optim`. [`UpdateRule`] says how a table is
/// updated if a mini-batch names only some of its rows.
///
/// ```
/// use edbatch::Optimizer;
/// use edbatch::runtime::UpdateRule;
///
/// let adam = Optimizer::adam_w(1e-3).decay(0.1);
/// let rule = UpdateRule::Sgd { momentum: 0.9, dampening: 0.0, nesterov: true };
/// let nesterov = Optimizer { rule, ..Optimizer::sgd(0.1) };
/// assert_eq!((adam.decay, nesterov.decay), (0.1, 0.0));
/// ```
///
/// A [`Trainer`](crate::Trainer) rejects numbers that are out of range.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Optimizer {
    /// The rule, with its options.
    pub rule: UpdateRule,
    /// The learning rate.
    pub rate: f64,
    /// The weight decay. It does not apply to tables that are only looked up.
    pub decay: f64,
}

impl Default for Optimizer {
    /// [Adam](Self::adam) at a rate of 0.001.
    fn default() -> Self {
        Self::adam(1e-3)
    }
}

impl Optimizer {
    /// `torch.optim.SGD`, without momentum.
    #[must_use]
    pub const fn sgd(rate: f64) -> Self {
        Self::new(rate, UpdateRule::Sgd { momentum: 0.0, dampening: 0.0, nesterov: false })
    }

    /// `torch.optim.Adagrad`. PyTorch's default rate is 0.01.
    #[must_use]
    pub const fn ada_grad(rate: f64) -> Self {
        Self::new(rate, UpdateRule::AdaGrad { rate_decay: 0.0, initial: 0.0, epsilon: 1e-10 })
    }

    /// `torch.optim.RMSprop`, with `alpha` 0.99. PyTorch's default rate is 0.01.
    #[must_use]
    pub const fn rms_prop(rate: f64) -> Self {
        let (alpha, epsilon, momentum, centered) = (0.99, 1e-8, 0.0, false);
        Self::new(rate, UpdateRule::RmsProp { alpha, epsilon, momentum, centered })
    }

    /// `torch.optim.Adam`, with `betas` 0.9 and 0.999. PyTorch's default rate is 0.001.
    #[must_use]
    pub const fn adam(rate: f64) -> Self {
        let betas = [0.9, 0.999];
        Self::new(rate, UpdateRule::Adam { betas, epsilon: 1e-8, decoupled: false })
    }

    /// `torch.optim.AdamW`, with a decay of 0.01. PyTorch's default rate is 0.001.
    #[must_use]
    pub const fn adam_w(rate: f64) -> Self {
        let rule = UpdateRule::Adam { betas: [0.9, 0.999], epsilon: 1e-8, decoupled: true };
        Self { decay: 1e-2, ..Self::new(rate, rule) }
    }

    const fn new(rate: f64, rule: UpdateRule) -> Self {
        Self { rule, rate, decay: 0.0 }
    }

    /// Sets the weight decay.
    #[must_use]
    pub const fn decay(self, decay: f64) -> Self {
        Self { decay, ..self }
    }

    /// Rejects numbers that are out of range.
    pub(super) fn check(&self) -> Result<(), TrainError> {
        at_least_0("rate", self.rate)?;
        at_least_0("decay", self.decay)?;
        let is_positive = |epsilon: f64| {
            let fits = (epsilon as f32).is_normal() && epsilon > 0.0;
            in_range(fits, "epsilon", "a number of at least 1e-37", epsilon)
        };
        match self.rule {
            UpdateRule::Sgd { momentum, dampening, nesterov } => {
                at_least_0("momentum", momentum)?;
                at_least_0("dampening", dampening)?;
                let fits = !nesterov || momentum > 0.0;
                in_range(fits, "momentum", "a number above 0 for nesterov", momentum)?;
                in_range(!nesterov || dampening == 0.0, "dampening", "0 for nesterov", dampening)
            }
            UpdateRule::AdaGrad { rate_decay, initial, epsilon } => {
                at_least_0("rate_decay", rate_decay)?;
                at_least_0("initial", initial)?;
                is_positive(epsilon)
            }
            UpdateRule::RmsProp { alpha, epsilon, momentum, .. } => {
                below_1("alpha", alpha)?;
                at_least_0("momentum", momentum)?;
                is_positive(epsilon)
            }
            UpdateRule::Adam { betas, epsilon, .. } => {
                betas.into_iter().try_for_each(|beta| below_1("betas", beta))?;
                is_positive(epsilon)
            }
        }
    }
}

/// Settings of the parameters whose names begin with a prefix.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Group {
    /// The factor of the learning rate.
    pub factor: f64,
    /// The weight decay; `None` for the [optimizer's](Optimizer::decay).
    pub decay: Option<f64>,
    /// Does not train these parameters. Their gradients are not computed.
    pub frozen: bool,
}

impl Default for Group {
    /// The optimizer's rate and decay.
    fn default() -> Self {
        Self { factor: 1.0, decay: None, frozen: false }
    }
}

impl Group {
    /// Rejects numbers that are out of range.
    pub(super) fn check(&self) -> Result<(), TrainError> {
        at_least_0("factor of a group", self.factor)?;
        at_least_0("decay of a group", self.decay.unwrap_or(0.0))
    }
}

/// Rejects limits of gradients that are out of range.
pub(super) fn check_clipping(clip: Clipping) -> Result<(), TrainError> {
    match clip {
        Clipping::None => Ok(()),
        Clipping::Norm(limit) => above_0("clip_norm", limit),
        Clipping::Value(limit) => above_0("clip_value", limit),
    }
}

/// The learning rate by epoch, as a factor of the [optimizer's](Optimizer::rate). Epochs count from
/// 0; [`Trainer::end_epoch`](crate::Trainer::end_epoch) ends one.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
#[non_exhaustive]
pub enum Rate {
    /// 1.
    #[default]
    Constant,
    /// `factor` to the power of ⌊epoch ÷ `every`⌋: `StepLR` of PyTorch.
    Step {
        /// The number of epochs between changes.
        every: u64,
        /// The factor of each change.
        factor: f64,
    },
    /// `factor` to the power of the epoch: `ExponentialLR`.
    Exponential {
        /// The factor of each epoch.
        factor: f64,
    },
    /// Half a cosine from 1 to 0: `CosineAnnealingLR`.
    Cosine {
        /// The epoch at which the factor is 0.
        epochs: u64,
    },
    /// The rate is multiplied by `factor` when the loss has not fallen by 0.01 % in more than
    /// `patience` epochs: `ReduceLROnPlateau`.
    Plateau {
        /// The factor of each change, below 1.
        factor: f64,
        /// The number of epochs without progress that change nothing.
        patience: u64,
    },
}

impl Rate {
    /// Rejects numbers that are out of range.
    pub(super) fn check(&self) -> Result<(), TrainError> {
        match *self {
            Self::Constant => Ok(()),
            Self::Step { every: 0, .. } => in_range(false, "every", "at least 1 epoch", 0.0),
            Self::Cosine { epochs } => in_range(epochs > 0, "epochs", "at least 1 epoch", 0.0),
            Self::Step { factor, .. } | Self::Exponential { factor } => {
                at_least_0("factor of the rate", factor)
            }
            Self::Plateau { factor, .. } => below_1("factor of the rate", factor),
        }
    }
}

/// The epochs so far, as far as they matter for the learning rate.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Epochs {
    /// The number of epochs that have ended.
    pub(super) ended: u64,
    /// The least loss of an epoch.
    pub(super) best: f64,
    /// The number of epochs since then.
    pub(super) bad: u64,
    /// The factor of a plateau.
    pub(super) factor: f64,
}

impl Epochs {
    pub(super) const NONE: Self = Self { ended: 0, best: f64::INFINITY, bad: 0, factor: 1.0 };

    pub(super) fn end_epoch(&mut self, rate: Rate, loss: f64) {
        self.ended += 1;
        let Rate::Plateau { factor, patience } = rate else { return };
        let progress = if self.best.is_finite() { self.best.abs() * 1e-4 } else { 0.0 };
        if loss < self.best - progress {
            (self.best, self.bad) = (loss, 0);
        } else {
            self.bad += 1;
        }
        if self.bad > patience {
            (self.factor, self.bad) = (self.factor * factor, 0);
        }
    }

    /// Returns the factor of the learning rate in this epoch.
    pub(super) fn factor(&self, rate: Rate) -> f64 {
        match rate {
            Rate::Constant => 1.0,
            Rate::Step { every, factor } => factor.powf((self.ended / every) as f64),
            Rate::Exponential { factor } => factor.powf(self.ended as f64),
            Rate::Cosine { epochs } => (1.0 + (PI * self.ended as f64 / epochs as f64).cos()) / 2.0,
            Rate::Plateau { .. } => self.factor,
        }
    }
}

fn at_least_0(option: &'static str, number: f64) -> Result<(), TrainError> {
    let fits = number >= 0.0 && (number as f32).is_finite();
    in_range(fits, option, "a finite number of at least 0", number)
}

fn above_0(option: &'static str, number: f64) -> Result<(), TrainError> {
    // The smallest numbers are 0 as f32, by which gradients are multiplied.
    let fits = number > 0.0 && (number as f32).is_normal();
    in_range(fits, option, "a finite number above 0", number)
}

fn below_1(option: &'static str, number: f64) -> Result<(), TrainError> {
    in_range((0.0..1.0).contains(&number), option, "a number from 0 to below 1", number)
}

/// Fails unless the number `fits`.
pub(super) fn in_range(
    fits: bool,
    option: &'static str,
    expected: &'static str,
    got: f64,
) -> Result<(), TrainError> {
    fits.then_some(()).ok_or(TrainError::Option { option, expected, got })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected: `ReduceLROnPlateau(optimizer, factor=0.5, patience=1)` of PyTorch.
    #[test]
    fn plateau_lowers_the_rate_after_bad_epochs() {
        let rate = Rate::Plateau { factor: 0.5, patience: 1 };
        rate.check().unwrap();
        let mut epochs = Epochs::NONE;
        let losses = [3.0, 2.0, 2.0, 1.99999, 1.9, f64::NAN, 1.95, 1.9, 1.9, 1.0];
        let factors = losses.map(|loss| {
            epochs.end_epoch(rate, loss);
            epochs.factor(rate)
        });
        assert_eq!(factors, [1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.25, 0.25, 0.125, 0.125]);
    }

    /// Expected: `CosineAnnealingLR(optimizer, T_max=2)` of PyTorch, which rises after its end.
    #[test]
    fn a_cosine_rises_after_its_end() {
        let rate = Rate::Cosine { epochs: 2 };
        let mut epochs = Epochs::NONE;
        for expected in [0.5, 0.0, 0.5, 1.0, 0.5, 0.0] {
            epochs.end_epoch(rate, 1.0);
            let got = epochs.factor(rate);
            assert!((got - expected).abs() < 1e-12, "epoch {}: {got}", epochs.ended);
        }
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        let adam = |betas, epsilon| Optimizer {
            rule: UpdateRule::Adam { betas, epsilon, decoupled: false },
            ..Optimizer::adam(1.0)
        };
        let sgd = |momentum, dampening| Optimizer {
            rule: UpdateRule::Sgd { momentum, dampening, nesterov: true },
            ..Optimizer::sgd(1.0)
        };
        for (optimizer, text) in [
            (Optimizer::sgd(f64::NAN), "rate: expected a finite number of at least 0, got NaN"),
            (Optimizer::sgd(-1.0), "rate: expected a finite number of at least 0, got -1"),
            (
                Optimizer::adam_w(f64::INFINITY),
                "rate: expected a finite number of at least 0, got inf",
            ),
            (
                Optimizer::adam(1.0).decay(-0.1),
                "decay: expected a finite number of at least 0, got -0.1",
            ),
            (adam([0.9, 1.0], 1e-8), "betas: expected a number from 0 to below 1, got 1"),
            (adam([0.9, 0.9], 0.0), "epsilon: expected a number of at least 1e-37, got 0"),
            (sgd(0.0, 0.0), "momentum: expected a number above 0 for nesterov, got 0"),
            (sgd(0.9, 0.1), "dampening: expected 0 for nesterov, got 0.1"),
        ] {
            assert_eq!(optimizer.check().unwrap_err().to_string(), text);
        }
        let all = [
            Optimizer::sgd(0.0),
            Optimizer::ada_grad(0.01),
            Optimizer::rms_prop(0.01),
            Optimizer::adam(0.1),
            Optimizer::adam_w(0.1),
        ];
        all.iter().for_each(|optimizer| optimizer.check().unwrap());
        for (rate, text) in [
            (Rate::Step { every: 0, factor: 1.0 }, "every: expected at least 1 epoch, got 0"),
            (Rate::Cosine { epochs: 0 }, "epochs: expected at least 1 epoch, got 0"),
            (
                Rate::Exponential { factor: f64::INFINITY },
                "factor of the rate: expected a finite number of at least 0, got inf",
            ),
            (
                Rate::Plateau { factor: 1.0, patience: 1 },
                "factor of the rate: expected a number from 0 to below 1, got 1",
            ),
        ] {
            assert_eq!(rate.check().unwrap_err().to_string(), text);
        }
    }
}
