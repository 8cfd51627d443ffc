//! The trainer: computes the loss of mini-batches and its gradients on a backend, and updates the
//! parameters.

mod build;
mod gradients;
mod own_loss;
mod run;
mod state;
mod update;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use edbatch_layout::Program;
use edbatch_models::{Model, Targets};
use edbatch_policy::Scheduler;
use edbatch_runtime::{Backend, Bytes, Gradients, Rows, StillWanted, ThreadPool, Training};

use super::dropout::Dropout;
use super::optimizer::{Clip, Epochs};
use super::pass::Pass;
use super::{Optimizer, Rate};
use crate::statistics::Tally;
use crate::{Report, Statistics, TrainError};
use run::OutputsOf;

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
    model: M,
    program: Arc<Program>,
    backend: Box<dyn Backend>,
    /// The backend's [`largest_cell`](Backend::largest_cell).
    largest_cell: Option<usize>,
    initial: Rows,
    pool: ThreadPool,
    memory_limit: Option<u64>,
    counts: bool,
    given_gradients: bool,
    scheduler: Scheduler,
    dropout: Dropout,
    /// The number of inputs whose gradients were accumulated since they were cleared.
    accumulated: u64,
    passes: Vec<Mutex<Pass>>,
    /// The number of passes whose values are in the backend, after [`forward`](Self::forward).
    forward: usize,
    still_wanted: Option<StillWanted>,
    /// Gradients that the caller has set.
    set: Option<Gradients>,
    optimizer: Optimizer,
    rate: Rate,
    warm_up: u64,
    clip: Option<Clip>,
    /// By parameter: the factor of its learning rate, and its decay.
    factors: Vec<f64>,
    decays: Vec<f64>,
    /// By parameter: the learning rate of the last update.
    rates: Vec<f64>,
    /// The number of updates so far.
    steps: u64,
    epochs: Epochs,
    tally: Tally,
    times: Times,
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

/// The loss of a mini-batch.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Loss {
    /// The sum of the cross-entropies of all rows with a target, times the weight.
    pub loss: f64,
    /// The number of rows with a target.
    pub terms: u64,
}

/// The time of a trainer's work so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Times {
    /// Building graphs, scheduling and planning.
    pub decide: Duration,
    /// Running batches forward.
    pub forward: Duration,
    /// Running batches back.
    pub back: Duration,
    /// Summing the gradients of parameters.
    pub sums: Duration,
    /// Updating and packing the parameters.
    pub update: Duration,
}

impl<M: Model> Trainer<M> {
    /// Returns the model.
    #[must_use]
    pub fn model(&self) -> &M {
        &self.model
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
        let before = self.times;
        let weight = 1.0 / inputs.len().max(1) as f32;
        let Loss { loss, terms } = self.accumulate(inputs, targets, weight)?;
        let gradient_norm = self.update()?;
        let times = Times {
            decide: self.times.decide - before.decide,
            forward: self.times.forward - before.forward,
            back: self.times.back - before.back,
            sums: self.times.sums - before.sums,
            update: self.times.update - before.update,
        };
        Ok(TrainReport { loss, terms, gradient_norm, times })
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
        self.forward = 0;
        let done = self.try_accumulate(inputs, targets, weight);
        self.or_clear(done)
    }

    fn try_accumulate(
        &mut self,
        inputs: &[M::Input],
        targets: &[Targets],
        weight: f32,
    ) -> Result<Loss, TrainError> {
        if inputs.len() != targets.len() {
            let (inputs, targets) = (inputs.len(), targets.len());
            return Err(TrainError::TargetsOfInputs { inputs, targets });
        }
        if !weight.is_finite() {
            let (expected, got) = ("a finite number", f64::from(weight));
            return Err(TrainError::Option { option: "weight", expected, got });
        }
        self.set = None;
        let mut parts = VecDeque::from(self.parts(inputs));
        let (mut loss, mut losses) = (Loss::default(), Vec::new());
        while !parts.is_empty() {
            let count = self.pool.threads().min(parts.len());
            let group: Vec<Range<usize>> = parts.drain(..count).collect();
            self.decide(inputs, Some(targets), &group)?;
            if let Err(error) = self.check_memory(count) {
                // A limit allows a single thread, so the group is one part.
                let Range { start, end } = group[0];
                if end - start < 2 {
                    return Err(error);
                }
                let middle = start + (end - start) / 2;
                parts.push_front(middle..end);
                parts.push_front(start..middle);
                continue;
            }
            self.run_forward(count)?;
            losses.clear();
            self.run_back(count, &OutputsOf::CrossEntropy { weight }, &mut losses)?;
            let mut first = 0;
            for (slot, part) in group.into_iter().enumerate() {
                let pass = pass(&mut self.passes[slot]);
                let mut from = 0;
                for (input, &(end, _)) in part.zip(&pass.ends) {
                    let of_input = &losses[first + from..first + end];
                    let sum: f64 = of_input.iter().sum();
                    if !sum.is_finite() {
                        let call = self.not_finite_call(inputs, input);
                        return Err(TrainError::NotFiniteLoss { input, call });
                    }
                    loss.loss += sum;
                    from = end;
                }
                loss.terms += pass.plan.gradient_of.iter().flatten().count() as u64;
                first += from;
            }
        }
        self.accumulated += inputs.len() as u64;
        Ok(loss)
    }

    /// Sets a function that ends a running step: `train`, `accumulate`, `forward` and `backward`
    /// call it from all threads, before each input is wired and between batches. Once it returns
    /// false, they fail with [`TrainError::Cancelled`]; their documentation tells the state of the
    /// trainer after an error.
    pub fn set_still_wanted(&mut self, still_wanted: Option<StillWanted>) {
        training(&mut *self.backend).set_still_wanted(still_wanted.clone());
        self.still_wanted = still_wanted;
    }

    /// Returns the counts and times of the forward passes of all mini-batches so far.
    #[must_use]
    pub fn statistics(&self) -> &Statistics {
        &self.tally.statistics
    }

    /// Returns the batches of each kind, if [`counts`](crate::TrainerOptions::counts) is set.
    #[must_use]
    pub fn report(&self) -> Option<&Report> {
        self.tally.report.as_ref()
    }

    /// Returns the memory that the backend holds.
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        self.backend.bytes()
    }

    /// Returns the time of all work so far.
    #[must_use]
    pub fn times(&self) -> Times {
        self.times
    }
}

/// Returns a pass, even after a panic: each mini-batch decides it again.
fn pass(slot: &mut Mutex<Pass>) -> &mut Pass {
    slot.get_mut().unwrap_or_else(PoisonError::into_inner)
}

fn training(backend: &mut dyn Backend) -> &mut dyn Training {
    backend.training().expect("checked when the trainer was built")
}
