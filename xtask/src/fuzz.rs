//! `cargo xtask fuzz`: the fuzz targets, each for a while.
//!
//! Counters on the edges of the code are all that a fuzzer asks of the compiler, and any toolchain
//! can add them: neither a nightly one is needed nor cargo-fuzz, though that works too.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::{Failure, root};

/// Runs the fuzz targets of crates/edbatch/fuzz, one after the other. What is found is written into
/// the folder target/artifacts there; new inputs are kept in target/corpus, and are where the next
/// run begins.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  cargo xtask fuzz --seconds 600
  cargo xtask fuzz readers networks")]
pub(crate) struct Args {
    /// The targets; all of them by default.
    #[arg(value_name = "TARGET", value_parser = clap::builder::PossibleValuesParser::new(TARGETS))]
    targets: Vec<String>,

    /// How long each of them runs.
    // libFuzzer takes none for no limit.
    #[arg(long, value_name = "N", default_value_t = 60,
          value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
}

const TARGETS: [&str; 9] = [
    "readers", "models", "policies", "graphs", "pq_trees", "layouts", "marks", "networks", "trace",
];

/// The standard library of a target that is named is not built with the flags.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// A counter for each edge, and a note of each comparison.
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
    // Where the caller has the workspace built is no place for these flags.
    build.env("RUSTFLAGS", FLAGS).env("CARGO_TARGET_DIR", folder().join("target"));
    if !build.status()?.success() {
        return Err("the fuzz targets do not build".into());
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

/// Runs a target; how many inputs it ran.
fn fuzz(target: &str, seconds: u32) -> Result<String, Failure> {
    println!("== {target}");
    let built = folder().join("target");
    let (kept, found) = (built.join("corpus").join(target), built.join("artifacts").join(target));
    std::fs::create_dir_all(&kept)?;
    std::fs::create_dir_all(&found)?;
    let mut command = Command::new(built.join(TARGET).join("release").join(target));
    command.args(["-timeout=20", "-rss_limit_mb=2048", "-max_len=16384", "-print_final_stats=1"]);
    command.arg(format!("-max_total_time={seconds}"));
    // A folder, not the beginning of names: it ends with a separator.
    command.arg(format!("-artifact_prefix={}/", found.display()));
    command.arg(kept).arg(folder().join("corpus").join(target));
    let mut child = command.stderr(Stdio::piped()).spawn()?;
    let said = BufReader::new(child.stderr.take().expect("it is piped"));
    let (mut executions, mut last) = (None, Vec::new());
    for line in said.lines() {
        let line = line?;
        if let Some(count) = line.strip_prefix("stat::number_of_executed_units:") {
            executions = Some(count.trim().to_string());
        }
        // The story of a failure stands behind the last of many lines of progress.
        if !line.starts_with('#') {
            last.push(line);
        }
    }
    if child.wait()?.success() {
        return executions.ok_or_else(|| format!("{target} ended without statistics").into());
    }
    last.iter().for_each(|line| println!("{line}"));
    Err(format!("{target} found something; the input is in {}", found.display()).into())
}
