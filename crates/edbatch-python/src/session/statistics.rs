//! Counts of a session, as attributes.

use pyo3::prelude::*;

/// Counts of a session.
#[pyclass(frozen, get_all, module = "edbatch")]
pub(crate) struct SessionStatistics {
    /// Number of values that are stored now.
    stored: u64,
    /// Number of calls and given values since the last run, released or not.
    pending: u64,
    /// Size of the stored values, each padded to a multiple of 64 bytes.
    stored_bytes: u64,
    /// Size of the memory that is held for values, stored or not, in bytes. It does not shrink.
    held_bytes: u64,
    /// Size of the weights, which are shared with the engine, in bytes.
    weight_bytes: u64,
    /// Number of calls computed since the session was made.
    calls: u64,
    /// Number of runs that computed a call.
    runs: u64,
    /// Number of batches of all runs.
    batches: u64,
}

impl SessionStatistics {
    pub(super) fn of(statistics: &edbatch::SessionStatistics) -> Self {
        Self {
            stored: statistics.stored,
            pending: statistics.pending,
            stored_bytes: statistics.stored_bytes,
            held_bytes: statistics.held_bytes,
            weight_bytes: statistics.weight_bytes,
            calls: statistics.calls,
            runs: statistics.runs,
            batches: statistics.batches,
        }
    }
}

#[pymethods]
impl SessionStatistics {
    fn __repr__(&self) -> String {
        let Self { stored, pending, calls, runs, batches, .. } = self;
        format!(
            "<edbatch.SessionStatistics: {stored} stored, {pending} pending; {calls} calls in \
             {runs} runs, {batches} batches>"
        )
    }
}
