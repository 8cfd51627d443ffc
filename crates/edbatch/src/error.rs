//! Errors of engines, mini-batches and inputs.

use std::fmt;
use std::io;
use std::sync::Arc;

use edbatch_layout::{ArenaTooLarge, TooLarge};
use edbatch_models::BuildError;
use edbatch_policy::EmptyTrainingSet;
use edbatch_runtime::{BackendError, NotFinite, NotFiniteWeight, ThreadPool};

/// Why a mini-batch could not be run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum RunError {
    /// An input failed.
    Input {
        /// Its index in the mini-batch.
        instance: usize,
        /// The reason.
        error: InputError,
    },
    /// The mini-batch is too large for 32-bit addresses.
    Arena(ArenaTooLarge),
    /// The mini-batch needs more memory than [allowed](crate::EngineOptions::memory_limit).
    Memory {
        /// Bytes of its values.
        values: u64,
        /// Bytes of the weights.
        weights: u64,
        /// The limit for both together.
        limit: u64,
    },
    /// The backend could not run the mini-batch.
    Backend(BackendError),
    /// There is nothing to learn from: no input calls a cell.
    Learn(EmptyTrainingSet),
}

impl RunError {
    /// Fails with the first of these errors, in the order of the inputs.
    pub(crate) fn first(errors: impl Iterator<Item = (usize, InputError)>) -> Result<(), Self> {
        let first = errors.min_by_key(|&(instance, _)| instance);
        first.map_or(Ok(()), |(instance, error)| Err(Self::Input { instance, error }))
    }

    /// Converts an error of a part that begins at input `first` into an error of the mini-batch.
    pub(crate) fn of_part(mut self, first: usize) -> Self {
        if let Self::Input { instance, .. } = &mut self {
            *instance += first;
        }
        self
    }
}

macro_rules! from {
    ($($error:ident => $variant:ident),+) => {
        $(impl From<$error> for RunError {
            fn from(error: $error) -> Self {
                Self::$variant(error)
            }
        })+
    };
}

from!(ArenaTooLarge => Arena, BackendError => Backend, EmptyTrainingSet => Learn);

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input { instance, error } => write!(f, "input {instance}: {error}"),
            Self::Arena(error) => error.fmt(f),
            Self::Backend(error @ BackendError::Memory { .. }) => {
                write!(f, "{error}: make mini-batches smaller")
            }
            Self::Backend(error) => error.fmt(f),
            Self::Learn(error) => write!(f, "no input calls a cell: {error}"),
            Self::Memory { values, weights, limit } => {
                let [values, of_weights, allowed] = [values, weights, limit].map(bytes);
                match weights >= limit {
                    true => {
                        write!(f, "the weights alone need {of_weights}, expected at most {allowed}")
                    }
                    false => write!(
                        f,
                        "the mini-batch needs {values} for its values and {of_weights} for the \
                         weights, expected at most {allowed}: make mini-batches smaller"
                    ),
                }
            }
        }
    }
}

impl std::error::Error for RunError {
    /// The message includes the text of a backend's error, but not of the error that caused it.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Backend(error) => error.source(),
            _ => None,
        }
    }
}

/// Formats a number of bytes, in MB if it is large.
fn bytes(&number: &u64) -> String {
    match number {
        ..1_000_000 => format!("{number} bytes"),
        _ => format!("{:.1} MB", number as f64 / 1e6),
    }
}

/// The reason why one input of a mini-batch failed. The other inputs are not affected.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// [`Model::build`](edbatch_models::Model::build) returned this error for the input.
    #[error(transparent)]
    Build(BuildError),
    /// The input emits or awaits a value that it did not carry across an earlier await.
    #[error("a value from before an await is used after it: carry it across")]
    NotCarried,
    /// The input awaits a future that its [`Build`](edbatch_models::Build) did not return, such as
    /// a channel or a timer. The engine cannot complete these.
    #[error(
        "the model awaits a future that the engine does not complete: in `build`, await only \
         `fetch`, `fetch_each` and `arg_max` of its `Build`"
    )]
    ForeignAwait,
    /// The input awaits two requests of its [`Build`](edbatch_models::Build) at the same time.
    #[error(
        "the model awaits two requests of its `Build` at the same time: await one after the \
         other, or read several values by `fetch_each`"
    )]
    TwoAwaits,
    /// The input was no longer [wanted](crate::RunOptions::still_wanted).
    #[error("cancelled: the input was no longer wanted")]
    Cancelled,
    /// A call of the input produced a NaN or an infinity, found by
    /// [`interpret_finite`](crate::interpret_finite).
    #[error("{0}")]
    NotFinite(Box<NotFiniteCall>),
    /// One of its outputs has a NaN or an infinity, although
    /// [only finite](crate::RunOptions::only_finite) ones are accepted.
    #[error(
        "expected finite results, got a NaN or an infinity in row {row}: correct the weights, or \
         find the call that makes it by `interpret_finite`"
    )]
    NotFiniteOutput {
        /// The index of the output.
        row: usize,
    },
}

/// The first call of an input that produces a NaN or an infinity.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotFiniteCall {
    /// The index of the call among all calls of the input, in the model's order.
    pub call: usize,
    /// The name of the cell.
    pub cell: String,
    /// The name of the field.
    pub field: String,
    /// The element's index in each dimension of the field.
    pub index: Vec<usize>,
    /// The value of the element.
    pub value: NotFinite,
    /// The cause.
    pub cause: NotFiniteCause,
}

/// The reason why a call produces a NaN or an infinity, although no earlier call does.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum NotFiniteCause {
    /// The call reads a weight that is not finite.
    Weight(NotFiniteWeight),
    /// The call reads a [given](edbatch_models::Build::give) value that is not finite.
    Given,
    /// Everything that the call reads is finite, but one of its operations has a constant or a
    /// factor that is not.
    Constant {
        /// The index of the operation in the cell.
        operation: usize,
        /// The constant.
        value: NotFinite,
    },
    /// Everything that the call reads is finite; one of its operations overflows or is undefined.
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
            NotFiniteCause::Constant { operation, value } => write!(
                f,
                "everything that it reads is finite, but its operation v{operation} has the \
                 constant {value}: correct its equations"
            ),
            NotFiniteCause::Operations => f.write_str(
                "everything that it reads is finite, so one of its operations overflows or is \
                 undefined: make the cell's weights smaller, or correct its equations",
            ),
        }
    }
}

/// Why an engine could not be built.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// A cell or a table is too large for 32-bit addresses.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    /// The backend could not load the model.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// The number of threads is 0 or too large.
    #[error("expected 1 to {} threads, got {threads}", ThreadPool::MAX_THREADS)]
    Threads {
        /// The requested number.
        threads: usize,
    },
    /// The options name a pool, and a number of threads that differs from the pool's.
    #[error("the options name {threads} threads and a pool of {pool}: leave one of them out")]
    ThreadsOfPool {
        /// The requested number.
        threads: usize,
        /// The number of threads of the pool.
        pool: usize,
    },
    /// The system failed to start a thread.
    #[error("cannot start {threads} threads: {error}: use fewer, or allow more memory")]
    CannotStart {
        /// The requested number.
        threads: usize,
        /// The error of the system.
        error: Arc<io::Error>,
    },
    /// The program was compiled for another network than the model's.
    #[error(
        "the program was compiled for another network: compile it for the model's, \
         `Program::new(model.network().clone(), …)`"
    )]
    NetworkOfProgram,
    /// The backend was loaded with another program.
    #[error(
        "the backend was loaded with another program: load it with a clone of the `Arc<Program>` \
         that the engine gets"
    )]
    ProgramOfBackend,
    /// A memory limit needs a single thread, since each thread holds its own values.
    #[error(
        "a memory limit needs 1 thread, got {threads}: run whole mini-batches on an engine per \
         thread (a fork of this one), each with the limit"
    )]
    MemoryLimitWithThreads {
        /// The requested number of threads.
        threads: usize,
    },
    /// The limit for folded tables exceeds the memory limit.
    #[error("folded tables may take {tables} bytes, expected at most the memory limit of {limit}")]
    FoldedTablesOverLimit {
        /// Bytes that folded tables may take.
        tables: u64,
        /// The memory limit.
        limit: u64,
    },
    /// The options fold tables, but the program of a loaded backend decides which tables are
    /// folded.
    #[error(
        "the program of a loaded backend decides which tables are folded: use \
         `Program::fold_tables` before loading"
    )]
    FoldedTablesOfBackend,
    /// The options set a precision, but a loaded backend has its own.
    #[error("a loaded backend has its own precision: load it with that precision instead")]
    PrecisionOfBackend,
}
