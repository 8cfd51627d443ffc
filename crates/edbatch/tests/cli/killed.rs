//! Commands that are killed at any moment: what they write is there whole or not at all, and the
//! next run removes what they left beside it.

use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use crate::support::{MODELS, Scratch};

/// How often each command is killed.
const TIMES: usize = 24;

/// How a process is told to end: so that it can do nothing about it, and as by a shell.
const SIGNALS: [&str; 2] = ["-KILL", "-TERM"];

/// Runs a command to its end and notes what it writes; kills it at random moments, some after its
/// end; and runs it once more. `outputs` are all files that it writes.
fn kill_and_run_again(scratch: &Scratch, words: &[&str], outputs: &[&str]) {
    let before = names(scratch);
    let started = Instant::now();
    scratch.ok(words);
    let took = started.elapsed();
    let whole: Vec<_> = outputs.iter().map(|name| fs::read(scratch.path(name)).unwrap()).collect();
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
    let mut interrupted = 0;
    for time in 0..TIMES {
        outputs.iter().for_each(|name| drop(fs::remove_file(scratch.path(name))));
        let mut command = Command::new(env!("CARGO_BIN_EXE_edbatch"));
        let words = words.iter().map(|word| word.strip_prefix('@').unwrap_or(word));
        let command = command.args(words).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.current_dir(&scratch.0).spawn().unwrap();
        thread::sleep(took.mul_f64(rng.random_range(0.0..1.1)).min(Duration::from_secs(20)));
        let id = child.id().to_string();
        let _ = Command::new("kill").args([SIGNALS[time % 2], &id]).stderr(Stdio::null()).status();
        interrupted += usize::from(!child.wait().unwrap().success());
        for (name, whole) in outputs.iter().zip(&whole) {
            if let Ok(text) = fs::read(scratch.path(name)) {
                assert!(text == *whole, "{name} is there and not whole");
            }
        }
        // Whatever earlier ones have left, this one has removed, unless it ended before it began.
        let left = names(scratch).into_iter().filter(|name| name.ends_with(".partial")).count();
        assert!(left <= 2 * outputs.len(), "{:?}", names(scratch));
    }
    assert!(interrupted > 0, "none of {TIMES} was killed before its end");
    scratch.ok(words);
    for (name, whole) in outputs.iter().zip(&whole) {
        assert!(fs::read(scratch.path(name)).unwrap() == *whole, "{name}");
    }
    let mut expected = [before, outputs.iter().map(|name| name.to_string()).collect()].concat();
    expected.sort();
    assert_eq!(names(scratch), expected, "nothing is left beside what is written");
}

fn names(scratch: &Scratch) -> Vec<String> {
    let entries = fs::read_dir(&scratch.0).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
#[cfg(unix)]
fn init_leaves_nothing_half() {
    let scratch = Scratch::new("killed-init");
    scratch.write("train.txt", MODELS[0].2);
    let words = ["init", "tree_lstm", "@made", "--hidden", "256", "--input", "@train.txt"];
    let make = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_edbatch"));
        let words = words.iter().map(|word| word.strip_prefix('@').unwrap_or(word));
        command.args(words).current_dir(&scratch.0).stdout(Stdio::null()).spawn().unwrap()
    };
    let started = Instant::now();
    assert!(make().wait().unwrap().success());
    let took = started.elapsed();
    let made = |name: &str| fs::read(scratch.path("made").join(name)).unwrap();
    let whole = ["config.json", "weights.safetensors"].map(made);
    let (mut rng, mut interrupted) = (Xoshiro256PlusPlus::seed_from_u64(7), 0);
    for time in 0..TIMES {
        let _ = fs::remove_dir_all(scratch.path("made"));
        let mut child = make();
        thread::sleep(took.mul_f64(rng.random_range(0.0..1.1)).min(Duration::from_secs(20)));
        let id = child.id().to_string();
        let _ = Command::new("kill").args([SIGNALS[time % 2], &id]).stderr(Stdio::null()).status();
        interrupted += usize::from(!child.wait().unwrap().success());
        if scratch.path("made").exists() {
            assert!(["config.json", "weights.safetensors"].map(made) == whole, "half a model");
        }
        let left = names(&scratch).into_iter().filter(|name| name.ends_with(".partial")).count();
        assert!(left <= 1, "{:?}", names(&scratch));
    }
    assert!(interrupted > 0, "none of {TIMES} was killed before its end");
    assert!(make().wait().unwrap().success());
    assert!(["config.json", "weights.safetensors"].map(made) == whole);
    assert_eq!(names(&scratch), ["made", "train.txt"], "nothing is left beside what is written");
}

#[test]
#[cfg(unix)]
fn infer_leaves_nothing_half() {
    let scratch = Scratch::new("killed-infer");
    scratch.init("tree_lstm");
    scratch.write("many.txt", MODELS[0].2.repeat(400));
    let words = ["infer", "@model", "--input", "@many.txt", "--output", "@out"];
    kill_and_run_again(&scratch, &words, &["out"]);
    // A trace has other bytes each time: it is there whole, or it is not.
    let words = [&words[..], &["--trace", "@trace"]].concat();
    for _ in 0..4 {
        let mut command = Command::new(env!("CARGO_BIN_EXE_edbatch"));
        let words = words.iter().map(|word| word.strip_prefix('@').unwrap_or(word));
        let mut child = command.args(words).current_dir(&scratch.0).spawn().unwrap();
        while !names(&scratch).iter().any(|name| name.starts_with(".trace.")) {
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
    assert!(
        !names(&scratch).iter().any(|name| name.ends_with(".partial")),
        "{:?}",
        names(&scratch)
    );
}

#[test]
#[cfg(unix)]
fn learn_leaves_nothing_half() {
    let scratch = Scratch::new("killed-learn");
    scratch.init("lattice_lstm");
    let words = ["learn", "@model", "--output", "@policy.json", "--batch", "1", "--method", "q"];
    kill_and_run_again(&scratch, &words, &["policy.json"]);
}
