//! `cargo xtask gpu`: builds what verifies and measures the CUDA backend, and runs it with the
//! given options.

use std::process::ExitCode;

use crate::{Failure, measuring};

/// Verifies the CUDA backend on this machine's GPU, and measures it; or packs a folder for another
/// machine.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// What `cargo xtask gpu --help` lists.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTION")]
    options: Vec<String>,
}

/// The exit code is that of the measurement.
pub(crate) fn run(args: Args) -> Result<ExitCode, Failure> {
    measuring::run(&["--features", "cuda", "--bin", "edbatch-gpu"], &args.options)
}
