//! The errors of training.

use std::error::Error;
use std::fmt;

use edbatch_graph::CellError;
use edbatch_runtime::{BackendError, ParameterError};

use crate::{EngineError, InputError, NotFiniteCall, RunError};

/// An error of a [`Trainer`](crate::Trainer).
#[derive(Debug)]
#[non_exhaustive]
pub enum TrainError {
    /// The adjoint of a cell could not be declared.
    Cell(CellError),
    /// The trainer could not be built.
    Engine(EngineError),
    /// A mini-batch could not be run.
    Run(RunError),
    /// The backend computes no gradients.
    Backend,
    /// The parameters do not fit the model.
    Parameters(ParameterError),
    /// An input failed.
    Input {
        /// Its index in the mini-batch.
        input: usize,
        /// The reason.
        error: InputError,
    },
    /// An input awaits a computed value, so its graph depends on the weights.
    Awaits {
        /// Its index in the mini-batch.
        input: usize,
    },
    /// There are more or fewer lists of targets than inputs.
    TargetsOfInputs {
        /// The number of inputs.
        inputs: usize,
        /// The number of lists.
        targets: usize,
    },
    /// An input has a different number of targets than of emitted rows.
    Targets {
        /// Its index in the mini-batch.
        input: usize,
        /// The number of rows that it emits.
        rows: usize,
        /// The number of its targets.
        targets: usize,
    },
    /// A target is not a class.
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
    Scores {
        /// The index of the input in the mini-batch.
        input: usize,
        /// The emitted row.
        row: usize,
        /// The name of its record.
        record: String,
    },
    /// The loss of an input is not a finite number.
    NotFiniteLoss {
        /// Its index in the mini-batch.
        input: usize,
        /// The first of its calls that produces a NaN or an infinity, found by the reference.
        call: Option<Box<NotFiniteCall>>,
    },
    /// A gradient is not a finite number.
    NotFiniteGradient {
        /// The name of the parameter.
        parameter: String,
    },
    /// The step is no longer [wanted](crate::Trainer::set_still_wanted).
    Cancelled,
    /// There are no values to compute gradients of.
    NothingForward,
    /// The gradients of outputs do not have the shape of the outputs.
    GradientsOfInputs,
    /// The gradients of parameters do not have the shapes of the parameters.
    GradientsOfParameters,
    /// A number of the options is out of range.
    Option {
        /// The option.
        option: &'static str,
        /// The numbers that it may have.
        expected: &'static str,
        /// The number.
        got: f64,
    },
    /// The prefix of a group is not the beginning of any parameter's name.
    Group {
        /// The prefix.
        prefix: String,
    },
    /// The state does not belong to this trainer.
    State {
        /// The difference.
        why: String,
    },
}

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

impl From<CellError> for TrainError {
    fn from(error: CellError) -> Self {
        Self::Cell(error)
    }
}

impl From<EngineError> for TrainError {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
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

impl From<ParameterError> for TrainError {
    fn from(error: ParameterError) -> Self {
        Self::Parameters(error)
    }
}

impl fmt::Display for TrainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cell(error) => error.fmt(f),
            Self::Engine(error) => error.fmt(f),
            Self::Run(error) => error.fmt(f),
            Self::Backend => f.write_str(
                "the backend computes no gradients: use the CPU backend, with a program for \
                 training",
            ),
            Self::TargetsOfInputs { inputs, targets } => {
                write!(f, "expected targets for each of {inputs} inputs, got {targets} lists")
            }
            Self::Cancelled => f.write_str("cancelled: the step was no longer wanted"),
            Self::NothingForward => {
                f.write_str("no values are kept: call `forward` before each `backward`")
            }
            Self::GradientsOfInputs => f.write_str(
                "expected a gradient for each row that `forward` returned, with as many elements",
            ),
            Self::GradientsOfParameters => {
                f.write_str("expected a gradient for each parameter, with its shape")
            }
            Self::Option { option, expected, got } => {
                write!(f, "{option}: expected {expected}, got {got}")
            }
            Self::Group { prefix } => {
                write!(f, "no parameter of the model has a name that begins with `{prefix}`")
            }
            Self::State { why } => write!(f, "the state is not of this trainer: {why}"),
            Self::Parameters(error) => error.fmt(f),
            Self::Input { input, error } => write!(f, "input {input}: {error}"),
            Self::Awaits { input } => write!(
                f,
                "input {input} awaits a computed value, which has no gradient: train translators \
                 with Stop::Forced"
            ),
            Self::Targets { input, rows, targets } => {
                write!(
                    f,
                    "input {input}: expected a target or none for each of {rows} emitted rows"
                )?;
                write!(f, ", got {targets}")
            }
            Self::Target { input, row, target, classes } => write!(
                f,
                "input {input}, row {row}: expected a target below {classes}, got {target}"
            ),
            Self::Scores { input, row, record } => write!(
                f,
                "input {input}, row {row}: expected one vector of scores, got the record {record}"
            ),
            Self::NotFiniteLoss { input, call } => {
                write!(f, "the loss of input {input} is not finite")?;
                match call {
                    Some(call) => write!(f, ": {call}"),
                    None => f.write_str(": make the weights or the learning rate smaller"),
                }
            }
            Self::NotFiniteGradient { parameter } => write!(
                f,
                "the gradient of {parameter} is not finite: make the weights or the learning rate \
                 smaller, or correct the gradients of your own loss"
            ),
        }
    }
}

impl Error for TrainError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Cell(error) => Some(error),
            Self::Engine(error) => Some(error),
            Self::Run(error) => Some(error),
            Self::Parameters(error) => Some(error),
            Self::Input { error, .. } => Some(error),
            _ => None,
        }
    }
}
