//! Programs that measure are built in release by cargo, and given the user's options.

use std::process::{Command, ExitCode};

use crate::{Failure, root};

/// Builds and runs a program of the benches; the exit code is its own.
pub(crate) fn run(program: &[&str], options: &[String]) -> Result<ExitCode, Failure> {
    let mut cargo = Command::new("cargo");
    cargo.args(["run", "--quiet", "--release", "--package", "edbatch-benches"]).args(program);
    cargo.arg("--manifest-path").arg(root().join("Cargo.toml"));
    let status = cargo.arg("--").args(options).status();
    let status = status.map_err(|error| format!("cargo does not start: {error}"))?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, Into::into))
}
