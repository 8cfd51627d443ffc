//! Parts of a mini-batch that threads run at the same time.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

#[cfg(feature = "cuda")]
use crate::CudaError;
#[cfg(feature = "cuda")]
use crate::cuda::{Flight, TeamPart};

/// The parts of a mini-batch that are under way, each on a backend of its own that has
/// [joined](crate::Backend::join). A device launches their plans together: whoever is ready waits
/// for the others.
#[derive(Debug, Default)]
pub struct Parts {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// How many parts run at the same time, and how many have not ended.
    threads: usize,
    left: usize,
    #[cfg(feature = "cuda")]
    plans: Plans,
}

/// Plans that wait to be launched.
#[cfg(feature = "cuda")]
#[derive(Debug, Default)]
struct Plans {
    waiting: Vec<TeamPart>,
    /// How often plans were launched, and what became of the last ones.
    launches: u64,
    flights: Vec<Flight>,
    failed: Option<CudaError>,
}

/// A part under way; it has ended when this is dropped.
#[derive(Debug)]
pub struct PartUnderWay<'a>(&'a Parts);

impl Parts {
    /// Begins a mini-batch of so many parts on so many threads, each of which takes the next part
    /// when it has ended one. Every part must be [begun](Self::part) and end, and no part may wait
    /// for another.
    pub fn begin(&self, threads: usize, parts: usize) {
        let mut state = self.state();
        (state.threads, state.left) = (threads, parts);
    }

    /// Begins a part.
    #[must_use]
    pub fn part(&self) -> PartUnderWay<'_> {
        PartUnderWay(self)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Launches a plan, together with those of all other parts that are under way: `launch` notes
    /// what it has launched, and is called once for all.
    #[cfg(feature = "cuda")]
    pub(crate) fn launch(
        &self,
        plan: TeamPart,
        launch: impl FnOnce(&[TeamPart], &mut Vec<Flight>) -> Result<(), CudaError>,
    ) -> Result<Flight, CudaError> {
        let mut state = self.state();
        let (index, before) = (state.plans.waiting.len(), state.plans.launches);
        state.plans.waiting.push(plan);
        while state.plans.launches == before {
            // Every part under way will come here, or end.
            if state.plans.waiting.len() >= state.threads.min(state.left) {
                let Plans { waiting, launches, flights, failed } = &mut state.plans;
                flights.clear();
                *failed = launch(waiting, flights).err();
                waiting.clear();
                *launches += 1;
                self.changed.notify_all();
                break;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let Plans { flights, failed, .. } = &state.plans;
        let error = || failed.clone().expect("launched, or failed");
        flights.get(index).copied().ok_or_else(error)
    }
}

impl Drop for PartUnderWay<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.left = state.left.saturating_sub(1);
        if thread::panicking() {
            // Other threads may not even begin now, so nobody waits for anybody any more.
            state.threads = 0;
        }
        drop(state);
        self.0.changed.notify_all();
    }
}
