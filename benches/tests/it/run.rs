//! Runs of the benchmark, with their files in a temporary folder.

use std::path::PathBuf;
use std::process::{Command, Output};

use tempfile::TempDir;

/// A folder for the records and the page of runs.
pub(crate) struct Run {
    folder: TempDir,
    pub(crate) json: PathBuf,
    pub(crate) html: PathBuf,
}

impl Run {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let [json, html] = ["records.jsonl", "page.html"].map(|name| folder.path().join(name));
        Self { folder, json, html }
    }

    pub(crate) fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    /// Returns the command with options and the paths of both files.
    pub(crate) fn command(&self, options: &[&[&str]]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_edbatch-benches"));
        command.args(options.concat()).arg("--json").arg(&self.json).arg("--html").arg(&self.html);
        command
    }

    /// Runs the command. Returns the exit code, the output and the messages.
    pub(crate) fn run(&self, options: &[&[&str]]) -> (Option<i32>, String, String) {
        outcome(self.command(options).output().unwrap())
    }

    /// Runs the command, which must succeed. Returns its output.
    pub(crate) fn ok(&self, options: &[&[&str]]) -> String {
        let (code, output, message) = self.run(options);
        assert_eq!(code, Some(0), "{message}{output}");
        output
    }
}

/// Returns the exit code, the output and the messages of a process.
pub(crate) fn outcome(output: Output) -> (Option<i32>, String, String) {
    let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    (output.status.code(), out, err)
}
