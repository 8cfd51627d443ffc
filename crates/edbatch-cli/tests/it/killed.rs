//! Commands killed at any moment: output files are complete or absent, and the next run removes
//! leftovers.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use edbatch_testing::{kill_repeatedly, names};

use crate::support::{MODELS, Scratch};

/// The number of times that each command is killed.
const TIMES: usize = 24;

fn start(scratch: &Scratch, words: &[&str]) -> Child {
    scratch.command(words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Kills a command that writes only the file or folder `output`, and finally runs it to its end.
/// Checks that `output` is complete or absent.
fn check_killed(scratch: &Scratch, words: &[&str], output: &str) {
    let mut expected = [scratch.names(), vec![output.into()]].concat();
    expected.sort();
    let path = scratch.path(output);
    let mut whole = None;
    let start = |_| {
        let _ = fs::remove_file(&path);
        let _ = fs::remove_dir_all(&path);
        start(scratch, words)
    };
    kill_repeatedly(TIMES, start, |time| {
        let found = contents(&path);
        if time == 0 {
            assert_ne!(found, None);
            whole = found;
        } else {
            assert!(found.is_none() || found == whole, "{output} is incomplete");
        }
        // Each run removes earlier leftovers, unless it is killed before it starts writing.
        let left = scratch.names().into_iter().filter(|name| name.ends_with(".partial")).count();
        assert!(left <= 2, "{:?}", scratch.names());
    });
    let _ = fs::remove_dir_all(&path);
    scratch.ok(words);
    assert!(contents(&path) == whole, "{output}");
    assert_eq!(scratch.names(), expected, "no leftovers");
}

/// Returns the contents of a file, or of the files in a folder.
fn contents(path: &Path) -> Option<BTreeMap<PathBuf, Vec<u8>>> {
    let read = |file: PathBuf| Some((file.clone(), fs::read(file).ok()?));
    match path.is_dir() {
        true => names(path).into_iter().map(|name| read(path.join(name))).collect(),
        false => read(path.into()).map(|file| BTreeMap::from([file])),
    }
}

#[test]
#[cfg(unix)]
fn killed_init_leaves_no_incomplete_folder() {
    let scratch = Scratch::new("killed-init");
    scratch.write("train.txt", MODELS[0].2);
    let words = ["init", "tree_lstm", "@made", "--hidden", "256", "--input", "@train.txt"];
    check_killed(&scratch, &words, "made");
}

#[test]
#[cfg(unix)]
fn killed_infer_leaves_no_incomplete_file() {
    let scratch = Scratch::new("killed-infer");
    scratch.init("tree_lstm");
    scratch.write("many.txt", MODELS[0].2.repeat(400));
    let words = ["infer", "@model", "--input", "@many.txt", "--output", "@out"];
    check_killed(&scratch, &words, "out");
    // A trace differs from run to run; check that it is complete JSON or absent.
    let words = [&words[..], &["--trace", "@trace"]].concat();
    for _ in 0..4 {
        let mut child = start(&scratch, &words);
        while !scratch.names().iter().any(|name| name.starts_with(".trace.")) {
            thread::sleep(Duration::from_millis(1));
            if child.try_wait().unwrap().is_some() {
                break;
            }
        }
        let _ = child.kill();
        child.wait().unwrap();
        if let Ok(text) = fs::read(scratch.path("trace")) {
            serde_json::from_slice::<serde_json::Value>(&text).unwrap();
        }
    }
    scratch.ok(&words);
    let names = scratch.names();
    assert!(!names.iter().any(|name| name.ends_with(".partial")), "{names:?}");
}

#[test]
#[cfg(unix)]
fn killed_learn_leaves_no_incomplete_file() {
    let scratch = Scratch::new("killed-learn");
    scratch.init("lattice_lstm");
    let words = ["learn", "@model", "--output", "@policy.json", "--batch", "1", "--method", "q"];
    check_killed(&scratch, &words, "policy.json");
}
