//! The project's tasks: `cargo xtask bench`, `c-package`, `data`, `fuzz`, `gpu`, `ci` and
//! `release`, one file each.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod bench;
mod c_package;
mod ci;
mod data;
mod fuzz;
mod release;

use std::path::Path;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The project's tasks.
#[derive(Parser)]
#[command(bin_name = "cargo xtask", after_help = "Example: cargo xtask ci")]
struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Bench(bench::Args),
    CPackage(c_package::Args),
    Data(data::Args),
    Fuzz(fuzz::Args),
    Gpu(bench::GpuArgs),
    Ci(ci::Args),
    Release(release::Args),
}

/// The error of a failed task, printed to standard error.
type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let outcome = match Args::parse().verb {
        Verb::Bench(args) => bench::run(args),
        Verb::Gpu(args) => bench::run_gpu(args),
        Verb::CPackage(args) => c_package::run(args).map(|()| ExitCode::SUCCESS),
        Verb::Data(args) => data::run(args).map(|()| ExitCode::SUCCESS),
        Verb::Fuzz(args) => fuzz::run(args).map(|()| ExitCode::SUCCESS),
        Verb::Ci(args) => ci::run(args).map(|()| ExitCode::SUCCESS),
        Verb::Release(args) => release::run(args).map(|()| ExitCode::SUCCESS),
    };
    match outcome {
        Ok(code) => code,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// The root of the repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is a folder of the repository")
}
