//! The command `edbatch`.

use std::ffi::OsString;

use pyo3::prelude::*;

/// Runs the command. The first argument is its name. Returns the exit code.
#[pyfunction]
pub(crate) fn run_command(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| edbatch_cli::main(arguments))
}
