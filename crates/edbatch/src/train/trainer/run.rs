//! The parts of a mini-batch: deciding, the forward pass and the backward pass.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use edbatch_models::{Model, Targets};
use edbatch_policy::Scheduler;
use edbatch_runtime::{BackPart, OutputGradients, Part};

use super::{Trainer, pass, training};
use crate::train::pass::Pass;
use crate::workers::Division;
use crate::{NotFiniteCall, RunError, TrainError};

impl<M: Model> Trainer<M> {
    pub(super) fn parts(&self, inputs: &[M::Input]) -> Vec<Range<usize>> {
        let (largest_cell, by_default) = (self.largest_cell, self.scheduler.is_default());
        Division::new(self.pool.threads(), largest_cell, by_default).parts(&self.model, inputs)
    }

    /// Wires, schedules and plans these parts, on all threads.
    pub(super) fn decide(
        &mut self,
        inputs: &[M::Input],
        targets: Option<&[Targets]>,
        parts: &[Range<usize>],
    ) -> Result<(), TrainError> {
        let deciding = Instant::now();
        while self.passes.len() < parts.len() {
            self.passes.push(Mutex::new(Pass::new(self.scheduler.fork(), self.counts)));
        }
        let (model, program, passes) = (&self.model, &*self.program, &self.passes);
        let dropout = (&self.dropout, self.steps, self.accumulated);
        let wanted = self.still_wanted.as_ref();
        let failed = Mutex::new(None);
        let decide = |_: usize, slot: usize| {
            let mut pass = passes[slot].lock().unwrap_or_else(PoisonError::into_inner);
            let part = (parts[slot].clone(), targets);
            let decided = pass.decide((program, wanted), model, inputs, part, dropout);
            let Err(error) = decided else { return };
            let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
            // If several parts fail, the first part's error is returned.
            if failed.as_ref().is_none_or(|&(other, _)| slot < other) {
                *failed = Some((slot, error));
            }
        };
        match self.pool.claim() {
            Some(mut pool) if parts.len() > 1 => pool.share(0..parts.len(), decide),
            _ => (0..parts.len()).for_each(|slot| decide(0, slot)),
        }
        self.times.decide += deciding.elapsed();
        match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some((_, error)) => Err(error),
            None => Ok(()),
        }
    }

    /// Returns the first call of an input that produces a NaN or an infinity.
    pub(super) fn not_finite_call(
        &mut self,
        inputs: &[M::Input],
        input: usize,
    ) -> Option<Box<NotFiniteCall>> {
        let weights = training(&mut *self.backend).state().parameters;
        let mut pass = Pass::new(Scheduler::default(), false);
        let dropout = (&self.dropout, self.steps, self.accumulated);
        pass.wire(None, &self.model, inputs, (input..input + 1, None), dropout).ok()?;
        pass.not_finite_call(&weights)
    }

    /// Rejects parts that need more memory than the limit.
    pub(super) fn check_memory(&mut self, parts: usize) -> Result<(), TrainError> {
        let Some(limit) = self.memory_limit else { return Ok(()) };
        let weights = self.backend.bytes().weights as u64;
        let passes = self.passes[..parts].iter_mut().map(pass);
        let values = passes.map(|pass| 4 * pass.plan.forward.arena as u64).sum::<u64>();
        match values + weights > limit {
            true => Err(RunError::Memory { values, weights, limit }.into()),
            false => Ok(()),
        }
    }

    pub(super) fn run_forward(&mut self, parts: usize) -> Result<(), TrainError> {
        let running = Instant::now();
        let passes: Vec<&Pass> = self.passes[..parts].iter_mut().map(|slot| &*pass(slot)).collect();
        let parts = passes.iter().enumerate().map(|(slot, pass)| Part {
            slot,
            plan: &pass.plan.forward,
            given: pass.given(&self.initial),
        });
        let parts: Vec<Part<'_>> = parts.collect();
        self.backend.run(&parts).map_err(RunError::from)?;
        passes.iter().for_each(|pass| self.tally.add(&pass.tally));
        self.times.forward += running.elapsed();
        Ok(())
    }

    /// Runs parts back, and adds the gradients of parameters in the order of their inputs.
    pub(super) fn run_back(
        &mut self,
        parts: usize,
        of: &OutputsOf<'_>,
        losses: &mut Vec<f64>,
    ) -> Result<(), TrainError> {
        let running = Instant::now();
        let passes: Vec<&Pass> = self.passes[..parts].iter_mut().map(|slot| &*pass(slot)).collect();
        let passes = || passes.iter().enumerate();
        let back: Vec<BackPart<'_>> = passes()
            .map(|(slot, pass)| BackPart {
                slot,
                plan: &pass.plan,
                outputs: match of {
                    OutputsOf::Rows(rows) => OutputGradients::Rows(&rows[slot]),
                    OutputsOf::CrossEntropy { weight } => {
                        OutputGradients::CrossEntropy { targets: &pass.targets, weight: *weight }
                    }
                },
            })
            .collect();
        let training = training(&mut *self.backend);
        training.run_back(&back, losses).map_err(RunError::from)?;
        self.times.back += running.elapsed();
        let summing = Instant::now();
        let plans: Vec<_> = passes().map(|(slot, pass)| (slot, &pass.plan)).collect();
        training.add_sums(&plans).map_err(RunError::from)?;
        self.times.sums += summing.elapsed();
        Ok(())
    }
}

/// The gradients of outputs, from which the backward pass begins.
pub(super) enum OutputsOf<'a> {
    /// For each part, the elements of the gradients of all emitted rows.
    Rows(&'a [Vec<f32>]),
    /// The loss is a weighted sum of cross-entropies.
    CrossEntropy { weight: f32 },
}
