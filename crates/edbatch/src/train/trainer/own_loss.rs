//! Losses that the caller computes, between the forward and the backward pass.

use std::ops::Range;

use edbatch_layout::ValueRow;
use edbatch_models::Model;
use edbatch_runtime::{BackendError, Outputs, Rows, try_memory};

use super::run::OutputsOf;
use super::{Trainer, pass, training};
use crate::output::Results;
use crate::{RunError, TrainError};

impl<M: Model> Trainer<M> {
    /// Runs a mini-batch, and keeps its values for [`backward`](Self::backward). Returns for each
    /// input the rows that it emits, in order. A second `forward` forgets the first.
    ///
    /// # Errors
    /// If an input does not fit the model or awaits a computed value, or if the mini-batch is too
    /// large. The trainer stays usable.
    pub fn forward(&mut self, inputs: &[M::Input]) -> Result<Vec<Rows>, TrainError> {
        self.forward = 0;
        let parts = self.parts(inputs);
        self.decide(inputs, None, &parts)?;
        self.check_memory(parts.len())?;
        self.run_forward(parts.len())?;
        self.forward = parts.len();
        let mut all = Vec::with_capacity(inputs.len());
        for slot in 0..parts.len() {
            let pass = pass(&mut self.passes[slot]);
            let outputs = self.backend.outputs(slot, &pass.plan.forward);
            let mut wanted = 0;
            for &(end, _) in &pass.ends {
                all.push(rows(&outputs, wanted..end).map_err(RunError::from)?);
                wanted = end;
            }
        }
        Ok(all)
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
        let parts = std::mem::take(&mut self.forward);
        let done = self.try_backward(parts, gradients);
        self.accumulated += gradients.len() as u64;
        self.or_clear(done)
    }

    fn try_backward(&mut self, parts: usize, gradients: &[Rows]) -> Result<Vec<Rows>, TrainError> {
        if parts == 0 && !gradients.is_empty() {
            return Err(TrainError::NothingForward);
        }
        let mut flat: Vec<Vec<f32>> = Vec::new();
        let mut of_inputs = gradients.iter();
        for slot in &mut self.passes[..parts] {
            let pass = pass(slot);
            let (mut elements, mut wanted) = (Vec::new(), 0);
            let width = |emitted: &ValueRow| {
                self.program.record(emitted.record).widths.iter().sum::<u32>() as usize
            };
            let wanted_rows = pass.plan.forward.wanted.iter();
            let all: usize = wanted_rows.map(|(emitted, _)| width(emitted)).sum();
            try_memory(size_of::<f32>() * all, "the gradients of outputs")
                .map_err(RunError::from)?;
            elements.reserve_exact(all);
            for &(end, _) in &pass.ends {
                let given = of_inputs.next().ok_or(TrainError::GradientsOfInputs)?;
                let emitted = &pass.plan.forward.wanted[wanted..end];
                if emitted.len() != given.len() {
                    return Err(TrainError::GradientsOfInputs);
                }
                for (row, (emitted, _)) in given.iter().zip(emitted) {
                    let width = width(emitted);
                    if !row.is_empty() && row.len() != width {
                        return Err(TrainError::GradientsOfInputs);
                    }
                    elements.extend_from_slice(row);
                    elements.resize(elements.len() + width - row.len(), 0.0);
                }
                wanted = end;
            }
            flat.push(elements);
        }
        if of_inputs.next().is_some() {
            return Err(TrainError::GradientsOfInputs);
        }
        self.run_back(parts, &OutputsOf::Rows(&flat), &mut Vec::new())?;
        if !self.given_gradients {
            return Ok(Vec::new());
        }
        let mut all = Vec::new();
        for slot in 0..parts {
            let pass = pass(&mut self.passes[slot]);
            let elements = pass.ends.last().map_or(0, |&(_, given)| given);
            let bytes = 4 * elements * size_of::<f32>();
            try_memory(bytes, "the gradients of given rows").map_err(RunError::from)?;
            let training = training(&mut *self.backend);
            let given = training.given_gradients(slot, &pass.plan);
            let (mut rows, mut from) = (given.iter(), 0);
            for &(_, end) in &pass.ends {
                let mut of_input = Rows::new();
                while from < end {
                    let row = rows.next().expect("a row for each given value");
                    of_input.push(row);
                    from += row.len();
                }
                all.push(of_input);
            }
        }
        Ok(all)
    }
}

/// Returns the rows of some wanted values.
fn rows(outputs: &Outputs<'_>, mut wanted: Range<usize>) -> Result<Rows, BackendError> {
    let mut rows = Rows::new();
    wanted.try_for_each(|value| rows.try_push_with(|row| outputs.append(value, row)))?;
    Ok(rows)
}
