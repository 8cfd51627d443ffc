//! The outcome of a step of training: a report or an error.

use std::collections::BTreeMap;

use edbatch::TrainError;
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::engine::noted;
use crate::errors::{self, CellError};
use crate::model::Input;

/// The outcome of a step of training.
#[pyclass(frozen, get_all, module = "edbatch")]
pub(crate) struct TrainReport {
    /// The sum of the cross-entropies of all rows with a target, divided by the number of inputs,
    /// before the update.
    loss: f64,
    /// The number of rows with a target.
    terms: u64,
    /// The norm of the gradients of all parameters, before clipping.
    gradient_norm: f64,
    /// The seconds of each part of the step: decide, forward, back, sums, update.
    seconds: BTreeMap<&'static str, f64>,
}

#[pymethods]
impl TrainReport {
    fn __repr__(&self) -> String {
        let Self { loss, terms, gradient_norm, .. } = self;
        format!("<edbatch.TrainReport: loss {loss:.4} of {terms} rows, norm {gradient_norm:.4}>")
    }
}

impl From<edbatch::TrainReport> for TrainReport {
    fn from(report: edbatch::TrainReport) -> Self {
        let edbatch::TrainReport { loss, terms, gradient_norm, times } = report;
        let seconds = [
            ("decide", times.decide),
            ("forward", times.forward),
            ("back", times.back),
            ("sums", times.sums),
            ("update", times.update),
        ];
        let seconds = seconds.map(|(name, time)| (name, time.as_secs_f64())).into();
        Self { loss, terms, gradient_norm, seconds }
    }
}

/// Returns the exception that an input raised, with a note, or the text of the error.
pub(crate) fn failure(py: Python<'_>, inputs: &[Input], mut error: TrainError) -> PyErr {
    if let Some(&mut input) = error.input_mut()
        && let Some(raised) = inputs[input].take_error()
    {
        return noted(py, raised, input, inputs.len());
    }
    match error {
        TrainError::Input { input, error } => noted(py, errors::input(error), input, inputs.len()),
        TrainError::Awaits { input } => PyTypeError::new_err(format!(
            "input {input} awaits a computed value, which has no gradient: train with a `build` \
             that awaits nothing"
        )),
        other => plain(other),
    }
}

/// The error of a trainer that is of no input.
pub(crate) fn plain(error: TrainError) -> PyErr {
    match error {
        TrainError::Cell(error) => CellError::new_err(error.to_string()),
        TrainError::Engine(error) => errors::engine(error),
        TrainError::Run(error) => errors::run(error),
        TrainError::Parameters(error) => errors::weights(error),
        TrainError::NothingForward => PyRuntimeError::new_err(error.to_string()),
        _ => PyValueError::new_err(error.to_string()),
    }
}
