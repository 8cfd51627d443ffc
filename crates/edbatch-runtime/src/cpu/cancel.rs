//! Cancellation of a running step: a question between batches.

use std::sync::atomic::{AtomicBool, Ordering};

use edbatch_layout::Plan;

use crate::BackendError;
use crate::backend::StillWanted;

/// The question of a backend, and its answer.
#[derive(Debug, Default)]
pub(super) struct Cancel {
    pub(super) wanted: Option<StillWanted>,
    /// True once the running step is no longer wanted.
    is_cancelled: AtomicBool,
}

/// The question is asked before each step of at least this many calls, and before every 16th step:
/// steps of few calls take less than 1 µs.
const CALLS: u32 = 64;

impl Cancel {
    /// Returns false if this step of a plan and all further ones must not run.
    pub(super) fn allows(&self, plan: &Plan, step: usize) -> bool {
        match step.is_multiple_of(16) || plan.steps[step].calls >= CALLS {
            true => self.goes_on(),
            false => !self.is_cancelled.load(Ordering::Relaxed),
        }
    }

    /// Asks, and returns false if the running step must end.
    pub(super) fn goes_on(&self) -> bool {
        if self.wanted.as_ref().is_some_and(|wanted| !wanted.ask()) {
            self.is_cancelled.store(true, Ordering::Relaxed);
        }
        !self.is_cancelled.load(Ordering::Relaxed)
    }

    /// Fails if steps did not run, and allows the next ones.
    pub(super) fn check(&self) -> Result<(), BackendError> {
        match self.is_cancelled.swap(false, Ordering::Relaxed) {
            true => Err(BackendError::Cancelled),
            false => Ok(()),
        }
    }
}
