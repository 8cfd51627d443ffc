//! Exceptions. Their texts are the Rust library's.

use std::path::Path;

use edbatch::graph::{self, CallErrorReason};
use edbatch::models::{BuildError, GiveError};
use edbatch::runtime::{BackendError, ParameterError};
use edbatch::{EngineError, InputError, LoadError, RunError, SessionError};
use pyo3::create_exception;
use pyo3::exceptions::{PyMemoryError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

macro_rules! exceptions {
    ($($name:ident($base:ty): $text:literal;)+) => {
        $(create_exception!(edbatch, $name, $base, $text);)+
    };
}

exceptions! {
    CellError(PyValueError):
        "A declaration that is invalid: a record, a parameter, or an operation of a cell.";
    CallError(PyValueError):
        "A call that does not fit its cell, a given value that does not fit its record, or a value \
         that does not exist.";
    WeightsError(PyValueError):
        "Weights that do not fit a network: missing, surplus, or of another shape or type.";
    FileError(PyValueError):
        "A file or a line that cannot be read or written; names the place and what was expected.";
    DeviceError(PyRuntimeError): "A device that failed or does not exist.";
}

/// The error of a text, with its file, line and column.
pub(crate) fn file(path: &str, fault: impl std::fmt::Display) -> PyErr {
    FileError::new_err(format!("{path}:{fault}"))
}

/// Converts the error of a file that the system cannot read or write.
pub(crate) fn system(path: &Path, expected: &str) -> impl FnOnce(std::io::Error) -> PyErr {
    move |error| {
        FileError::new_err(format!("{}: expected {expected}, got: {error}", path.display()))
    }
}

pub(crate) fn cell(error: graph::CellError) -> PyErr {
    CellError::new_err(error.to_string())
}

pub(crate) fn call(error: graph::CallError) -> PyErr {
    match error.reason {
        CallErrorReason::Memory { .. } => PyMemoryError::new_err(error.to_string()),
        _ => CallError::new_err(error.to_string()),
    }
}

pub(crate) fn give(error: GiveError) -> PyErr {
    CallError::new_err(error.to_string())
}

pub(crate) fn weights(error: ParameterError) -> PyErr {
    match error {
        ParameterError::Memory { .. } => PyMemoryError::new_err(error.to_string()),
        _ => WeightsError::new_err(error.to_string()),
    }
}

pub(crate) fn load(error: LoadError) -> PyErr {
    match error {
        LoadError::Weights { .. } => WeightsError::new_err(error.to_string()),
        _ => FileError::new_err(error.to_string()),
    }
}

pub(crate) fn backend(error: BackendError) -> PyErr {
    match error {
        BackendError::Memory { .. } => PyMemoryError::new_err(error.to_string()),
        BackendError::Weights { .. } => WeightsError::new_err(error.to_string()),
        _ => DeviceError::new_err(error.to_string()),
    }
}

pub(crate) fn engine(error: EngineError) -> PyErr {
    match error {
        EngineError::Backend(error) => backend(error),
        EngineError::CannotStart { .. } => PyRuntimeError::new_err(error.to_string()),
        _ => PyValueError::new_err(error.to_string()),
    }
}

/// Converts the error of a mini-batch.
pub(crate) fn run(error: RunError) -> PyErr {
    match error {
        RunError::Memory { .. } | RunError::Backend(BackendError::Memory { .. }) => {
            PyMemoryError::new_err(error.to_string())
        }
        RunError::Backend(error) => backend(error),
        RunError::Input { error, .. } => input(error),
        _ => PyValueError::new_err(error.to_string()),
    }
}

/// Converts the error of a session. `place` names the call or the operand, if there is one.
pub(crate) fn session(error: SessionError, place: Option<String>) -> PyErr {
    let text = match place {
        Some(place) => format!("{place}: {error}"),
        None => error.to_string(),
    };
    match error {
        SessionError::Call(error) | SessionError::CallOf { error, .. } => match error.reason {
            CallErrorReason::Memory { .. } => PyMemoryError::new_err(text),
            _ => CallError::new_err(text),
        },
        SessionError::Run(error) => match error {
            RunError::Memory { .. } | RunError::Backend(BackendError::Memory { .. }) => {
                PyMemoryError::new_err(text)
            }
            error => run(error),
        },
        _ => CallError::new_err(text),
    }
}

/// The error of an input whose exception was not raised in Python.
pub(crate) fn input(error: InputError) -> PyErr {
    match error {
        InputError::Build(BuildError::Call(error)) => call(error),
        InputError::Build(BuildError::Give(error)) => give(error),
        InputError::Build(error) => PyValueError::new_err(error.to_string()),
        _ => CallError::new_err(error.to_string()),
    }
}
