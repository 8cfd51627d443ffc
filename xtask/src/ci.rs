//! `cargo xtask ci`: the checks that a change must pass, in order, up to the first failure.

mod driver;
mod examples;
pub(crate) mod packages;
mod python;
mod size;
mod skips;
mod steps;
pub(crate) mod versions;

use std::process::Command;
use std::time::{Duration, Instant};

use crate::{Failure, root};
use skips::Skips;
use steps::{Action, STEPS, Step, When};

/// Runs all checks in order and stops at the first failure. Lists every skipped test with the
/// reason.
#[derive(clap::Args)]
#[command(after_help = "Example: cargo xtask ci --long")]
pub(crate) struct Args {
    /// Skip the tests, if they have already been run.
    #[arg(long)]
    skip_tests: bool,

    /// Also run checks that take minutes or need special tools: the minimum Rust version, the
    /// oldest versions of dependencies, licences and advisories, the book, a target without std,
    /// sanitizers, fuzz targets, sharded corpora, all floats, all cases of properties, packages
    /// that are built, the Python package and what PyPI would get, all models on a CUDA driver
    /// without a device.
    #[arg(long)]
    long: bool,

    /// Run only this check, such as clippy, examples or minimum-rust.
    #[arg(long, value_name = "CHECK", value_parser = check_name, conflicts_with = "long")]
    only: Option<String>,

    /// Run only the checks of the Python package: wheel, tests, types, notebooks, and what PyPI
    /// would get.
    #[arg(long, conflicts_with_all = ["long", "only"])]
    python: bool,
}

/// The environment variable with which properties are tested with all cases, and its value.
const ALL_CASES: (&str, &str) = ("EDBATCH_CASES", "all");

fn check_name(name: &str) -> Result<String, String> {
    let names: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
    if names.contains(&name) {
        return Ok(name.into());
    }
    Err(format!("expected one of: {}", names.join(", ")))
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let skips = Skips::begin()?;
    let chosen: Vec<&Step> = STEPS.iter().filter(|step| args.takes(step)).collect();
    let mut times = Vec::new();
    for (index, step) in (1..).zip(&chosen) {
        println!("\n== {index}/{} {}: {step}", chosen.len(), step.name);
        if let Some(reason) = step.lacking() {
            println!("== {}: skipped: {reason}", step.name);
            skips.note(step.name, &reason)?;
            continue;
        }
        let start = Instant::now();
        let passed = step.passes(args.long, &skips)?;
        let time = start.elapsed();
        let outcome = if passed { "passed" } else { "FAILED" };
        println!("== {}: {outcome} in {:.1} s", step.name, time.as_secs_f64());
        if !passed {
            let name = step.name;
            return Err(format!(
                "{name} failed; to run only this check: cargo xtask ci --only {name}"
            )
            .into());
        }
        times.push((step.name, time));
    }
    print_times(&times);
    skips.print()
}

impl Args {
    fn takes(&self, step: &Step) -> bool {
        if self.python {
            return matches!(step.name, "python" | "distributions");
        }
        if let Some(only) = &self.only {
            return step.name == only;
        }
        match step.when {
            When::Always => true,
            When::Tests => !self.skip_tests,
            When::Long => self.long,
            When::Short => !self.long,
        }
    }
}

impl Step {
    /// Runs the check. In a long run, properties are tested with all cases.
    fn passes(&self, long: bool, skips: &Skips) -> Result<bool, Failure> {
        let command = match self.action {
            Action::Command(command) => command,
            Action::Distributions => return python::distributions("all", skips),
            Action::Driver { all } => return driver::pass(all, skips),
            Action::Examples => return examples::pass(),
            Action::Packages { build } => return packages::pass(build),
            Action::Python { smoke: true } => return python::smoke(skips),
            Action::Python { smoke: false } => return python::pass(skips),
            Action::MinimalVersions => return versions::oldest_suffice(),
            Action::Size => return size::pass(),
            Action::Semver => return versions::numbers_tell(),
        };
        let mut words = command.split(' ');
        let program = words.next().expect("a command starts with a program");
        let mut command = Command::new(program);
        command.args(words).envs(self.env.iter().copied()).current_dir(root());
        command.envs(long.then_some(ALL_CASES));
        skips.collect_from(&mut command);
        let status = command.status().map_err(|e| format!("failed to start {program}: {e}"))?;
        Ok(status.success())
    }
}

/// Builds the libraries and the commands. The tests' features are the same, so what they need is
/// not compiled again.
fn build() -> Command {
    let mut command = Command::new("cargo");
    let what = ["build", "--workspace", "--all-features", "--lib", "--bins", "--tests"];
    command.args(what).current_dir(root());
    command
}

fn print_times(times: &[(&str, Duration)]) {
    println!("\n== all passed");
    let width = times.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let total = times.iter().map(|(_, time)| *time).sum();
    for (name, time) in times.iter().copied().chain([("total", total)]) {
        println!("{name:>width$} {:>7.1} s", time.as_secs_f64());
    }
}
