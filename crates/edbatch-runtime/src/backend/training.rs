//! The interface of backends that compute gradients.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use edbatch_graph::ParameterId;
use edbatch_layout::{Program, TrainingPlan};

use super::{Backend, BackendError, Borrowing, Gradients, Part, Rows, TrainingState, Update};
use crate::Parameters;

/// The gradients of a mini-batch. [`Backend::training`](super::Backend::training) returns it for a
/// program [for training](edbatch_layout::Program::for_training).
///
/// A training step runs each part forward ([`Backend::run`](super::Backend::run)) and back, and
/// adds the part's sums. [`finish`](Self::finish) completes the gradients of all parts since the
/// last [`forget`](Self::forget). Their bits do not depend on how the inputs are divided into
/// parts, if the parts are added in the order of their inputs. [`step`](Self::step) does all of it.
pub trait Training: Backend {
    /// Runs the backward pass of each part, in the slot where its forward plan ran last. Appends a
    /// loss for each wanted value of each part, in order; 0 for a value without a gradient. Values
    /// in the slots are lost.
    ///
    /// # Errors
    /// If memory cannot be allocated.
    fn run_back(
        &mut self,
        parts: &[BackPart<'_>],
        losses: &mut Vec<f64>,
    ) -> Result<(), BackendError>;

    /// Sets a function that is asked while a plan runs and while sums are added.
    fn set_still_wanted(&mut self, _: Option<StillWanted>) {}

    /// Adds the contributions of parts that ran back last in these slots, in order, to the
    /// gradients of parameters.
    ///
    /// # Errors
    /// If memory cannot be allocated.
    fn add_sums(&mut self, parts: &[(usize, &TrainingPlan)]) -> Result<(), BackendError>;

    /// Returns the gradients of the given values of a part that ran back last in this slot, without
    /// the network's initial values. A value that the loss does not depend on has zeros.
    ///
    /// # Errors
    /// If they cannot be copied from a device.
    fn given_gradients(&self, slot: usize, plan: &TrainingPlan) -> Result<Rows, BackendError>;

    /// Completes the gradients of all parts added so far. Returns the sum of the squares of all
    /// elements.
    ///
    /// # Errors
    /// If memory cannot be allocated.
    fn finish(&mut self) -> Result<f64, BackendError>;

    /// Returns a copy of the gradients. They are complete after [`finish`](Self::finish), until
    /// other parts are added.
    ///
    /// # Errors
    /// If memory cannot be allocated.
    fn gradients(&self) -> Result<Gradients, BackendError>;

    /// Sets all sums to zero, for the next mini-batch.
    fn forget(&mut self);

    /// Updates the trained parameters, given their gradients, on this backend and on all of its
    /// [forks](super::Backend::fork), and sets all sums to zero. Parameters and rows
    /// [without a gradient](super::Gradient::None) keep their bits. The caller has checked that
    /// gradients are finite and of the parameters' shapes. To clip summed gradients by their norm,
    /// they must be [finished](Self::finish).
    ///
    /// # Errors
    /// If memory for moments cannot be allocated. Then no parameter has changed.
    fn update(&mut self, update: &Update<'_>) -> Result<(), BackendError>;

    /// Returns the parameters and their moments. If the state still exists at the next update, that
    /// update copies them.
    ///
    /// # Errors
    /// If they cannot be copied from a device.
    fn state(&self) -> Result<TrainingState, BackendError>;

    /// Replaces the parameters and their moments.
    ///
    /// # Errors
    /// If they do not have the shapes of the network's parameters. Then nothing has changed.
    fn set_state(&mut self, state: &TrainingState) -> Result<(), BackendError>;

    /// Returns true if plans read the network's initial values from the parameters of the backend,
    /// as they are after its last update. Then [`Given::initial`](super::Given::initial) is not
    /// read.
    fn has_initial_values(&self) -> bool {
        false
    }

    /// Returns the bytes of memory that the values of both passes of a plan take. The default is
    /// the plan's arena.
    fn bytes_of_passes(&self, plan: &TrainingPlan) -> u64 {
        (size_of::<f32>() * plan.forward.arena) as u64
    }

    /// Runs parts forward and back, adds their sums, and if the step has an update, completes the
    /// gradients and updates the parameters. A loss or a gradient that is not finite ends the step
    /// before the update, and the result names it. The default calls the other methods.
    ///
    /// # Errors
    /// If one of the other methods fails. Then sums may have been added, but no parameter has
    /// changed.
    fn step(&mut self, step: &TrainingStep<'_>) -> Result<StepResult, BackendError> {
        step.run_by_methods(self)
    }

    /// Enqueues a step, and returns the result of the step that was enqueued before it, if that
    /// was not returned yet. Without a step, only waits for that result. After a result that names
    /// a loss or a gradient that is not finite, and after an error, no enqueued step is left: later
    /// ones have done nothing. The default runs the step at once, and returns its own result.
    ///
    /// # Errors
    /// As for [`step`](Self::step), for the oldest step without a result.
    fn step_ahead(
        &mut self,
        step: Option<&TrainingStep<'_>>,
    ) -> Result<Option<StepResult>, BackendError> {
        step.map(|step| self.step(step)).transpose()
    }

    /// Loads a program without gradients, and parameters of its network, on the device of this
    /// backend, to evaluate them. A second call with the same program compiles nothing. `None`, the
    /// default, if backends of the kind are loaded in no time.
    ///
    /// # Errors
    /// If the parameters belong to another network, or memory cannot be allocated.
    fn evaluation(
        &mut self,
        _program: &Arc<Program>,
        _parameters: &Parameters,
    ) -> Result<Option<Box<dyn Backend>>, BackendError> {
        Ok(None)
    }

    /// Returns the interface that computes in memory of another library; `None`, the default, if
    /// the backend has no device.
    fn borrowing(&mut self) -> Option<&mut dyn Borrowing> {
        None
    }

    /// Returns true if a step can be enqueued while the step before it runs.
    fn runs_ahead(&self) -> bool {
        false
    }
}

/// A function that returns false once the results of a running step are no longer wanted.
///
/// It is called from all threads that run the step. Then [`run`](super::Backend::run),
/// [`run_back`](Training::run_back) or [`add_sums`](Training::add_sums) ends with
/// [`Cancelled`](BackendError::Cancelled).
#[derive(Clone)]
pub struct StillWanted(Arc<dyn Fn() -> bool + Send + Sync>);

impl StillWanted {
    /// Calls this function.
    pub fn new(ask: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(ask))
    }

    /// Asks whether the results are still wanted.
    #[must_use]
    pub fn ask(&self) -> bool {
        (self.0)()
    }
}

impl fmt::Debug for StillWanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StillWanted")
    }
}

/// A part of a mini-batch, for its backward pass.
#[derive(Clone, Copy, Debug)]
pub struct BackPart<'a> {
    /// The slot in which it ran forward.
    pub slot: usize,
    /// Its plan.
    pub plan: &'a TrainingPlan,
    /// The gradients of its outputs.
    pub outputs: OutputGradients<'a>,
}

/// The gradients of the wanted values that the loss depends on.
#[derive(Clone, Copy, Debug)]
pub enum OutputGradients<'a> {
    /// The elements of the gradients, one value after another.
    Rows(&'a [f32]),
    /// The loss is `weight` times the sum of the cross-entropies of the wanted values: each is a
    /// vector of scores, with a class in `targets`.
    CrossEntropy {
        /// The class of each wanted value. Ignored for values without a gradient.
        targets: &'a [u32],
        /// The weight of each cross-entropy.
        weight: f32,
    },
}

/// The parts of a mini-batch, or some of them, and the update after the last one.
#[derive(Clone, Copy, Debug)]
pub struct TrainingStep<'a> {
    /// The parts, in the order of their inputs.
    pub parts: &'a [TrainingPart<'a>],
    /// The loss of earlier parts of the mini-batch, to which the losses of the inputs are added.
    pub loss: f64,
    /// The update, unless other parts of the mini-batch follow.
    pub update: Option<Update<'a>>,
}

/// A part of a mini-batch, for both ways.
#[derive(Clone, Copy, Debug)]
pub struct TrainingPart<'a> {
    /// Its forward pass.
    pub forward: Part<'a>,
    /// Its backward pass, in the same slot.
    pub back: BackPart<'a>,
    /// The ends of the wanted values of each input, among those of the part.
    pub ends: &'a [u32],
}

/// The result of a step.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct StepResult {
    /// The loss of the mini-batch so far.
    pub loss: f64,
    /// The number of terms of the loss of these parts: wanted values that have a gradient.
    pub terms: u64,
    /// The sum of the squares of all gradients, if the step has an update.
    pub squared_norm: f64,
    /// The first loss or gradient that is not finite. Then no parameter has changed.
    pub not_finite: Option<NotFiniteIn>,
    /// The times of the parts of the step.
    pub times: StepTimes,
}

/// A loss or a gradient that is not finite.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotFiniteIn {
    /// The loss of an input, counted over all parts of the step.
    Input(u32),
    /// The gradient of a parameter.
    Parameter(ParameterId),
}

/// The times of the parts of a step. A backend that runs them at once has all of it in `forward`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StepTimes {
    /// Running batches forward.
    pub forward: Duration,
    /// Running batches back.
    pub back: Duration,
    /// Summing the gradients of parameters.
    pub sums: Duration,
    /// Updating the parameters.
    pub update: Duration,
}

impl TrainingStep<'_> {
    /// Runs the step by the other methods of a backend, like the default of [`Training::step`].
    ///
    /// # Errors
    /// As for [`Training::step`].
    pub fn run_by_methods(
        &self,
        backend: &mut (impl Training + ?Sized),
    ) -> Result<StepResult, BackendError> {
        let mut result = StepResult { loss: self.loss, ..StepResult::default() };
        let StepTimes { forward, back, sums, update } = &mut result.times;
        let parts: Vec<Part<'_>> = self.parts.iter().map(|part| part.forward).collect();
        timed(forward, || backend.run(&parts))?;
        let (mut losses, parts) = (Vec::new(), self.parts.iter().map(|part| part.back));
        let parts: Vec<BackPart<'_>> = parts.collect();
        timed(back, || backend.run_back(&parts, &mut losses))?;
        let not_finite = self.add_losses(&losses, &mut result.loss);
        if not_finite.is_some() {
            return Ok(StepResult { not_finite, ..result });
        }
        let terms = parts.iter().map(|part| part.plan.gradient_of.iter().flatten().count() as u64);
        result.terms = terms.sum();
        let plans: Vec<_> = parts.iter().map(|part| (part.slot, part.plan)).collect();
        timed(sums, || backend.add_sums(&plans))?;
        let Some(of_step) = &self.update else { return Ok(result) };
        result.squared_norm = match of_step.gradients {
            Some(gradients) => gradients.squared_norm(),
            None => timed(sums, || backend.finish())?,
        };
        if !result.squared_norm.is_finite() {
            let own;
            let gradients = match of_step.gradients {
                Some(gradients) => gradients,
                None => {
                    own = backend.gradients()?;
                    &own
                }
            };
            let not_finite = gradients.not_finite().map(NotFiniteIn::Parameter);
            return Ok(StepResult { not_finite, ..result });
        }
        timed(update, || backend.update(of_step))?;
        Ok(result)
    }

    /// Adds the losses of all inputs to a sum. Returns the first input whose loss is not finite.
    fn add_losses(&self, losses: &[f64], to: &mut f64) -> Option<NotFiniteIn> {
        let mut losses = losses.iter();
        let mut input = 0;
        for part in self.parts {
            let mut from = 0;
            for &end in part.ends {
                let loss: f64 = losses.by_ref().take((end - from) as usize).sum();
                if !loss.is_finite() {
                    return Some(NotFiniteIn::Input(input));
                }
                *to += loss;
                (input, from) = (input + 1, end);
            }
        }
        None
    }
}

/// Calls a function, and adds the time that it took.
fn timed<T>(time: &mut Duration, run: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let done = run();
    *time += start.elapsed();
    done
}
