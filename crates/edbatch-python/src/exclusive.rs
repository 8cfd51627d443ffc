//! Engines, trainers and sessions run in one thread at a time, in the process that built them.

use std::sync::{Mutex, MutexGuard, TryLockError};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// Returns the engine, the trainer or the session. `threads` is the process that has its threads,
/// if it has any; `instead` tells what to use in another thread.
///
/// # Errors
/// If it is running, or if its threads are gone.
pub(crate) fn lock<'a, T>(
    mutex: &'a Mutex<T>,
    threads: Option<u32>,
    what: &str,
    instead: &str,
) -> PyResult<MutexGuard<'a, T>> {
    if threads.is_some_and(|process| process != std::process::id()) {
        return Err(PyRuntimeError::new_err(format!(
            "the process was forked after the {what} was built, and its threads exist in the \
             parent only: build the {what} in the child, or start processes by `spawn`, \
             multiprocessing.get_context(\"spawn\")"
        )));
    }
    match mutex.try_lock() {
        Ok(guard) => Ok(guard),
        Err(TryLockError::Poisoned(guard)) => Ok(guard.into_inner()),
        Err(TryLockError::WouldBlock) => Err(PyRuntimeError::new_err(format!(
            "the {what} is running, in another thread or around this call: {instead}"
        ))),
    }
}

/// The process in which a session works: the one that has its threads, if it has any, and the one
/// that opened its device, if it has one.
#[derive(Clone, Copy)]
pub(crate) struct Processes {
    pub(crate) threads: Option<u32>,
    pub(crate) device: Option<u32>,
}
