//! Skipped tests and checks, with the reasons, in the file that `EDBATCH_SKIPS` names.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

use crate::{Failure, root};

const VARIABLE: &str = "EDBATCH_SKIPS";

/// The file where each skipped test appends a line: its name, a tab, the reason.
pub(super) struct Skips {
    file: PathBuf,
}

impl Skips {
    /// Opens the file that the environment variable `EDBATCH_SKIPS` names, which may have entries
    /// of earlier tests. Without the variable, starts an empty file.
    pub(super) fn begin() -> Result<Self, Failure> {
        if let Some(file) = std::env::var_os(VARIABLE) {
            return Ok(Self { file: file.into() });
        }
        let file = root().join("target/skipped.tsv");
        fs::create_dir_all(root().join("target"))?;
        fs::write(&file, "")?;
        Ok(Self { file })
    }

    /// Makes the tests of a command append to the file.
    pub(super) fn collect_from(&self, command: &mut Command) {
        command.env(VARIABLE, &self.file);
    }

    /// Records a skipped check.
    pub(super) fn note(&self, check: &str, reason: &str) -> Result<(), Failure> {
        let mut file = OpenOptions::new().append(true).create(true).open(&self.file)?;
        Ok(writeln!(file, "cargo xtask ci, {check}\t{reason}")?)
    }

    /// Prints the skipped tests, each once even if it ran several times.
    pub(super) fn print(&self) -> Result<(), Failure> {
        let text = if self.file.exists() { fs::read_to_string(&self.file)? } else { String::new() };
        print!("{}", summary(&text));
        Ok(())
    }
}

fn summary(text: &str) -> String {
    let skipped: BTreeSet<&str> = text.lines().collect();
    let tests: BTreeSet<&str> =
        skipped.iter().map(|line| line.split('\t').next().unwrap_or(line)).collect();
    let mut summary = format!("\n== skipped: {}\n", tests.len());
    for line in skipped {
        let (test, reason) = line.split_once('\t').unwrap_or((line, "no reason given"));
        summary.push_str(&format!("{test}: {reason}\n"));
    }
    summary
}

#[cfg(test)]
mod tests {
    use super::summary;

    #[test]
    fn each_test_counts_once_and_shows_all_reasons() {
        assert_eq!(summary(""), "\n== skipped: 0\n");
        let text = "b it::x\tno data\na it::y\tno tool\nb it::x\tno data\nb it::x\tno other\n";
        let expected = "\n== skipped: 2\na it::y: no tool\nb it::x: no data\nb it::x: no other\n";
        assert_eq!(summary(text), expected);
    }
}
