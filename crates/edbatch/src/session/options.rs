//! Options and statistics of sessions.

#[cfg(doc)]
use super::Session;

/// Options of a [`Session`].
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct SessionOptions {
    pub(super) memory_limit: Option<u64>,
}

impl SessionOptions {
    /// The defaults: no memory limit.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the maximum number of bytes of weights, stored values and values of one run. A run that
    /// needs more is an error. Available with several threads, too.
    #[must_use]
    pub fn memory_limit(mut self, bytes: u64) -> Self {
        self.memory_limit = Some(bytes);
        self
    }
}

/// Counts of a [`Session`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct SessionStatistics {
    /// Number of values that are stored now.
    pub stored: u64,
    /// Number of calls and given values since the last run, released or not.
    pub pending: u64,
    /// Bytes of the stored values, each padded to a multiple of 64.
    pub stored_bytes: u64,
    /// Bytes of memory that is held for values, stored or not. It does not shrink.
    pub held_bytes: u64,
    /// Bytes of the weights, which are shared with the engine.
    pub weight_bytes: u64,
    /// Number of calls computed since the session was made.
    pub calls: u64,
    /// Number of runs that computed a call.
    pub runs: u64,
    /// Number of batches of all runs.
    pub batches: u64,
}
