//! Errors of engines, mini-batches and inputs.

use std::fmt;
use std::io;
use std::sync::Arc;

use edbatch_layout::{ArenaTooLarge, TooLarge};
use edbatch_models::BuildError;
use edbatch_policy::EmptyTrainingSet;
use edbatch_runtime::{BackendError, NotFinite, NotFiniteWeight};

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
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Input { error, .. } => Some(error),
            Self::Arena(error) => Some(error),
            Self::Backend(error) => Some(error),
            Self::Learn(error) => Some(error),
            Self::Memory { .. } => None,
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
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum InputError {
    /// [`Model::build`](edbatch_models::Model::build) returned this error for the input.
    Build(BuildError),
    /// The input emits or awaits a value that it did not carry across an earlier await.
    NotCarried,
    /// The input awaits a future that its [`Build`](edbatch_models::Build) did not return, such as
    /// a channel or a timer. The engine cannot complete these.
    ForeignAwait,
    /// The input awaits two requests of its [`Build`](edbatch_models::Build) at the same time.
    TwoAwaits,
    /// The input was no longer [wanted](crate::RunOptions::still_wanted).
    Cancelled,
    /// A call of the input produced a NaN or an infinity, found by
    /// [`interpret_finite`](crate::interpret_finite).
    NotFinite(Box<NotFiniteCall>),
    /// One of its outputs has a NaN or an infinity, although
    /// [only finite](crate::RunOptions::only_finite) ones are accepted.
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

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Build(error) => error.fmt(f),
            Self::NotCarried => {
                f.write_str("a value from before an await is used after it: carry it across")
            }
            Self::ForeignAwait => f.write_str(
                "the model awaits a future that the engine does not complete: in `build`, await \
                 only `fetch`, `fetch_each` and `arg_max` of its `Build`",
            ),
            Self::TwoAwaits => f.write_str(
                "the model awaits two requests of its `Build` at the same time: await one after \
                 the other, or read several values by `fetch_each`",
            ),
            Self::Cancelled => f.write_str("cancelled: the input was no longer wanted"),
            Self::NotFinite(call) => call.fmt(f),
            Self::NotFiniteOutput { row } => write!(
                f,
                "expected finite results, got a NaN or an infinity in row {row}: correct the \
                 weights, or find the call that makes it by `interpret_finite`"
            ),
        }
    }
}

impl std::error::Error for InputError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Build(error) => Some(error),
            _ => None,
        }
    }
}

/// Why an engine could not be built.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum EngineError {
    /// A cell or a table is too large for 32-bit addresses.
    TooLarge(TooLarge),
    /// The backend could not load the model.
    Backend(BackendError),
    /// The number of threads is 0 or too large.
    Threads {
        /// The requested number.
        threads: usize,
    },
    /// The options name a pool, and a number of threads that differs from the pool's.
    ThreadsOfPool {
        /// The requested number.
        threads: usize,
        /// The number of threads of the pool.
        pool: usize,
    },
    /// The system failed to start a thread.
    CannotStart {
        /// The requested number.
        threads: usize,
        /// The error of the system.
        error: Arc<io::Error>,
    },
    /// The program was compiled for another network than the model's.
    NetworkOfProgram,
    /// The backend was loaded with another program.
    ProgramOfBackend,
    /// A memory limit needs a single thread, since each thread holds its own values.
    MemoryLimitWithThreads {
        /// The requested number of threads.
        threads: usize,
    },
    /// The limit for folded tables exceeds the memory limit.
    FoldedTablesOverLimit {
        /// Bytes that folded tables may take.
        tables: u64,
        /// The memory limit.
        limit: u64,
    },
    /// The options fold tables, but the program of a loaded backend decides which tables are
    /// folded.
    FoldedTablesOfBackend,
    /// The options set a precision, but a loaded backend has its own.
    PrecisionOfBackend,
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
                let max = edbatch_runtime::ThreadPool::MAX_THREADS;
                write!(f, "expected 1 to {max} threads, got {threads}")
            }
            Self::ThreadsOfPool { threads, pool } => write!(
                f,
                "the options name {threads} threads and a pool of {pool}: leave one of them out"
            ),
            Self::CannotStart { threads, error } => {
                write!(
                    f,
                    "cannot start {threads} threads: {error}: use fewer, or allow more memory"
                )
            }
            Self::NetworkOfProgram => f.write_str(
                "the program was compiled for another network: compile it for the model's, \
                 `Program::new(model.network().clone(), …)`",
            ),
            Self::ProgramOfBackend => f.write_str(
                "the backend was loaded with another program: load it with a clone of the \
                 `Arc<Program>` that the engine gets",
            ),
            Self::MemoryLimitWithThreads { threads } => write!(
                f,
                "a memory limit needs 1 thread, got {threads}: run whole mini-batches on an engine \
                 per thread (`Engine::fork`), each with the limit"
            ),
            Self::FoldedTablesOverLimit { tables, limit } => write!(
                f,
                "folded tables may take {tables} bytes, expected at most the memory limit of \
                 {limit}"
            ),
            Self::FoldedTablesOfBackend => f.write_str(
                "the program of a loaded backend decides which tables are folded: use \
                 `Program::fold_tables` before loading",
            ),
            Self::PrecisionOfBackend => f.write_str(
                "a loaded backend has its own precision: load it with that precision instead",
            ),
        }
    }
}

impl std::error::Error for EngineError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::TooLarge(error) => Some(error),
            Self::Backend(error) => Some(error),
            Self::CannotStart { error, .. } => Some(error),
            _ => None,
        }
    }
}
