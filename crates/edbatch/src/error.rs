//! What may be wrong with a mini-batch.

use std::fmt;

use edbatch_layout::ArenaTooLarge;
use edbatch_models::BuildError;

/// Why a mini-batch could not be run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RunError {
    /// An input could not be wired.
    Build {
        /// Its index in the mini-batch.
        instance: usize,
        /// Why.
        error: BuildError,
    },
    /// An instance emits or awaits a value from before an await that it did not carry across.
    NotCarried {
        /// Its index in the mini-batch.
        instance: usize,
    },
    /// The mini-batch is too large to be addressed.
    Arena(ArenaTooLarge),
    /// The mini-batch would take more memory than [allowed](crate::Engine::with_memory_limit).
    Memory {
        /// Bytes of its values.
        values: u64,
        /// Bytes of the weights.
        weights: u64,
        /// What both may take.
        limit: u64,
    },
}

impl RunError {
    /// The same of a mini-batch of which those inputs are a part that begins at `first`.
    pub(crate) fn of_part(mut self, first: usize) -> Self {
        if let Self::Build { instance, .. } | Self::NotCarried { instance } = &mut self {
            *instance += first;
        }
        self
    }
}

impl From<ArenaTooLarge> for RunError {
    fn from(error: ArenaTooLarge) -> Self {
        Self::Arena(error)
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Build { instance, error } => write!(f, "input {instance}: {error}"),
            Self::NotCarried { instance } => write!(
                f,
                "input {instance}: a value from before an await is used after it; carry it across"
            ),
            Self::Arena(error) => error.fmt(f),
            Self::Memory { values, weights, limit } => {
                let megabytes = |bytes: &u64| *bytes as f64 / 1e6;
                write!(
                    f,
                    "the mini-batch needs {:.1} MB for its values beside {:.1} MB of weights, \
                     allowed are {:.1} MB: make mini-batches smaller",
                    megabytes(values),
                    megabytes(weights),
                    megabytes(limit)
                )
            }
        }
    }
}

impl std::error::Error for RunError {}
