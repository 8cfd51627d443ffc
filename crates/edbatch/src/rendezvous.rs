//! The barrier at which the parts of a round wait for each other, so that a device runs them in one
//! launch.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use edbatch_runtime::BackendError;

/// The slots that wait to be run together. A single slot never waits.
#[derive(Debug, Default)]
pub(crate) struct Rendezvous {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The maximum number of parts that run at the same time.
    threads: usize,
    /// The number of parts of the mini-batch that have not ended.
    left: usize,
    /// The slots whose plans are ready.
    arrived: Vec<usize>,
    /// The number of rounds that have run, and the error of the last one.
    rounds: u64,
    failed: Option<BackendError>,
}

/// A running part. Dropping it ends the part.
#[derive(Debug)]
pub(crate) struct RunningPart<'a>(&'a Rendezvous);

impl Rendezvous {
    /// Begins a mini-batch of `parts` parts on `threads` threads. A thread that has ended a part
    /// takes the next one. Each part must [begin](Self::part) and end, and parts may wait for each
    /// other only in [`arrive`](Self::arrive).
    pub(crate) fn begin(&self, threads: usize, parts: usize) {
        let mut state = self.state();
        (state.threads, state.left) = (threads, parts);
    }

    /// Begins a part.
    pub(crate) fn part(&self) -> RunningPart<'_> {
        RunningPart(self)
    }

    /// Waits until every running part has arrived here or ended. The thread that completes the
    /// round calls `run` with all slots that have arrived.
    ///
    /// # Errors
    /// The error of `run`, for every part of the round.
    pub(crate) fn arrive(
        &self,
        slot: usize,
        run: impl FnOnce(&[usize]) -> Result<(), BackendError>,
    ) -> Result<(), BackendError> {
        let mut state = self.state();
        let round = state.rounds;
        state.arrived.push(slot);
        while state.rounds == round {
            if state.arrived.len() >= state.threads.min(state.left) {
                state.failed = run(&state.arrived).err();
                // A notification is a system call, even if no thread waits.
                if state.arrived.len() > 1 {
                    self.changed.notify_all();
                }
                state.arrived.clear();
                state.rounds += 1;
                break;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        // The next round waits for this part, so the error is still of this round.
        state.failed.clone().map_or(Ok(()), Err)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RunningPart<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.left = state.left.saturating_sub(1);
        if thread::panicking() {
            // Other threads may not begin their parts after a panic, so parts stop waiting.
            state.threads = 0;
        }
        if !state.arrived.is_empty() {
            self.0.changed.notify_all();
        }
    }
}
