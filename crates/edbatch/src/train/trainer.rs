//! The trainer: computes the loss of mini-batches and its gradients on a backend, and updates the
//! parameters.

mod borrowed;
mod build;
mod state;

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use edbatch_graph::Parameter;
use edbatch_layout::Program;
use edbatch_models::{Model, Targets};
use edbatch_runtime::{Bytes, Gradient, Gradients, Rows, StepResult, StillWanted};

use super::differentiator::{Differentiator, training};
use super::updater::Updater;
use super::{Loss, Times};
use crate::{Report, Statistics, TrainError};

/// A model with its parameters, which it trains on mini-batches.
///
/// [`train`](Self::train) is a step of training: it [accumulates](Self::accumulate) gradients and
/// [updates](Self::update) the parameters. Gradients are batched as outputs are: the backward pass
/// runs the batches of the forward pass in reverse order. [`accumulate`](Self::accumulate) computes
/// a cross-entropy and its gradients. [`forward`](Self::forward) and [`backward`](Self::backward)
/// leave the loss to the caller. Both ways add to the gradients of parameters, until
/// [`update`](Self::update) or [`clear_gradients`](Self::clear_gradients).
///
/// The bits of gradients and of updated parameters do not depend on the policy, on threads, or on
/// how inputs are divided between calls of `accumulate`.
///
/// ```
/// # use rand::{SeedableRng, rngs::Xoshiro256PlusPlus};
/// use edbatch::Trainer;
/// use edbatch::datasets::Sentence;
/// use edbatch::models::{BiLstmTagger, Model, TaggerSizes};
/// use edbatch::runtime::Parameters;
///
/// # let (embed, hidden, mlp) = (4, 4, 4);
/// # let sizes = TaggerSizes { vocabulary: 9, embed, hidden, layers: 1, mlp, tags: 3 };
/// let model = BiLstmTagger::new(sizes)?;
/// # let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
/// let parameters = Parameters::random(model.network(), &mut rng);
/// let mut trainer = Trainer::new(model, parameters)?;
///
/// let sentence = Sentence { words: vec![1, 2], tags: vec![None; 2] };
/// // The second word has no target.
/// let (inputs, targets) = ([sentence], [vec![Some(2), None]]);
/// let first = trainer.train(&inputs, &targets)?;
/// let second = trainer.train(&inputs, &targets)?;
/// assert!(first.terms == 1 && second.loss < first.loss);
///
/// trainer.accumulate(&inputs, &targets, 1.0)?;
/// assert!(trainer.gradients()?.squared_norm() > 0.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Trainer<M> {
    differentiator: Differentiator<M>,
    updater: Updater,
    /// The program of [`engine`](Trainer::engine).
    evaluated: Option<Arc<Program>>,
}

/// A step of training.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TrainReport {
    /// The sum of the cross-entropies of all rows with a target, divided by the number of inputs,
    /// before the update.
    pub loss: f64,
    /// The number of rows with a target.
    pub terms: u64,
    /// The norm of the gradients of all parameters, before clipping.
    pub gradient_norm: f64,
    /// The time of the step.
    pub times: Times,
}

impl<M: Model> Trainer<M> {
    /// Returns the model.
    #[must_use]
    pub fn model(&self) -> &M {
        &self.differentiator.model
    }

    /// Computes the mean loss of a mini-batch and its gradients, and updates the parameters:
    /// [`accumulate`](Self::accumulate) with a weight of 1 ÷ inputs, then
    /// [`update`](Self::update).
    ///
    /// # Errors
    /// If either method fails. Then parameters, moments and the count of updates are as before.
    pub fn train(
        &mut self,
        inputs: &[M::Input],
        targets: &[Targets],
    ) -> Result<TrainReport, TrainError> {
        let before = self.times();
        let weight = 1.0 / inputs.len().max(1) as f32;
        let Self { differentiator, updater, .. } = self;
        let of_step = (weight, updater.steps);
        let update = Some(updater.next(None, 0));
        let done = differentiator.accumulate(inputs, targets, of_step, update);
        let StepResult { loss, terms, squared_norm, .. } = differentiator.or_clear(done)?;
        self.end_update()?;
        let gradient_norm = squared_norm.sqrt();
        let after = self.times();
        let times = Times {
            decide: after.decide - before.decide,
            forward: after.forward - before.forward,
            back: after.back - before.back,
            sums: after.sums - before.sums,
            update: after.update - before.update,
        };
        Ok(TrainReport { loss, terms, gradient_norm, times })
    }

    /// [Trains](Self::train) on mini-batches in order, and calls `each` with the report of each of
    /// them. [`Break`](ControlFlow::Break) ends it. Parameters and reports have the bits of
    /// [`train`](Self::train).
    ///
    /// With a device, the host wires, schedules and plans the next mini-batches while the device
    /// runs one: on as many other threads as the trainer has, or on the caller's if it has one. A
    /// mini-batch is then a single part, and up to one more of them than threads is read ahead. A
    /// step begins before the result of the one before it is known. So after a `Break`, `each` may
    /// be called once more, for the step that has begun; what it returns is then ignored. In a
    /// report, `decide` is the time of a thread, and `forward` the time from the beginning of a
    /// step to its end, which overlaps with other steps.
    ///
    /// ```
    /// # use std::ops::ControlFlow;
    /// # use edbatch::Trainer;
    /// # use edbatch::datasets::Sentence;
    /// # use edbatch::models::{BiLstmTagger, Model, TaggerSizes};
    /// # use edbatch::runtime::Parameters;
    /// # use rand::{SeedableRng, rngs::Xoshiro256PlusPlus};
    /// # let sizes =
    /// #     TaggerSizes { vocabulary: 9, embed: 4, hidden: 4, layers: 1, mlp: 4, tags: 3 };
    /// # let model = BiLstmTagger::new(sizes)?;
    /// # let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    /// # let parameters = Parameters::random(model.network(), &mut rng);
    /// # let mut trainer = Trainer::new(model, parameters)?;
    /// let inputs: Vec<_> =
    ///     (0..8).map(|word| Sentence { words: vec![word, 1], tags: vec![None; 2] }).collect();
    /// let targets = vec![vec![Some(2), None]; 8];
    /// let mut losses = Vec::new();
    /// trainer.train_each(inputs.chunks(2).zip(targets.chunks(2)), |report| {
    ///     losses.push(report.loss);
    ///     ControlFlow::Continue(())
    /// })?;
    /// assert_eq!((losses.len(), trainer.updates()), (4, 4));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If [`train`](Self::train) of a mini-batch fails. Then the earlier ones have been trained on,
    /// each with a call of `each`, and nothing of the later ones has been applied.
    pub fn train_each<I, T>(
        &mut self,
        mini_batches: impl IntoIterator<Item = (I, T)>,
        mut each: impl FnMut(TrainReport) -> ControlFlow<()>,
    ) -> Result<(), TrainError>
    where
        I: AsRef<[M::Input]> + Send,
        T: AsRef<[Targets]> + Send,
    {
        let Self { differentiator, updater, .. } = self;
        let mut mini_batches = mini_batches.into_iter();
        if differentiator.runs_ahead() {
            let updates = updater.steps;
            let done = differentiator.train_ahead(updater, mini_batches, each);
            differentiator.or_clear(done)?;
            let has_updated = self.updates() > updates;
            return if has_updated { self.differentiator.forget_old_values() } else { Ok(()) };
        }
        let ended = mini_batches.try_for_each(|(inputs, targets)| {
            match self.train(inputs.as_ref(), targets.as_ref()).map(&mut each) {
                Ok(ControlFlow::Continue(())) => ControlFlow::Continue(()),
                Ok(ControlFlow::Break(())) => ControlFlow::Break(Ok(())),
                Err(error) => ControlFlow::Break(Err(error)),
            }
        });
        ended.break_value().unwrap_or(Ok(()))
    }

    /// Adds the gradients of a cross-entropy to the gradients of parameters: `weight` times the sum
    /// over all emitted rows that have a target. Each input has a target or `None` for each row
    /// that it emits.
    ///
    /// For the mean over a mini-batch of N inputs, the weight is 1 / N, also if they are divided
    /// between several calls.
    ///
    /// # Errors
    /// If an input or its targets do not fit the model, if it awaits a computed value, if the
    /// weight or the loss is not finite, if the step is not
    /// [wanted](Self::set_still_wanted), or if the mini-batch is too large. All gradients are
    /// cleared then, and the trainer stays usable.
    pub fn accumulate(
        &mut self,
        inputs: &[M::Input],
        targets: &[Targets],
        weight: f32,
    ) -> Result<Loss, TrainError> {
        let of_step = (weight, self.updater.steps);
        let done = self.differentiator.accumulate(inputs, targets, of_step, None);
        let StepResult { loss, terms, .. } = self.differentiator.or_clear(done)?;
        Ok(Loss { loss, terms })
    }

    /// Runs a mini-batch, and keeps its values for [`backward`](Self::backward). Returns for each
    /// input the rows that it emits, in order. A second `forward` forgets the first.
    ///
    /// # Errors
    /// If an input does not fit the model or awaits a computed value, or if the mini-batch is too
    /// large. The trainer stays usable.
    pub fn forward(&mut self, inputs: &[M::Input]) -> Result<Vec<Rows>, TrainError> {
        self.differentiator.forward(inputs, self.updater.steps)
    }

    /// Adds the gradients of a loss to the gradients of parameters. `gradients` are the loss's
    /// gradients with respect to the rows that the last [`forward`](Self::forward) returned. The
    /// loss does not depend on a row whose gradient is empty.
    ///
    /// Returns for each input the gradients of its given rows, in the order in which it gave them,
    /// if [`given_gradients`](crate::TrainerOptions::given_gradients) is set; else nothing.
    ///
    /// # Errors
    /// If there was no `forward`, if the gradients do not have the shape of its rows, or if memory
    /// cannot be allocated. The gradients of parameters are cleared then.
    pub fn backward(&mut self, gradients: &[Rows]) -> Result<Vec<Rows>, TrainError> {
        let done = self.differentiator.backward(gradients);
        self.differentiator.or_clear(done)
    }

    /// Returns the gradients of parameters: the sums over all mini-batches since
    /// [`clear_gradients`](Self::clear_gradients), or what the caller has
    /// [set](Self::set_gradients).
    ///
    /// # Errors
    /// If a gradient is not finite, or memory cannot be allocated.
    pub fn gradients(&mut self) -> Result<Gradients, TrainError> {
        self.squared_norm()?;
        let Differentiator { model, backend, set, .. } = &mut self.differentiator;
        let mut gradients = match set {
            Some(set) => set.try_clone(),
            None => training(backend).gradients(),
        }?;
        let parameters = model.network().parameters();
        gradients.parameters.truncate(parameters.len());
        match gradients.not_finite() {
            None => Ok(gradients),
            Some(id) => {
                let parameter = parameters[id.0 as usize].name.clone();
                Err(TrainError::NotFiniteGradient { parameter })
            }
        }
    }

    /// Returns the sum of the squares of all [gradients](Self::gradients), without copying them.
    ///
    /// # Errors
    /// If memory cannot be allocated.
    pub fn squared_norm(&mut self) -> Result<f64, TrainError> {
        if let Some(set) = &self.differentiator.set {
            return Ok(set.squared_norm());
        }
        let summing = Instant::now();
        let norm = training(&mut self.differentiator.backend).finish()?;
        self.differentiator.times.sums += summing.elapsed();
        Ok(norm)
    }

    /// Replaces the gradients of parameters, for example by their sums over several processes.
    ///
    /// # Errors
    /// If they do not have the shapes of the parameters, or name a row twice.
    pub fn set_gradients(&mut self, mut gradients: Gradients) -> Result<(), TrainError> {
        let Differentiator { model, dropout, set, .. } = &mut self.differentiator;
        let parameters = model.network().parameters();
        let fits = |(parameter, gradient): (&Parameter, &Gradient)| {
            let (rows, elements) = (parameter.dims[0], parameter.elements());
            match gradient {
                Gradient::None => true,
                Gradient::Whole(values) => values.len() == elements,
                Gradient::Rows { rows: named, elements: values } => {
                    let mut distinct = HashSet::new();
                    values.len() * rows == named.len() * elements
                        && named.iter().all(|&row| (row as usize) < rows && distinct.insert(row))
                }
            }
        };
        let mut all = parameters.iter().zip(&gradients.parameters);
        if gradients.parameters.len() != parameters.len() || !all.all(fits) {
            return Err(TrainError::GradientsOfParameters);
        }
        // Masks have no gradients.
        gradients.parameters.resize(dropout.network.parameters().len(), Gradient::None);
        *set = Some(gradients);
        Ok(())
    }

    /// Sets the gradients of parameters to zero, for the next mini-batch.
    pub fn clear_gradients(&mut self) {
        self.differentiator.clear_gradients();
    }

    /// Returns the number of updates so far.
    #[must_use]
    pub fn updates(&self) -> u64 {
        self.updater.steps
    }

    /// Sets the number of updates. The masks of dropout and the warm-up depend on it. For callers
    /// that update the parameters themselves, by [`set_parameters`](Self::set_parameters).
    pub fn set_updates(&mut self, updates: u64) {
        self.updater.steps = updates;
    }

    /// Returns the learning rate of the next update, for parameters without a group.
    #[must_use]
    pub fn learning_rate(&self) -> f64 {
        self.updater.learning_rate()
    }

    /// Ends an epoch, so that the learning rate follows its [`Rate`](crate::Rate). Only
    /// [`Plateau`](crate::Rate::Plateau) reads the loss, or any other number that falls as the
    /// model gets better.
    pub fn end_epoch(&mut self, loss: f64) {
        self.updater.epochs.end_epoch(self.updater.rate, loss);
    }

    /// Updates the parameters, given their [gradients](Self::gradients), and clears the gradients.
    /// Returns the norm of the gradients of all parameters, before clipping.
    ///
    /// # Errors
    /// If a gradient is not finite, or memory for moments cannot be allocated. Then the gradients
    /// are cleared, and parameters, moments and the count of updates are as before.
    pub fn update(&mut self) -> Result<f64, TrainError> {
        let done = self.try_update();
        self.differentiator.or_clear(done)
    }

    fn try_update(&mut self) -> Result<f64, TrainError> {
        let norm = self.squared_norm()?.sqrt();
        if !norm.is_finite() {
            self.gradients()?;
        }
        let updating = Instant::now();
        let Self { differentiator, updater, .. } = self;
        let Differentiator { backend, set, .. } = differentiator;
        training(backend).update(&updater.next(set.as_ref(), 0))?;
        differentiator.times.update += updating.elapsed();
        self.end_update()?;
        Ok(norm)
    }

    /// Counts an update, and forgets what was computed from the parameters before it.
    fn end_update(&mut self) -> Result<(), TrainError> {
        let updating = Instant::now();
        self.updater.steps += 1;
        self.differentiator.forget_old_values()?;
        self.differentiator.times.update += updating.elapsed();
        Ok(())
    }

    /// Sets a function that ends a running step: `train`, `accumulate`, `forward` and `backward`
    /// call it from all threads, before each input is wired and between batches. Once it returns
    /// false, they fail with [`TrainError::Cancelled`]; their documentation tells the state of the
    /// trainer after an error.
    pub fn set_still_wanted(&mut self, still_wanted: Option<StillWanted>) {
        self.differentiator.set_still_wanted(still_wanted);
    }

    /// Returns the counts and times of the forward passes of all mini-batches so far.
    #[must_use]
    pub fn statistics(&self) -> &Statistics {
        &self.differentiator.tally.statistics
    }

    /// Returns the batches of each kind, if [`counts`](crate::TrainerOptions::counts) is set.
    #[must_use]
    pub fn report(&self) -> Option<&Report> {
        self.differentiator.tally.report.as_ref()
    }

    /// Returns the memory that the backend holds.
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        self.differentiator.backend.bytes()
    }

    /// Returns the time of all work so far.
    #[must_use]
    pub fn times(&self) -> Times {
        self.differentiator.times
    }
}
