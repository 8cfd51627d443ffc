//! Runs that are killed: the page is whole or not there, the records can be gone on with.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use edbatch_benches::journal::read;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

/// How often a run is killed.
const TIMES: usize = 12;

fn start(folder: &Path, more: &[&str]) -> Child {
    let [json, html] = ["records.jsonl", "page.html"].map(|name| folder.join(name));
    Command::new(env!("CARGO_BIN_EXE_edbatch-benches"))
        .args(["--only", "cells,counts", "--quick", "--models", "tree_gru", "--batch", "1"])
        .args(["--json", json.to_str().unwrap(), "--html", html.to_str().unwrap()])
        .args(more)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
#[cfg(unix)]
fn runs_that_are_killed_leave_nothing_half() {
    let folder = std::env::temp_dir().join(format!("edbatch-killed-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let started = Instant::now();
    assert!(start(&folder, &[]).wait().unwrap().success());
    let took = started.elapsed();
    let records = read(&folder.join("records.jsonl")).unwrap().len();
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
    for time in 0..TIMES {
        let _ = fs::remove_file(folder.join("page.html"));
        // Every other one goes on with what the one before has left.
        let mut child = start(&folder, if time % 2 == 0 { &[] } else { &["--resume"] });
        thread::sleep(took.mul_f64(rng.random_range(0.0..1.1)).min(Duration::from_secs(20)));
        let signal = if time % 3 == 0 { "-TERM" } else { "-KILL" };
        let id = child.id().to_string();
        let _ = Command::new("kill").args([signal, &id]).stderr(Stdio::null()).status();
        child.wait().unwrap();
        if let Ok(page) = fs::read_to_string(folder.join("page.html")) {
            assert!(page.ends_with("</html>\n"), "a page that is there is whole");
        }
        // Steps are there wholly or not at all.
        let left = read(&folder.join("records.jsonl")).map_or(0, |records| records.len());
        assert!(left <= records, "{left} of {records}");
    }
    assert!(start(&folder, &["--resume"]).wait().unwrap().success());
    assert_eq!(read(&folder.join("records.jsonl")).unwrap().len(), records);
    assert_eq!(names(&folder), ["page.html", "records.jsonl"]);
    fs::remove_dir_all(&folder).unwrap();
}
