//! Steps whose launches have been enqueued.

use std::mem;

use edbatch_runtime::{BackendError, StepResult, StepTimes};

use super::state::{Enqueued, State};
use crate::device::Device;

impl<D: Device> State<D> {
    /// Waits for the oldest step and returns its result. Without steps, returns the error of one
    /// that could not be enqueued.
    pub(crate) fn collect(&mut self) -> Result<Option<StepResult>, BackendError> {
        if let Some(Enqueued::Runs(_)) = self.enqueued.front() {
            self.settle_next();
        }
        match self.enqueued.pop_front() {
            Some(Enqueued::Ended(result)) => result.map(Some),
            Some(Enqueued::Runs(_)) => unreachable!("it has ended"),
            None => self.give_up().map_or(Ok(None), Err),
        }
    }

    /// Returns the error of a step that could not be enqueued, after its launches have ended.
    pub(crate) fn give_up(&mut self) -> Option<BackendError> {
        let error = self.failed.take()?;
        self.settle();
        Some(error)
    }

    /// Returns true if a step whose result is still wanted did not end well.
    pub(crate) fn has_failed(&self) -> bool {
        let is_well = |step: &Enqueued<D>| {
            use Enqueued::{Ended, Runs};
            matches!(step, Runs(_) | Ended(Ok(StepResult { not_finite: None, .. })))
        };
        !self.enqueued.iter().all(is_well)
    }

    /// Waits for all steps, if one of these slots is in use.
    pub(crate) fn leave_slots(&mut self, mut slots: impl Iterator<Item = usize>) {
        let uses = |slot, step: &Enqueued<D>| match step {
            Enqueued::Runs(flight) => flight.slots.contains(&slot),
            Enqueued::Ended(_) => false,
        };
        if slots.any(|slot| self.enqueued.iter().any(|step| uses(slot, step))) {
            self.settle();
        }
    }

    /// Waits for all steps, and for the launches of one that could not be enqueued.
    pub(crate) fn settle(&mut self) {
        while matches!(self.enqueued.back(), Some(Enqueued::Runs(_))) {
            self.settle_next();
        }
        if let Some(held) = self.held.take() {
            let device = held.device().clone();
            drop(held);
            if mem::take(&mut self.is_lent) {
                self.lost = self.ended(&device).err();
            }
            // An error is not reported, as the step's own error is.
            let _ = self.reset(&device, 0.0);
        }
    }

    /// Waits for the oldest step that still runs. After one that does not end well, the steps
    /// after it have done nothing, and are forgotten.
    fn settle_next(&mut self) {
        let runs = |step: &Enqueued<D>| matches!(step, Enqueued::Runs(_));
        let Some(index) = self.enqueued.iter().position(runs) else { return };
        let Enqueued::Runs(flight) = &self.enqueued[index] else { unreachable!("found above") };
        let held = self.held.take().expect("a step runs on teams");
        let device = held.device().clone();
        let result = &self.turns[flight.turn].result;
        let told = held.wait(|| device.word(result, 0) == flight.last);
        let mut ended = told.map_err(BackendError::from).and_then(|()| {
            let told = self.told(&device, flight.turn);
            let not_finite = told.not_finite();
            if not_finite.is_none() && told.done != flight.last {
                return Err(device.team_pool().timed_out().into());
            }
            Ok(StepResult {
                loss: flight.loss.unwrap_or(told.loss),
                terms: flight.terms,
                squared_norm: if flight.has_update { told.squared_norm } else { 0.0 },
                not_finite,
                times: StepTimes { forward: flight.began.elapsed(), ..StepTimes::default() },
            })
        });
        let is_well = matches!(ended, Ok(StepResult { not_finite: None, .. }));
        if is_well && flight.has_update {
            self.has_moments.clone_from(&self.will_have_moments);
        }
        if !is_well || self.failed.is_some() {
            // Waits for the launches of later steps.
            drop(held);
            if let Err(error) = self.reset(&device, 0.0) {
                ended = ended.and(Err(error.into()));
            }
        } else if index + 1 == self.enqueued.len() {
            held.release();
        } else {
            self.held = Some(held);
        }
        if !is_well {
            self.enqueued.truncate(index + 1);
            self.failed = None;
        }
        self.enqueued[index] = Enqueued::Ended(ended);
    }
}
