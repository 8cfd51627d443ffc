//! `cargo xtask bench` and `cargo xtask gpu`: build the benchmark in release mode and run it.

use std::io::{self, IsTerminal};
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

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
    let cargo = |command: &str| {
        let mut cargo = Command::new("cargo");
        cargo.args([command, "--release", "--package", "edbatch-benches", "--manifest-path"]);
        cargo.arg(root().join("Cargo.toml"));
        cargo
    };
    let failure = |error| format!("cannot start cargo: {error}");
    let mut build = cargo("build").spawn().map_err(failure)?;
    let built = wait(&mut build, PULSE, |time| {
        // A terminal shows cargo's bar.
        if !std::io::stderr().is_terminal() {
            eprintln!("still building after {} s", time.as_secs());
        }
    });
    let mut status = built.map_err(failure)?;
    if status.success() {
        status = cargo("run").arg("--").args(first).args(options).status().map_err(failure)?;
    }
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, Into::into))
}

/// The time between messages of a build.
const PULSE: Duration = Duration::from_secs(10);

/// Waits for a process, and calls `say` with the time so far whenever `every` has passed.
fn wait(child: &mut Child, every: Duration, say: impl Fn(Duration)) -> io::Result<ExitStatus> {
    let (started, mut next) = (Instant::now(), every);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        thread::sleep(every.min(Duration::from_millis(50)));
        if started.elapsed() >= next {
            say(started.elapsed());
            next += every;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::process::{Command, Stdio};
    use std::time::Duration;

    use super::wait;

    #[test]
    fn a_build_is_never_silent() {
        // The process ends when its input does.
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let (input, said) = (Cell::new(child.stdin.take()), Cell::new(0));
        let say = |_| {
            said.set(said.get() + 1);
            if said.get() == 3 {
                drop(input.take());
            }
        };
        assert!(wait(&mut child, Duration::from_millis(1), say).unwrap().success());
        assert!(said.get() >= 3);
    }
}
