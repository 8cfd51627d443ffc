//! A step of training: parts of a mini-batch forward and back, and an update.

use std::time::{Duration, Instant};

use edbatch_graph::ParameterId;

use super::{BackPart, BackendError, Gradient, Gradients, Part, Training, Update};

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
    /// For each input: the end of its wanted values among those of the part.
    pub ends: &'a [u32],
}

/// The result of a step.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct StepResult {
    /// The loss of the mini-batch so far.
    pub loss: f64,
    /// The number of wanted values on which the loss of these parts depends.
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
    /// Runs the step by the other methods of a backend.
    pub(super) fn run(
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

impl Gradients {
    /// Returns the first parameter whose gradient is not finite.
    #[must_use]
    pub fn not_finite(&self) -> Option<ParameterId> {
        let is_finite = |gradient: &Gradient| gradient.elements().iter().all(|x| x.is_finite());
        let first = self.parameters.iter().position(|gradient| !is_finite(gradient))?;
        Some(ParameterId(first as u32))
    }
}

/// Calls a function, and adds the time that it took.
fn timed<T>(time: &mut Duration, run: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let done = run();
    *time += start.elapsed();
    done
}
