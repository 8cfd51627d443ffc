//! `cargo xtask bench`: builds the benchmark in release, and runs it with the given options.

use std::process::ExitCode;

use crate::{Failure, measuring};

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
    // Devices are built for only where they are asked for.
    let for_devices = args.options.iter().any(|option| option.starts_with("--backends"));
    let features: &[&str] = if for_devices { &["--features", "cuda"] } else { &[] };
    measuring::run(&[&["--bin", "edbatch-benches"], features].concat(), &args.options)
}
