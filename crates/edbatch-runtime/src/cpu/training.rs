//! Gradients on the CPU: runs plans back, and sums the gradients of parameters.

use std::sync::PoisonError;

use edbatch_layout::{GivenSum, Program, TrainingPlan};

use super::slot::place_all;
use super::{Cpu, Shared, Slot};
use crate::backend::{
    BackPart, Gradients, OutputGradients, StillWanted, Training, TrainingState, Update, fields,
};
use crate::kernels::{self, Level, RowsRef, accumulate};
use crate::thread_pool::{ClaimedPool, ThreadPool};
use crate::{BackendError, Rows};

impl Slot {
    /// Writes the gradients of outputs into their rows, and appends the loss of each wanted value.
    /// Workers, if any, share large copies.
    fn place_gradients(
        &mut self,
        (program, level): (&Program, Level),
        TrainingPlan { forward, back, gradient_of, .. }: &TrainingPlan,
        outputs: OutputGradients<'_>,
        workers: Option<&mut ClaimedPool<'_>>,
    ) {
        self.losses.clear();
        self.losses.resize(gradient_of.len(), 0.0);
        let (targets, weight) = match outputs {
            OutputGradients::Rows(rows) => {
                return place_all(&mut self.arena, program, &back.given, rows, workers);
            }
            OutputGradients::CrossEntropy { targets, weight } => (targets, weight),
        };
        for (wanted, gradient) in gradient_of.iter().enumerate() {
            let Some(gradient) = gradient else { continue };
            let mut scores = fields(program, forward.wanted[wanted].0);
            let (from, width) = scores.next().expect("scores are a vector");
            let start = back.given[*gradient as usize].start as usize;
            self.arena.copy_within(from..from + width, start);
            let (row, class) = (&mut self.arena[start..][..width], targets[wanted] as usize);
            let loss = kernels::math::cross_entropy(level, row, class);
            row[class] -= 1.0;
            row.iter_mut().for_each(|element| *element *= weight);
            self.losses[wanted] = f64::from(weight) * loss;
        }
    }

    /// Runs the backward pass of a part on thread number `worker`, or on all `workers`, if any.
    fn run_back(
        &mut self,
        shared: Shared<'_>,
        part: &BackPart<'_>,
        worker: usize,
        mut workers: Option<&mut ClaimedPool<'_>>,
    ) {
        let loaded = shared.loaded;
        let by = (&*loaded.program, loaded.level);
        self.place_gradients(by, part.plan, part.outputs, workers.as_deref_mut());
        for step in 0..part.plan.back.steps.len() {
            if !shared.cancel.allows(&part.plan.back, step) {
                return;
            }
            self.execute(shared, &part.plan.back, step, worker, workers.as_deref_mut());
        }
    }
}

/// The message for a backend whose program is not for training.
const FOR_TRAINING: &str = "the program is for training";

impl Training for Cpu {
    fn run_back(
        &mut self,
        parts: &[BackPart<'_>],
        losses: &mut Vec<f64>,
    ) -> Result<(), BackendError> {
        parts.iter().try_for_each(|part| self.reserve_workspaces(&part.plan.back))?;
        let done = self.round(parts, |part| part.slot, Slot::run_back);
        parts.iter().for_each(|part| losses.extend(&self.slots[part.slot].losses));
        done
    }

    fn set_still_wanted(&mut self, wanted: Option<StillWanted>) {
        self.cancel.wanted = wanted;
    }

    fn add_sums(&mut self, parts: &[(usize, &TrainingPlan)]) -> Result<(), BackendError> {
        let pool = self.pool.clone();
        let mut workers = pool.as_ref().and_then(ThreadPool::claim);
        let mut sums =
            self.sums.as_ref().expect(FOR_TRAINING).lock().unwrap_or_else(PoisonError::into_inner);
        let of = (&*self.loaded.program, self.loaded.level, &self.cancel);
        for &(slot, plan) in parts {
            sums.add(of, &self.slots[slot].arena, plan, &mut workers)?;
        }
        self.cancel.check()
    }

    fn given_gradients(&self, slot: usize, plan: &TrainingPlan) -> Result<Rows, BackendError> {
        let (program, arena) = (&self.loaded.program, &self.slots[slot].arena);
        let initial = program.network().initial_values().len();
        let (mut rows, mut sums) = (Rows::new(), plan.given.iter().peekable());
        while sums.next_if(|sum| (sum.given as usize) < initial).is_some() {}
        for (index, given) in plan.forward.given.iter().enumerate().skip(initial) {
            let widths = &program.record(given.record).widths;
            rows.push_with(|row| {
                for (field, &width) in widths.iter().enumerate() {
                    let start = row.len();
                    row.resize(start + width as usize, 0.0);
                    let is_own = |sum: &&GivenSum| {
                        (sum.given as usize, usize::from(sum.field)) == (index, field)
                    };
                    if let Some(sum) = sums.next_if(is_own) {
                        let from = RowsRef::List { data: arena, offsets: plan.list(&sum.rows) };
                        accumulate(self.loaded.level, &from, &mut row[start..]);
                    }
                }
            });
        }
        Ok(rows)
    }

    fn finish(&mut self) -> Result<f64, BackendError> {
        let sums = self.sums.clone().expect(FOR_TRAINING);
        let mut sums = sums.lock().unwrap_or_else(PoisonError::into_inner);
        self.finish_sums(&mut sums)
    }

    fn gradients(&self) -> Result<Gradients, BackendError> {
        let sums = self.sums.as_ref().expect(FOR_TRAINING);
        sums.lock().unwrap_or_else(PoisonError::into_inner).total.try_clone()
    }

    fn update(&mut self, update: &Update<'_>) -> Result<(), BackendError> {
        let pool = self.pool.clone();
        let mut workers = pool.as_ref().and_then(ThreadPool::claim);
        let sums = self.sums.as_ref().expect(FOR_TRAINING);
        let mut sums = sums.lock().unwrap_or_else(PoisonError::into_inner);
        let gradients = update.gradients.unwrap_or(&sums.total);
        let squared_norm = || update.gradients.map_or(sums.squared_norm, Gradients::squared_norm);
        let limits = update.clip.scale_and_limit(squared_norm);
        self.loaded.update(update, (gradients, limits), &mut workers)?;
        sums.forget();
        Ok(())
    }

    fn state(&self) -> Result<TrainingState, BackendError> {
        Ok(self.loaded.state())
    }

    fn set_state(&mut self, state: &TrainingState) -> Result<(), BackendError> {
        self.loaded.set_state(state)
    }

    fn forget(&mut self) {
        if let Some(sums) = &self.sums {
            sums.lock().unwrap_or_else(PoisonError::into_inner).forget();
        }
    }
}
