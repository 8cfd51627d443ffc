//! `cargo xtask bench`: builds the benchmark in release, and runs it with the given options.

use std::process::{Command, ExitCode};

use crate::{Failure, root};

/// Measures batches, throughput and where the time goes; ends with a summary and a page with plots.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// What `cargo xtask bench --help` lists.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTION")]
    options: Vec<String>,
}

/// The exit code is that of the measurement.
pub(crate) fn run(args: Args) -> Result<ExitCode, Failure> {
    let mut cargo = Command::new("cargo");
    let manifest = root().join("Cargo.toml");
    cargo.args(["run", "--quiet", "--release", "--package", "edbatch-benches", "--manifest-path"]);
    let status = cargo.arg(manifest).arg("--").args(args.options).status();
    let status = status.map_err(|error| format!("cargo does not start: {error}"))?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, Into::into))
}
