//! Updates of the parameters, and the learning rate.

use edbatch_graph::Network;
use edbatch_runtime::{Clipping, Gradients, Update};

use super::optimizer::Epochs;
use super::{Optimizer, Rate, TrainerOptions};

/// The optimizer, and the number of updates and epochs so far.
pub(super) struct Updater {
    pub(super) optimizer: Optimizer,
    pub(super) rate: Rate,
    warm_up: u64,
    clip: Clipping,
    /// By parameter: the factor of its learning rate, and its decay.
    factors: Vec<f64>,
    decays: Vec<f64>,
    /// By parameter: the learning rate of the last update.
    rates: Vec<f64>,
    /// The number of updates so far.
    pub(super) steps: u64,
    pub(super) epochs: Epochs,
}

impl Updater {
    /// An updater of the parameters of a network, whose masks follow them: there are `all` tensors.
    pub(super) fn new(options: &TrainerOptions, network: &Network, all: usize) -> Self {
        let &TrainerOptions { optimizer, rate, warm_up, clip, .. } = options;
        let groups = network.parameters().iter().map(|it| options.group_of(&it.name));
        let (mut factors, mut decays): (Vec<_>, Vec<_>) =
            groups.map(|group| (group.factor, group.decay.unwrap_or(optimizer.decay))).unzip();
        // Masks are not trained.
        factors.resize(all, 0.0);
        decays.resize(all, 0.0);
        let (rates, epochs) = (Vec::new(), Epochs::NONE);
        Self { optimizer, rate, warm_up, clip, factors, decays, rates, steps: 0, epochs }
    }

    /// Returns the learning rate of the next update.
    pub(super) fn learning_rate(&self) -> f64 {
        self.learning_rate_of(self.steps + 1)
    }

    fn learning_rate_of(&self, step: u64) -> f64 {
        let warm_up = if step < self.warm_up { step as f64 / self.warm_up as f64 } else { 1.0 };
        self.optimizer.rate * self.epochs.factor(self.rate) * warm_up
    }

    /// Returns the next update after `begun` others, by the gradients that the backend has summed,
    /// or by those that the caller has set. After it, [`steps`](Self::steps) is to be increased.
    pub(super) fn next<'a>(&'a mut self, set: Option<&'a Gradients>, begun: u64) -> Update<'a> {
        let step = self.steps + begun + 1;
        let rate = self.learning_rate_of(step);
        self.rates.clear();
        self.rates.extend(self.factors.iter().map(|factor| factor * rate));
        Update {
            rule: self.optimizer.rule,
            step,
            rates: &self.rates,
            decays: &self.decays,
            clip: self.clip,
            gradients: set,
        }
    }
}
