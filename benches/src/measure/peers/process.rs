//! The process of a peer.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde::Deserialize;

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
    /// Seconds of all turns, and seconds in which Python prepared their inputs.
    pub(super) computing: f64,
    pub(super) preparing: f64,
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
    /// Starts a command of a program. Prints the reason if it cannot run the model.
    pub(super) fn start(program: Program, mut command: Command) -> Result<Option<Self>, Failure> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let to = child.stdin.take();
        let from = BufReader::new(child.stdout.take().expect("it is piped"));
        let version = String::new();
        let mut process =
            Self { child, to, from, program, version, computing: 0.0, preparing: 0.0 };
        match serde_json::from_str(&process.line()?)? {
            Greeting::Version(version) => {
                process.version = version;
                Ok(Some(process))
            }
            Greeting::Skipped(reason) => {
                eprintln!("{}: {reason}; skipped", program.name());
                Ok(None)
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

    fn ask(&mut self, message: &(usize, &[usize], bool)) -> Result<String, Failure> {
        let to = self.to.as_mut().expect("it is open while the process lives");
        writeln!(to, "{}", serde_json::to_string(message)?)?;
        to.flush()?;
        self.line()
    }

    /// Makes the peer write the results of mini-batches, each merged from `merged` of the smallest
    /// size, and resets the seconds. Returns the name of the peer's way to run this size.
    pub(super) fn keep(&mut self, merged: usize, numbers: &[usize]) -> Result<String, Failure> {
        (self.computing, self.preparing) = (0.0, 0.0);
        Ok(serde_json::from_str(&self.ask(&(merged, numbers, true))?)?)
    }

    /// Runs mini-batches, each merged from `merged` of the smallest size. Reports their seconds.
    pub(super) fn turn(
        &mut self,
        merged: usize,
        mini_batches: &[usize],
        each: &mut Each<'_>,
    ) -> Result<(), Failure> {
        let line = self.ask(&(merged, mini_batches, false))?;
        let seconds: Vec<[f64; 2]> = serde_json::from_str(&line)?;
        for (&index, [computing, preparing]) in mini_batches.iter().zip(seconds) {
            self.computing += computing;
            self.preparing += preparing;
            each(index, computing);
        }
        Ok(())
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
