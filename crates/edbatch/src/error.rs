//! What may be wrong with an engine's options or with a mini-batch.

use std::fmt;

use edbatch_layout::{ArenaTooLarge, TooLarge};
use edbatch_models::BuildError;
use edbatch_policy::EmptyTrainingSet;
use edbatch_runtime::{BackendError, NotFinite, NotFiniteWeight};

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
                let [values, of_weights, allowed] = [values, weights, limit].map(|&n| Bytes(n));
                match weights >= limit {
                    true => write!(f, "the weights alone take {of_weights}, allowed are {allowed}"),
                    false => write!(
                        f,
                        "the mini-batch needs {values} for its values beside {of_weights} of \
                         weights, allowed are {allowed}: make mini-batches smaller"
                    ),
                }
            }
        }
    }
}

impl std::error::Error for RunError {}

/// A number of bytes as people read it.
struct Bytes(u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes @ ..1_000_000 => write!(f, "{bytes} bytes"),
            bytes => write!(f, "{:.1} MB", bytes as f64 / 1e6),
        }
    }
}

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
    /// One of its calls made something that is not finite, which was to be
    /// [checked](crate::EngineOptions::check_finite).
    NotFinite(Box<NotFiniteCall>),
}

/// The first call of an input whose record has an element that is not finite.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotFiniteCall {
    /// The number of the call among those that the input makes, from 0, in the model's order.
    pub call: usize,
    /// The cell that is called.
    pub cell: String,
    /// The field of the record.
    pub field: String,
    /// The element's index in each dimension of the field.
    pub index: Vec<usize>,
    /// What the element is.
    pub value: NotFinite,
    /// Where it comes from.
    pub cause: NotFiniteCause,
}

/// Why a call makes something that is not finite: no call before it does.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum NotFiniteCause {
    /// It reads a weight that is not finite.
    Weight(NotFiniteWeight),
    /// It reads a [given](edbatch_models::Build::give) value that is not finite.
    Given,
    /// All that it reads is finite, but not what its operations make of it.
    Operations,
}

impl fmt::Display for NotFiniteCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { call, cell, field, index, value, cause } = self;
        write!(f, "expected finite values, got {value} at {index:?} of field {field} of ")?;
        write!(f, "cell {cell}, call {call} of the input, counted from 0: ")?;
        match cause {
            NotFiniteCause::Weight(weight) => {
                write!(f, "it reads {weight}: correct the weights")
            }
            NotFiniteCause::Given => {
                f.write_str("it reads a given value that is not finite: correct what is given")
            }
            NotFiniteCause::Operations => f.write_str(
                "all that it reads is finite, so one of its operations overflows or is undefined: \
                 make the cell's weights smaller, or correct its equations",
            ),
        }
    }
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Build(error) => error.fmt(f),
            Self::NotCarried => {
                f.write_str("a value from before an await is used after it; carry it across")
            }
            Self::Cancelled => f.write_str("cancelled: the input was no longer wanted"),
            Self::NotFinite(call) => call.fmt(f),
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
