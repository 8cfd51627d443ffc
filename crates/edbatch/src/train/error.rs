//! The errors of training.

use edbatch_graph::CellError;
use edbatch_runtime::{BackendError, ParameterError};

use crate::{EngineError, InputError, NotFiniteCall, RunError};

/// An error of a [`Trainer`](crate::Trainer).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainError {
    /// The adjoint of a cell could not be declared.
    #[error(transparent)]
    Cell(#[from] CellError),
    /// The trainer could not be built.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A mini-batch could not be run.
    #[error(transparent)]
    Run(RunError),
    /// The backend computes no gradients.
    #[error("the backend computes no gradients: use the CPU or CUDA, with a program for training")]
    Backend,
    /// The backend is no device, so that no memory can be borrowed.
    #[error("the backend is no device: train on CUDA, or call `forward` and `backward`")]
    NoDevice,
    /// The parameters do not fit the model.
    #[error(transparent)]
    Parameters(#[from] ParameterError),
    /// An input failed.
    #[error("input {input}: {error}")]
    Input {
        /// Its index in the mini-batch.
        input: usize,
        /// The reason.
        error: InputError,
    },
    /// An input awaits a computed value, or names the row of an argmax, so its graph depends on the
    /// weights.
    #[error(
        "input {input} awaits a computed value, which has no gradient: train translators with \
         Stop::Forced"
    )]
    Awaits {
        /// Its index in the mini-batch.
        input: usize,
    },
    /// There are more or fewer lists of targets than inputs.
    #[error("expected targets for each of {inputs} inputs, got {targets} lists")]
    TargetsOfInputs {
        /// The number of inputs.
        inputs: usize,
        /// The number of lists.
        targets: usize,
    },
    /// An input has a different number of targets than of emitted rows.
    #[error(
        "input {input}: expected a target or none for each of {rows} emitted rows, got {targets}"
    )]
    Targets {
        /// Its index in the mini-batch.
        input: usize,
        /// The number of rows that it emits.
        rows: usize,
        /// The number of its targets.
        targets: usize,
    },
    /// A target is not a class.
    #[error("input {input}, row {row}: expected a target below {classes}, got {target}")]
    Target {
        /// The index of the input in the mini-batch.
        input: usize,
        /// The emitted row.
        row: usize,
        /// The target.
        target: u32,
        /// The number of elements of the row.
        classes: usize,
    },
    /// An emitted row with a target is not one vector of scores.
    #[error("input {input}, row {row}: expected one vector of scores, got the record {record}")]
    Scores {
        /// The index of the input in the mini-batch.
        input: usize,
        /// The emitted row.
        row: usize,
        /// The name of its record.
        record: String,
    },
    /// The loss of an input is not a finite number.
    #[error(
        "the loss of input {input} is not finite: {}",
        call.as_ref().map_or(SMALLER.into(), |call| call.to_string())
    )]
    NotFiniteLoss {
        /// Its index in the mini-batch.
        input: usize,
        /// The first of its calls that produces a NaN or an infinity, found by the reference.
        call: Option<Box<NotFiniteCall>>,
    },
    /// A gradient is not a finite number.
    #[error(
        "the gradient of {parameter} is not finite: {SMALLER}, or correct the gradients of your \
         own loss"
    )]
    NotFiniteGradient {
        /// The name of the parameter.
        parameter: String,
    },
    /// The step is no longer [wanted](crate::Trainer::set_still_wanted).
    #[error("cancelled: the step was no longer wanted")]
    Cancelled,
    /// There are no values to compute gradients of.
    #[error("no values are kept: call `forward` before each `backward`")]
    NothingForward,
    /// The gradients of outputs do not have the shape of the outputs.
    #[error("expected gradients of all that `forward` returned: {expected} {what}, got {got}")]
    GradientsOfInputs {
        /// Inputs, rows of an input, or elements of a row: these are counted.
        what: String,
        /// Their number in the results of `forward`.
        expected: usize,
        /// Their number in the gradients.
        got: usize,
    },
    /// The gradients of parameters do not have the shapes of the parameters.
    #[error("expected a gradient for each parameter, with its shape")]
    GradientsOfParameters,
    /// A number of the options is out of range.
    #[error("{option}: expected {expected}, got {got}")]
    Option {
        /// The option.
        option: &'static str,
        /// The numbers that it may have.
        expected: &'static str,
        /// The number.
        got: f64,
    },
    /// The prefix of a group is not the beginning of any parameter's name.
    #[error("no parameter of the model has a name that begins with `{prefix}`")]
    Group {
        /// The prefix.
        prefix: String,
    },
    /// The state does not belong to this trainer.
    #[error("the state is not of this trainer: {why}")]
    State {
        /// The difference.
        why: String,
    },
}

const SMALLER: &str = "make the weights or the learning rate smaller";

impl TrainError {
    /// Converts an error of a part that begins at input `first` into an error of all inputs.
    #[must_use]
    pub fn of_part(mut self, first: usize) -> Self {
        self.input_mut().into_iter().for_each(|input| *input += first);
        self
    }

    /// Returns the index of the input that failed, so that callers can replace it by an index among
    /// all their inputs.
    pub fn input_mut(&mut self) -> Option<&mut usize> {
        match self {
            Self::Input { input, .. }
            | Self::Awaits { input }
            | Self::Targets { input, .. }
            | Self::Target { input, .. }
            | Self::Scores { input, .. }
            | Self::NotFiniteLoss { input, .. } => Some(input),
            _ => None,
        }
    }
}

impl From<RunError> for TrainError {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Backend(BackendError::Cancelled) => Self::Cancelled,
            error => Self::Run(error),
        }
    }
}

impl From<BackendError> for TrainError {
    fn from(error: BackendError) -> Self {
        RunError::from(error).into()
    }
}
