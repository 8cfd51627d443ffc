//! Runs that are killed: the page is whole or not there, the records can be gone on with.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use edbatch_benches::journal::read;
use edbatch_testing::{kill_repeatedly, names};

/// How often a run is killed.
const TIMES: usize = 12;

fn start(folder: &Path, more: &[&str]) -> Child {
    let [json, html] = ["records.jsonl", "page.html"].map(|name| folder.join(name));
    let _ = fs::remove_file(&html);
    Command::new(env!("CARGO_BIN_EXE_edbatch-benches"))
        .args(["--only", "cells,counts", "--quick", "--models", "tree_gru", "--batch", "1"])
        .args(["--json", json.to_str().unwrap(), "--html", html.to_str().unwrap()])
        .args(more)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
#[cfg(unix)]
fn runs_that_are_killed_leave_nothing_half() {
    let folder = std::env::temp_dir().join(format!("edbatch-killed-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let mut records = 0;
    // By each signal, some begin and some go on with what the one before has left.
    let start_or_resume = |time| start(&folder, if time % 4 < 2 { &[] } else { &["--resume"] });
    kill_repeatedly(TIMES, start_or_resume, |time| {
        // Steps are there wholly or not at all.
        let left = read(&folder.join("records.jsonl")).map_or(0, |records| records.len());
        if time == 0 {
            records = left;
        }
        assert!(left <= records, "{left} of {records}");
        if let Ok(page) = fs::read_to_string(folder.join("page.html")) {
            assert!(page.ends_with("</html>\n"), "a page that is there is whole");
        }
    });
    assert!(start(&folder, &["--resume"]).wait().unwrap().success());
    assert_eq!(read(&folder.join("records.jsonl")).unwrap().len(), records);
    assert_eq!(names(&folder), ["page.html", "records.jsonl"]);
    fs::remove_dir_all(&folder).unwrap();
}
