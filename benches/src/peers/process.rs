//! A peer's process, and the folder that it reads.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde::Deserialize;

use super::program::Program;
use crate::rounds::Entrant;
use crate::workload::Failure;

/// A peer that waits for mini-batches to run.
pub(super) struct Process {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
    program: Program,
    pub(super) version: String,
    /// The seconds of all turns, and those in which Python prepared what they ran.
    pub(super) computing: f64,
    pub(super) preparing: f64,
}

impl Process {
    pub(super) fn start(program: Program, folder: &Path) -> Result<Self, Failure> {
        let mut command = program.command(folder);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let to = child.stdin.take();
        let from = BufReader::new(child.stdout.take().expect("it is piped"));
        let version = String::new();
        let mut process =
            Self { child, to, from, program, version, computing: 0.0, preparing: 0.0 };
        #[derive(Deserialize)]
        struct Hello {
            version: String,
        }
        let hello: Hello = serde_json::from_str(&process.line()?)?;
        process.version = hello.version;
        Ok(process)
    }

    fn line(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        match self.from.read_line(&mut line)? {
            0 => {
                let name = self.program.name();
                Err(format!("{name}: the program ended; what it said stands above").into())
            }
            _ => Ok(line),
        }
    }
}

impl Entrant for Process {
    fn turn(
        &mut self,
        mini_batches: &[usize],
        each: &mut dyn FnMut(usize, f64),
    ) -> Result<(), Failure> {
        let numbers: Vec<String> = mini_batches.iter().map(usize::to_string).collect();
        let to = self.to.as_mut().expect("it is open while the process lives");
        writeln!(to, "{}", numbers.join(" "))?;
        to.flush()?;
        let seconds: Vec<[f64; 2]> = serde_json::from_str(&self.line()?)?;
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
        // Its input has ended, so it would too: it is not waited for.
        self.to = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
