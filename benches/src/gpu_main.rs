//! `cargo xtask gpu`, and the program of a pack: verifies and measures the CUDA backend.

use std::process::ExitCode;

use clap::Parser;
use edbatch_benches::gpu::options::Options;
use edbatch_benches::gpu::run::run;

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("error: something failed; the records say what");
            ExitCode::FAILURE
        }
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}
