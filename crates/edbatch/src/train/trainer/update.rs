//! Updates of the parameters, and the learning rate.

use std::time::Instant;

use edbatch_models::Model;
use edbatch_runtime::Update;

use super::{Trainer, training};
use crate::train::optimizer::Clip;
use crate::{RunError, TrainError};

impl<M: Model> Trainer<M> {
    /// Returns the number of updates so far.
    #[must_use]
    pub fn updates(&self) -> u64 {
        self.steps
    }

    /// Sets the number of updates. The masks of dropout and the warm-up depend on it. For callers
    /// that update the parameters themselves, by [`set_parameters`](Self::set_parameters).
    pub fn set_updates(&mut self, updates: u64) {
        self.steps = updates;
    }

    /// Returns the learning rate of the next update, for parameters without a group.
    #[must_use]
    pub fn learning_rate(&self) -> f64 {
        let step = self.steps + 1;
        let warm_up = if step < self.warm_up { step as f64 / self.warm_up as f64 } else { 1.0 };
        self.optimizer.rate * self.epochs.factor(self.rate) * warm_up
    }

    /// Ends an epoch, so that the learning rate follows its [`Rate`](crate::Rate). Only
    /// [`Plateau`](crate::Rate::Plateau) reads the loss, or any other number that falls as the
    /// model gets better.
    pub fn end_epoch(&mut self, loss: f64) {
        self.epochs.end_epoch(self.rate, loss);
    }

    /// Updates the parameters, given their [gradients](Self::gradients), and clears the gradients.
    /// Returns the norm of the gradients of all parameters, before clipping.
    ///
    /// # Errors
    /// If a gradient is not finite, or memory for moments cannot be allocated. Then the gradients
    /// are cleared, and parameters, moments and the count of updates are as before.
    pub fn update(&mut self) -> Result<f64, TrainError> {
        let done = self.try_update();
        self.or_clear(done)
    }

    fn try_update(&mut self) -> Result<f64, TrainError> {
        let norm = self.squared_norm()?.sqrt();
        if !norm.is_finite() {
            self.gradients()?;
        }
        let updating = Instant::now();
        let rate = self.learning_rate();
        self.rates.clear();
        self.rates.extend(self.factors.iter().map(|factor| factor * rate));
        let (scale, clip) = Clip::scale_and_limit(self.clip, norm);
        let update = Update {
            rule: self.optimizer.rule,
            step: self.steps + 1,
            rates: &self.rates,
            decays: &self.decays,
            scale,
            clip,
            gradients: self.set.as_ref(),
        };
        training(&mut *self.backend).update(&update).map_err(RunError::from)?;
        self.steps += 1;
        self.forget_old_values();
        self.times.update += updating.elapsed();
        Ok(norm)
    }
}
