//! `cargo xtask bench` and `cargo xtask gpu`: build the benchmark in release mode and run it.

use std::process::{Command, ExitCode};

use crate::{Failure, root};

/// Measures batches, throughput and where the time goes; ends with a summary and a page with plots.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// Options; `cargo xtask bench --help` lists them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTION")]
    options: Vec<String>,
}

/// Verifies and measures the CUDA device of this machine, or packs a folder for another machine.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct GpuArgs {
    /// Options; `cargo xtask gpu --help` lists them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTION")]
    options: Vec<String>,
}

/// Runs the benchmark and returns its exit code.
pub(crate) fn run(args: Args) -> Result<ExitCode, Failure> {
    start(&[], &args.options)
}

/// Runs the parts for a CUDA device and returns the exit code.
pub(crate) fn run_gpu(args: GpuArgs) -> Result<ExitCode, Failure> {
    start(&["--gpu"], &args.options)
}

fn start(first: &[&str], options: &[String]) -> Result<ExitCode, Failure> {
    eprintln!("building the benchmark in release mode; the first time takes some minutes");
    let mut cargo = Command::new("cargo");
    cargo.args(["run", "--release", "--package", "edbatch-benches", "--manifest-path"]);
    cargo.arg(root().join("Cargo.toml")).arg("--").args(first).args(options);
    let status = cargo.status().map_err(|error| format!("cannot start cargo: {error}"))?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, Into::into))
}
