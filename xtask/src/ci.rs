//! `cargo xtask ci`: what must pass before a change is taken, in order, up to the first failure.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::{Failure, root};

/// Runs all checks in order, and stops at the first that fails.
#[derive(clap::Args)]
#[command(after_help = "Example: cargo xtask ci")]
pub(crate) struct Args {
    /// Leave the tests out, because they have been run already.
    #[arg(long)]
    skip_tests: bool,
}

struct Step {
    name: &'static str,
    command: &'static str,
    /// An environment variable and its value.
    env: Option<(&'static str, &'static str)>,
}

const STEPS: [Step; 4] = [
    Step { name: "fmt", command: "cargo fmt --all --check", env: None },
    Step {
        name: "clippy",
        command: "cargo clippy --workspace --all-targets --all-features -- -D warnings",
        env: None,
    },
    Step { name: TESTS, command: "cargo test --workspace", env: None },
    Step {
        name: "docs",
        command: "cargo doc --workspace --no-deps",
        env: Some(("RUSTDOCFLAGS", "-D warnings")),
    },
];

const TESTS: &str = "tests";

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let mut times = Vec::new();
    for step in STEPS.iter().filter(|step| !(args.skip_tests && step.name == TESTS)) {
        println!("== {}: {step}", step.name);
        let start = Instant::now();
        let passed = step.passes()?;
        let time = start.elapsed();
        println!(
            "== {}: {} in {:.1} s",
            step.name,
            if passed { "passed" } else { "FAILED" },
            time.as_secs_f64()
        );
        if !passed {
            return Err(format!("{} failed; to see it alone: {step}", step.name).into());
        }
        times.push((step.name, time));
    }
    print_summary(&times);
    Ok(())
}

impl Step {
    fn passes(&self) -> Result<bool, Failure> {
        let mut words = self.command.split(' ');
        let program = words.next().expect("a command begins with a program");
        let mut command = Command::new(program);
        command.args(words).envs(self.env).current_dir(root());
        Ok(command
            .status()
            .map_err(|error| format!("{program} does not start: {error}"))?
            .success())
    }
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some((name, value)) = self.env {
            write!(f, "{name}=\"{value}\" ")?;
        }
        write!(f, "{}", self.command)
    }
}

fn print_summary(times: &[(&str, Duration)]) {
    println!("== all passed");
    for (name, time) in times {
        println!("{name:>8} {:>7.1} s", time.as_secs_f64());
    }
    println!(
        "{:>8} {:>7.1} s",
        "total",
        times.iter().map(|(_, time)| time.as_secs_f64()).sum::<f64>()
    );
}
