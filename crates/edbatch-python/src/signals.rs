//! Ctrl-C while an engine or a trainer runs, and the end of a whole run.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use pyo3::prelude::*;

/// True when a run should end: Ctrl-C, or an error of a callback. Shared by the inputs of a run.
#[derive(Clone, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Asks for signals between rounds or batches, on the thread that called the engine or the trainer.
pub(crate) struct Signals {
    stop: Stop,
    caller: ThreadId,
    /// The time of the last question, and the exception of a signal.
    state: Mutex<(Instant, Option<PyErr>)>,
}

/// The interpreter is asked at most this often.
const INTERVAL: Duration = Duration::from_millis(1);

impl Signals {
    pub(crate) fn new(stop: Stop) -> Self {
        let state = Mutex::new((Instant::now(), None));
        Self { stop, caller: thread::current().id(), state }
    }

    /// Returns false when the run should end. Called before each round for each input, and by a
    /// trainer between batches.
    pub(crate) fn go_on(&self) -> bool {
        if self.stop.is_set() {
            return false;
        }
        if thread::current().id() != self.caller {
            return true;
        }
        let (last, error) = &mut *self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if last.elapsed() < INTERVAL {
            return true;
        }
        *last = Instant::now();
        match Python::attach(|py| py.check_signals()) {
            Ok(()) => true,
            Err(raised) => {
                *error = Some(raised);
                self.stop.set();
                false
            }
        }
    }

    /// Fails with the exception of a signal.
    pub(crate) fn raised(&self) -> PyResult<()> {
        let (_, error) = &mut *self.state.lock().unwrap_or_else(PoisonError::into_inner);
        error.take().map_or(Ok(()), Err)
    }
}
