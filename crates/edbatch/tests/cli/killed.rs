//! Commands that are killed at any moment: what they write is there whole or not at all, and the
//! next run removes what they left beside it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use edbatch_testing::{kill_on_the_way, names};

use crate::support::{MODELS, Scratch};

/// How often each command is killed.
const TIMES: usize = 24;

fn start(scratch: &Scratch, words: &[&str]) -> Child {
    scratch.command(words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Kills a command that writes a file or a folder of this name and nothing else, and runs it once
/// more to its end.
fn leaves_nothing_half(scratch: &Scratch, words: &[&str], output: &str) {
    let mut expected = [scratch.names(), vec![output.into()]].concat();
    expected.sort();
    let path = scratch.path(output);
    let mut whole = None;
    let start = |_| {
        let _ = fs::remove_file(&path);
        let _ = fs::remove_dir_all(&path);
        start(scratch, words)
    };
    kill_on_the_way(TIMES, start, |time| {
        let found = contents(&path);
        if time == 0 {
            assert_ne!(found, None);
            whole = found;
        } else {
            assert!(found.is_none() || found == whole, "{output} is there and not whole");
        }
        // Whatever earlier ones have left, this one has removed, unless it ended before it began.
        let left = scratch.names().into_iter().filter(|name| name.ends_with(".partial")).count();
        assert!(left <= 2, "{:?}", scratch.names());
    });
    let _ = fs::remove_dir_all(&path);
    scratch.ok(words);
    assert!(contents(&path) == whole, "{output}");
    assert_eq!(scratch.names(), expected, "nothing is left beside what is written");
}

/// What is in a file, or in those of a folder.
fn contents(path: &Path) -> Option<BTreeMap<PathBuf, Vec<u8>>> {
    let read = |file: PathBuf| Some((file.clone(), fs::read(file).ok()?));
    match path.is_dir() {
        true => names(path).into_iter().map(|name| read(path.join(name))).collect(),
        false => read(path.into()).map(|file| BTreeMap::from([file])),
    }
}

#[test]
#[cfg(unix)]
fn init_leaves_nothing_half() {
    let scratch = Scratch::new("killed-init");
    scratch.write("train.txt", MODELS[0].2);
    let words = ["init", "tree_lstm", "@made", "--hidden", "256", "--input", "@train.txt"];
    leaves_nothing_half(&scratch, &words, "made");
}

#[test]
#[cfg(unix)]
fn infer_leaves_nothing_half() {
    let scratch = Scratch::new("killed-infer");
    scratch.init("tree_lstm");
    scratch.write("many.txt", MODELS[0].2.repeat(400));
    let words = ["infer", "@model", "--input", "@many.txt", "--output", "@out"];
    leaves_nothing_half(&scratch, &words, "out");
    // A trace has other bytes each time: it is there whole, or it is not.
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
fn learn_leaves_nothing_half() {
    let scratch = Scratch::new("killed-learn");
    scratch.init("lattice_lstm");
    let words = ["learn", "@model", "--output", "@policy.json", "--batch", "1", "--method", "q"];
    leaves_nothing_half(&scratch, &words, "policy.json");
}
