//! What may be wrong with an engine's options or with a mini-batch.

use std::fmt;

use edbatch_layout::{ArenaTooLarge, TooLarge};
use edbatch_models::BuildError;
use edbatch_policy::EmptyTrainingSet;
use edbatch_runtime::BackendError;

/// Why a mini-batch could not be run.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RunError {
    /// An input failed.
    Input {
        /// Its index in the mini-batch.
        instance: usize,
        /// Why.
        error: InputError,
    },
    /// The mini-batch is too large to be addressed.
    Arena(ArenaTooLarge),
    /// The mini-batch would take more memory than [allowed](crate::EngineOptions::memory_limit).
    Memory {
        /// Bytes of its values.
        values: u64,
        /// Bytes of the weights.
        weights: u64,
        /// What both may take.
        limit: u64,
    },
    /// The backend could not carry the mini-batch out.
    Backend(BackendError),
    /// There is nothing to learn on: no input makes a node.
    Learn(EmptyTrainingSet),
}

impl RunError {
    /// The same of a mini-batch of which those inputs are a part that begins at `first`.
    pub(crate) fn of_part(mut self, first: usize) -> Self {
        if let Self::Input { instance, .. } = &mut self {
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

impl From<EmptyTrainingSet> for RunError {
    fn from(error: EmptyTrainingSet) -> Self {
        Self::Learn(error)
    }
}

impl From<BackendError> for RunError {
    fn from(error: BackendError) -> Self {
        Self::Backend(error)
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input { instance, error } => write!(f, "input {instance}: {error}"),
            Self::Arena(error) => error.fmt(f),
            Self::Backend(error @ BackendError::Memory { .. }) => {
                write!(f, "{error}: make mini-batches smaller")
            }
            Self::Backend(error) => error.fmt(f),
            Self::Learn(error) => write!(f, "no input makes a node: {error}"),
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

/// Why one input of a mini-batch has no rows. The others have theirs.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum InputError {
    /// It could not be wired.
    Build(BuildError),
    /// It emits or awaits a value from before an await that it did not carry across.
    NotCarried,
    /// It was no longer [wanted](crate::RunOptions::still_wanted).
    Cancelled,
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Build(error) => error.fmt(f),
            Self::NotCarried => {
                f.write_str("a value from before an await is used after it; carry it across")
            }
            Self::Cancelled => f.write_str("cancelled: the input was no longer wanted"),
        }
    }
}

impl std::error::Error for InputError {}

/// Why an engine could not be built.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum EngineError {
    /// A cell or a table cannot be addressed.
    TooLarge(TooLarge),
    /// The backend could not load the model.
    Backend(BackendError),
    /// There can be no such number of threads.
    Threads {
        /// How many were asked for.
        threads: usize,
    },
    /// A memory limit is one for all values of an engine, but its threads would hold values of
    /// their own.
    MemoryLimitWithThreads {
        /// How many threads were asked for.
        threads: usize,
    },
    /// Folded tables may take more memory than there may be for them and all else.
    FoldedTablesOverLimit {
        /// Bytes that folded tables may take.
        tables: u64,
        /// The memory limit.
        limit: u64,
    },
    /// A backend is loaded already, and its program says which tables are folded.
    FoldedTablesOfBackend,
}

impl From<TooLarge> for EngineError {
    fn from(error: TooLarge) -> Self {
        Self::TooLarge(error)
    }
}

impl From<BackendError> for EngineError {
    fn from(error: BackendError) -> Self {
        Self::Backend(error)
    }
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Backend(error) => error.fmt(f),
            Self::TooLarge(error) => error.fmt(f),
            Self::Threads { threads } => {
                let most = edbatch_runtime::ThreadPool::MOST;
                write!(f, "expected 1 to {most} threads, got {threads}")
            }
            Self::MemoryLimitWithThreads { threads } => write!(
                f,
                "a memory limit goes with 1 thread, got {threads}: run whole mini-batches on an \
                 engine for each thread (`Engine::another`), each with the limit"
            ),
            Self::FoldedTablesOverLimit { tables, limit } => write!(
                f,
                "folded tables may take {tables} bytes, expected at most the memory limit of \
                 {limit}"
            ),
            Self::FoldedTablesOfBackend => f.write_str(
                "a backend was loaded with the tables that its program folds: decide by \
                 `Program::fold_tables`, before it is loaded",
            ),
        }
    }
}

impl std::error::Error for EngineError {}
