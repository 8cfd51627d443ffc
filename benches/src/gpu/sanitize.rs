//! compute-sanitizer's tools on a small run of this program, by both drivers.

use std::fs;
use std::process::Command;

use super::record::{Outcome, Record, parse};
use super::run::{Context, Ended, Findings, run_until};
use crate::files::Scratch;
use crate::workload::Failure;

/// racecheck sees shared memory alone.
const TOOLS: [&str; 4] = ["memcheck", "initcheck", "synccheck", "racecheck"];

/// What the tool exits with if it has found something.
const FOUND: i32 = 86;

/// What is run below a tool: small models with matrices, trees and lattices.
const RUN: [&str; 8] = [
    "--only",
    "verify",
    "--networks",
    "1",
    "--models",
    "tree_lstm,lattice_gru,mv_rnn",
    "--minutes",
    "2",
];

pub(super) fn run(context: &Context<'_>, found: &mut Findings<'_>) -> Result<(), Failure> {
    if context.target.is_rehearsal() {
        found.skipped("sanitize", "it is for devices; for the host: cargo xtask ci --long");
        return Ok(());
    }
    let mut version = Command::new("compute-sanitizer");
    version.arg("--version");
    if run_until(version, found.until()).is_err() {
        found.skipped("sanitize", "there is no compute-sanitizer: it comes with the CUDA toolkit");
        return Ok(());
    }
    let folder = Scratch::new("sanitize")?;
    let records = folder.path().join("gpu.json");
    for driver in ["waves", "teams"] {
        for tool in TOOLS {
            if found.is_over() {
                found.stopped(&format!("before {tool}, {driver}"));
                return Ok(());
            }
            let mut command = Command::new("compute-sanitizer");
            command.args(["--tool", tool, "--error-exitcode", &FOUND.to_string()]);
            command.arg(&context.files.program).args(RUN).arg("--json").arg(&records);
            // Of both drivers that are verified, this one alone.
            command.env("EDBATCH_CUDA", driver);
            // Not those of the tool before.
            let _ = fs::remove_file(&records);
            let Ended { status, said } = run_until(command, found.until())?;
            let what = format!("{tool}, {driver}");
            match status.map(|status| status.code()) {
                None => found.stopped(&format!("in {what}")),
                Some(Some(0)) => match not_verified(&fs::read_to_string(&records)?)? {
                    None => found.passed(&what, "nothing found"),
                    Some(why) => found.skipped(&what, &format!("not all of it was run: {why}")),
                },
                Some(code) => found.failed(&what, &first_finding(&said, code)),
            }
        }
    }
    Ok(())
}

/// Why a run below a tool says nothing, if it does not say that all is well.
fn not_verified(records: &str) -> Result<Option<String>, Failure> {
    let records = parse(records)?;
    let left_out = |record: &&Record| record.outcome != Outcome::Passed;
    Ok(match records.iter().find(left_out) {
        Some(record) => Some(format!("{}: {}", record.what, record.note)),
        None if records.is_empty() => Some("no record was written".into()),
        None => None,
    })
}

/// What the tool says first, or how it ended.
fn first_finding(said: &str, code: Option<i32>) -> String {
    let lines = || said.lines().map(|line| line.trim_start_matches('=').trim());
    let finding = lines().find(|line| {
        let line = line.to_lowercase();
        ["invalid", "uninitialized", "hazard", "race", "barrier", "error"]
            .iter()
            .any(|word| line.contains(word))
    });
    let finding = finding.or(lines().rfind(|line| !line.is_empty())).unwrap_or_default();
    format!("exit code {}: {finding}", code.map_or("none".into(), |code| code.to_string()))
}

#[cfg(test)]
mod tests {
    use super::{first_finding, not_verified};
    use crate::gpu::record::{MeasuredOn, Outcome, Part, Record};

    #[test]
    fn a_tool_below_which_nothing_was_verified_has_found_nothing() {
        let record = |outcome, note: &str| {
            let record = Record {
                part: Part::Verify,
                what: "tree_lstm".into(),
                outcome,
                figure: None,
                same_bits: None,
                predicted: None,
                ratio: None,
                note: note.into(),
                on: MeasuredOn::default(),
            };
            serde_json::to_string(&record).unwrap() + "\n"
        };
        let (passed, stopped) = (record(Outcome::Passed, ""), record(Outcome::Stopped, "before"));
        assert_eq!(not_verified(&passed).unwrap(), None);
        let why = not_verified(&(passed + &stopped)).unwrap();
        assert_eq!(why.as_deref(), Some("tree_lstm: before"));
        assert_eq!(not_verified("").unwrap().as_deref(), Some("no record was written"));
        assert!(not_verified("no JSON").is_err());
    }

    #[test]
    fn the_first_finding_is_told() {
        let said = "========= COMPUTE-SANITIZER\n========= Invalid __global__ read of size 4\n\
                    =========     at wave_kernel\n========= ERROR SUMMARY: 1 error\n";
        assert_eq!(
            first_finding(said, Some(86)),
            "exit code 86: Invalid __global__ read of size 4"
        );
        assert_eq!(
            first_finding("Device not supported\n", None),
            "exit code none: Device not supported"
        );
    }
}
