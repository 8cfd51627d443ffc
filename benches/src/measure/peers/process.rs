//! The process of a peer.

use std::io::{BufRead, BufReader, Error, ErrorKind, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::Failure;
use crate::measure::peers::program::Program;
use crate::measure::rounds::Each;

/// A peer that waits for mini-batches.
pub(super) struct Process {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
    pub(super) program: Program,
    pub(super) version: String,
}

/// The answer to a request. A peer skips it if preparing takes too long.
#[derive(Deserialize)]
#[serde(untagged)]
enum Answer<T> {
    Skipped { skipped: String },
    Given(T),
}

/// The first line that a peer prints.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Greeting {
    Version(String),
    /// A reason why the peer cannot run the model.
    Skipped(String),
}

impl Process {
    /// Starts a command of a program. If it cannot run the model, prints and returns the reason.
    pub(super) fn start(
        program: Program,
        mut command: Command,
    ) -> Result<Result<Self, String>, Failure> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let to = child.stdin.take();
        let from = BufReader::new(child.stdout.take().expect("it is piped"));
        let version = String::new();
        let mut process = Self { child, to, from, program, version };
        match serde_json::from_str(&process.line()?)? {
            Greeting::Version(version) => {
                process.version = version;
                Ok(Ok(process))
            }
            Greeting::Skipped(reason) => {
                eprintln!("{}: {reason}; skipped", program.name());
                Ok(Err(reason))
            }
        }
    }

    fn line(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        match self.from.read_line(&mut line)? {
            0 => {
                let name = self.program.name();
                Err(format!("{name}: the program ended; see its messages above").into())
            }
            _ => Ok(line),
        }
    }

    fn ask<T: DeserializeOwned>(
        &mut self,
        message: &(usize, &[usize], bool),
    ) -> Result<T, Failure> {
        let to = self.to.as_mut().expect("it is open while the process lives");
        writeln!(to, "{}", serde_json::to_string(message)?)?;
        to.flush()?;
        match serde_json::from_str(&self.line()?)? {
            Answer::Given(answer) => Ok(answer),
            Answer::Skipped { skipped } => Err(Error::new(ErrorKind::TimedOut, skipped).into()),
        }
    }

    /// Makes the peer write the results of mini-batches, each merged from `merged` of the smallest
    /// size. Returns the name of the peer's way to run this size.
    pub(super) fn keep(&mut self, merged: usize, numbers: &[usize]) -> Result<String, Failure> {
        self.ask(&(merged, numbers, true))
    }

    /// Runs mini-batches, each merged from `merged` of the smallest size. Reports their seconds.
    /// Returns the seconds of all, and those in which Python prepared their inputs before.
    pub(super) fn turn(
        &mut self,
        merged: usize,
        mini_batches: &[usize],
        each: &mut Each<'_>,
    ) -> Result<[f64; 2], Failure> {
        let seconds: Vec<[f64; 2]> = self.ask(&(merged, mini_batches, false))?;
        let mut all = [0.0; 2];
        for (&index, [computing, preparing]) in mini_batches.iter().zip(seconds) {
            all = [all[0] + computing, all[1] + preparing];
            each(index, computing);
        }
        Ok(all)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Closing the input would end the process too, but only after its current mini-batches.
        self.to = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
