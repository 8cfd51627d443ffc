//! The errors of training.

use std::error::Error;
use std::fmt;

use edbatch_graph::NoGradient;
use edbatch_runtime::ParameterError;

use crate::InputError;

/// Why the gradients of a mini-batch could not be computed.
#[derive(Debug)]
#[non_exhaustive]
pub enum TrainError {
    /// A cell has an operation without a gradient.
    NoGradient(NoGradient),
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
    },
    /// A gradient is not a finite number.
    NotFiniteGradient {
        /// The name of the parameter.
        parameter: String,
    },
}

impl fmt::Display for TrainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoGradient(error) => error.fmt(f),
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
            Self::NotFiniteLoss { input } => write!(
                f,
                "the loss of input {input} is not finite: `interpret_finite` finds the call"
            ),
            Self::NotFiniteGradient { parameter } => {
                write!(f, "the gradient of {parameter} is not finite")
            }
        }
    }
}

impl Error for TrainError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::NoGradient(error) => Some(error),
            Self::Parameters(error) => Some(error),
            Self::Input { error, .. } => Some(error),
            _ => None,
        }
    }
}
