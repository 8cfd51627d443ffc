//! `cargo xtask fuzz`: runs the fuzz targets for a given time.
//!
//! A fuzzer only needs the compiler to count edges of the control flow. A stable toolchain can do
//! this, so neither nightly nor cargo-fuzz is required. cargo-fuzz works, too.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::{Failure, root};

/// Runs the fuzz targets of crates/edbatch/fuzz one by one. Its folder target/artifacts gets
/// failing inputs; target/corpus keeps new inputs, with which the next run starts.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  cargo xtask fuzz --seconds 600
  cargo xtask fuzz readers networks")]
pub(crate) struct Args {
    /// Targets to run [default: all]
    #[arg(value_name = "TARGET", value_parser = clap::builder::PossibleValuesParser::new(TARGETS))]
    targets: Vec<String>,

    /// Seconds for each target.
    // libFuzzer takes 0 as no limit.
    #[arg(long, value_name = "N", default_value_t = 60,
          value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
}

const TARGETS: [&str; 12] = [
    "readers",
    "models",
    "policies",
    "graphs",
    "pq_trees",
    "layouts",
    "marks",
    "network_file",
    "call_lists",
    "c_sessions",
    "networks",
    "trace",
];

/// With an explicit target, the flags do not apply to build scripts and procedural macros.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Compiler flags that count each edge of the control flow, and trace each comparison.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=3 \
                     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
                     -Cllvm-args=-sanitizer-coverage-pc-table \
                     -Cllvm-args=-sanitizer-coverage-trace-compares";

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let chosen: Vec<&str> = match args.targets.is_empty() {
        true => TARGETS.to_vec(),
        false => args.targets.iter().map(String::as_str).collect(),
    };
    let mut build = Command::new("cargo");
    build.args(["build", "--release", "--locked", "--target", TARGET]).current_dir(folder());
    // A separate target folder, so that these flags do not rebuild the workspace.
    build.env("RUSTFLAGS", FLAGS).env("CARGO_TARGET_DIR", folder().join("target"));
    if !build.status()?.success() {
        return Err("failed to build the fuzz targets".into());
    }
    let mut table = vec![format!("{:10} {:>12} {:>8}", "target", "executions", "seconds")];
    for target in chosen {
        let executions = fuzz(target, args.seconds)?;
        table.push(format!("{target:10} {executions:>12} {:>8}", args.seconds));
    }
    println!("\n{}", table.join("\n"));
    Ok(())
}

fn folder() -> PathBuf {
    root().join("crates/edbatch/fuzz")
}

/// Runs a target, and returns the number of executed inputs.
fn fuzz(target: &str, seconds: u32) -> Result<String, Failure> {
    println!("== {target}");
    let built = folder().join("target");
    let (kept, found) = (built.join("corpus").join(target), built.join("artifacts").join(target));
    std::fs::create_dir_all(&kept)?;
    std::fs::create_dir_all(&found)?;
    let mut command = Command::new(built.join(TARGET).join("release").join(target));
    command.args(["-timeout=20", "-rss_limit_mb=2048", "-max_len=16384", "-print_final_stats=1"]);
    command.arg(format!("-max_total_time={seconds}"));
    // The trailing separator makes this a folder, not a prefix of file names.
    command.arg(format!("-artifact_prefix={}/", found.display()));
    command.arg(kept).arg(folder().join("corpus").join(target));
    let mut child = command.stderr(Stdio::piped()).spawn()?;
    let output = BufReader::new(child.stderr.take().expect("standard error is piped"));
    let (mut executions, mut last) = (None, Vec::new());
    for line in output.lines() {
        let line = line?;
        if let Some(count) = line.strip_prefix("stat::number_of_executed_units:") {
            executions = Some(count.trim().to_string());
        }
        // Keeps the report of a failure, without the many lines of progress.
        if !line.starts_with('#') {
            last.push(line);
        }
    }
    if child.wait()?.success() {
        return executions.ok_or_else(|| format!("{target} ended without statistics").into());
    }
    last.iter().for_each(|line| println!("{line}"));
    Err(format!("{target} failed; the input is in {}", found.display()).into())
}
