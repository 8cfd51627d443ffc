//! The part `sanitize`: compute-sanitizer's tools on a small run.

use std::env::current_exe;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::Failure;
use crate::record::Figures;
use crate::record::finding::{Finding, Outcome};
use crate::record::journal::read;

/// The tools. racecheck sees only shared memory.
const TOOLS: [&str; 4] = ["memcheck", "initcheck", "synccheck", "racecheck"];

/// Exit code of a tool with findings.
const FOUND: i32 = 86;

/// Exit code of `timeout` if the time is over.
const TIMED_OUT: i32 = 124;

/// Options of the run: small models with matrices, trees and lattices.
const RUN: &str =
    "--gpu --only verify --networks 1 --models tree_lstm,lattice_gru,mv_rnn --minutes 2";

/// Runs all tools until a deadline.
pub(super) fn sanitize(
    until: Instant,
    mut progress: impl FnMut(&str),
) -> Result<Vec<Finding>, Failure> {
    let finding = |what: &str, outcome, note: String| Finding::new("sanitize", what, outcome, note);
    if Command::new("compute-sanitizer").arg("--version").output().is_err() {
        let note = "compute-sanitizer is missing; the CUDA toolkit contains it";
        return Ok(vec![finding("sanitize", Outcome::Skipped, note.into())]);
    }
    let folder = tempfile::tempdir()?;
    let [records, page] = ["gpu.json", "gpu.html"].map(|name| folder.path().join(name));
    let mut findings = Vec::new();
    for tool in TOOLS {
        let seconds = until.saturating_duration_since(Instant::now()).as_secs();
        if seconds == 0 {
            findings.push(finding(tool, Outcome::Stopped, "the time was over".into()));
            return Ok(findings);
        }
        progress(tool);
        // Kills the tool together with its children.
        let mut command = Command::new("timeout");
        command.args(["--kill-after=5", &seconds.to_string(), "compute-sanitizer"]);
        command.args(["--tool", tool, "--error-exitcode", &FOUND.to_string()]);
        command.arg(current_exe()?).args(RUN.split(' '));
        command.arg("--json").arg(&records).arg("--html").arg(&page);
        // Left by the previous tool.
        let _ = fs::remove_file(&records);
        let output = command.output()?;
        let (outcome, note) = match output.status.code() {
            Some(TIMED_OUT) => (Outcome::Stopped, "the time was over".into()),
            Some(0) => match not_verified(&records)? {
                None => (Outcome::Passed, "no error found".into()),
                Some(why) => (Outcome::Skipped, format!("the run was incomplete: {why}")),
            },
            code => {
                let said = String::from_utf8_lossy(&output.stdout);
                let last = said.lines().next_back().unwrap_or_default();
                (Outcome::Failed, format!("exit code {code:?}: {last}"))
            }
        };
        findings.push(finding(tool, outcome, note));
    }
    Ok(findings)
}

/// Describes the first check that did not pass, or says that none was made; else `None`.
fn not_verified(records: &Path) -> Result<Option<String>, Failure> {
    let records = read(records).map_err(|error| format!("records below the tool: {error}"))?;
    let findings = || {
        records.iter().filter_map(|record| match &record.figures {
            Figures::Device(finding) => Some(finding),
            _ => None,
        })
    };
    Ok(match findings().find(|finding| finding.outcome != Outcome::Passed) {
        Some(finding) => Some(finding.to_string()),
        None if findings().next().is_none() => Some("no record was written".into()),
        None => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Record;
    use crate::record::machine::Machine;

    #[test]
    fn only_a_run_whose_checks_all_passed_counts() {
        let record = |outcome| {
            let figures = Figures::Device(Finding::new("verify", "tree_lstm", outcome, "why"));
            let record = Record { figures, step: "verify".into(), machine: Machine::default() };
            serde_json::to_string(&record).unwrap() + "\n"
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("records");
        let why = |text: &str| {
            fs::write(&path, text).unwrap();
            not_verified(&path).map_err(|error| error.to_string())
        };
        let (passed, stopped) = (record(Outcome::Passed), record(Outcome::Stopped));
        assert_eq!(why(&passed), Ok(None));
        assert_eq!(why(&(passed + &stopped)), Ok(Some("stopped tree_lstm: why".into())));
        assert_eq!(why(""), Ok(Some("no record was written".into())));
        assert!(why("no JSON\n").is_err());
    }
}
