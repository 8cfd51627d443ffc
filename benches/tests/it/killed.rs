//! Killed runs: the page is complete or absent, and a run can be resumed.

use std::fs;
use std::process::{Child, Stdio};

use edbatch_benches::record::journal::read;
use edbatch_testing::{kill_repeatedly, names};

use crate::run::Run;

/// Number of runs that are killed.
const TIMES: usize = 12;

fn start(run: &Run, more: &[&str]) -> Child {
    let _ = fs::remove_file(&run.html);
    let short = ["--only", "cells,counts", "--quick", "--models", "tree_gru", "--batch", "1"];
    let mut command = run.command(&[&short, more]);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

#[test]
#[cfg(unix)]
fn killed_runs_leave_no_partial_output() {
    let run = Run::new();
    let mut records = 0;
    // Each signal kills new runs and resumed runs.
    let start_or_resume = |time| start(&run, if time % 4 < 2 { &[] } else { &["--resume"] });
    kill_repeatedly(TIMES, start_or_resume, |time| {
        // Steps are complete or absent.
        let left = read(&run.json).map_or(0, |records| records.len());
        if time == 0 {
            records = left;
        }
        assert!(left <= records, "{left} of {records}");
        if let Ok(page) = fs::read_to_string(&run.html) {
            assert!(page.ends_with("</html>\n"), "an existing page is complete");
        }
    });
    assert!(start(&run, &["--resume"]).wait().unwrap().success());
    assert_eq!(read(&run.json).unwrap().len(), records);
    assert_eq!(names(run.folder()), ["page.html", "records.jsonl"]);
}
