//! The folder that `edbatch train` trains: checks before the first update, locks, and the runs that
//! may go on.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{MODELS, Scratch};
use crate::train::{CHECKPOINT, WEIGHTS, trees, with};

/// A run that trains the model in its own folder.
const HERE: [&str; 6] = ["train", "@model", "--input", "@trees.txt", "--valid", "@trees.txt"];

/// Starts a command.
fn start(scratch: &Scratch, words: &[&str]) -> Child {
    scratch.command(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits until something holds. Fails after a minute, or if the process ends.
fn wait<T>(child: &mut Child, mut holds: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(value) = holds() {
            return value;
        }
        assert!(child.try_wait().unwrap().is_none(), "the process has ended");
        assert!(started.elapsed() < Duration::from_secs(60), "timeout");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Starts a run that reads its `--test` from a pipe. Returns when it reads it.
fn start_at_pipe(scratch: &Scratch, words: &[&str]) -> (Child, fs::File) {
    let pipe = scratch.path("pipe");
    let _ = fs::remove_file(&pipe);
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut child = start(scratch, &with(words, &["--test", "@pipe"]));
    // A pipe can be opened for writing without waiting once it is read.
    const O_NONBLOCK: i32 = 0o4000;
    let open = || fs::File::options().write(true).custom_flags(O_NONBLOCK).open(&pipe).ok();
    let open = wait(&mut child, open);
    (child, open)
}

#[test]
fn examples_that_count_nothing_are_refused_before_the_first_update() {
    let scratch = trees("late-valid");
    scratch.write("none.txt", "(_ (_ a) (_ b))\n");
    scratch.write("no-root.txt", "(_ (1 a) (_ b))\n");
    scratch.ok(&with(&HERE, &["--epochs", "1"]));
    let before = [WEIGHTS, CHECKPOINT].map(|name| scratch.bytes(format!("model/{name}")));
    let refused = |words: &[&str], expected: &str| {
        let output = scratch.run(words);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{words:?}: {error}");
        assert!(error.contains(expected) && output.stdout.is_empty(), "{words:?}: {error}");
        assert!(!scratch.path("trained").exists());
        let after = [WEIGHTS, CHECKPOINT].map(|name| scratch.bytes(format!("model/{name}")));
        assert!(after == before && scratch.path("model").read_dir().unwrap().count() == 4);
    };
    for output in [&[][..], &["--output", "@trained"]] {
        let refused = |more: &[&str], expected: &str| {
            refused(&[&HERE[..4], output, more].concat(), expected);
        };
        refused(&["--valid", "@none.txt"], "none.txt: expected targets, got none");
        refused(
            &["--valid", "@absent.txt"],
            "absent.txt: expected a readable file, got: No such file",
        );
        let valid = ["--valid", "@trees.txt"];
        refused(&with(&valid, &["--test", "@none.txt"]), "none.txt: expected targets, got none");
        let metric = ["--metric", "root", "--valid", "@no-root.txt"];
        let expected = "no-root.txt: expected targets of the last row of an input, got none";
        refused(&metric, expected);
    }
    let words = ["evaluate", "@model", "--input", "@no-root.txt", "--metric", "root"];
    assert!(scratch.error(&words).contains("targets of the last row of an input, got none"));
    scratch.ok(&with(&HERE[..4], &["--valid", "@no-root.txt", "--metric", "accuracy"]));

    let tagger = Scratch::new("late-valid-tagger");
    tagger.write("tagged.txt", "a|B-X b|I-X c|O\n");
    tagger.write("outside.txt", "a|O b\n");
    tagger.ok(&["init", "bilstm_tagger", "@model", "--hidden", "4", "--input", "@tagged.txt"]);
    let train = ["train", "@model", "--metric", "f1", "--input", "@tagged.txt", "--valid"];
    let expected = "outside.txt: expected tags such as B-PER and I-PER, got none";
    let evaluate = ["evaluate", "@model", "--metric", "f1", "--input", "@outside.txt"];
    for words in [
        with(&train, &["@outside.txt"]),
        with(&train, &["@tagged.txt", "--test", "@outside.txt"]),
        evaluate.to_vec(),
    ] {
        let error = tagger.error(&words);
        assert!(error.contains(expected), "{error}");
    }
    assert!(!tagger.path("model").join(CHECKPOINT).exists());
}

#[test]
fn a_log_may_lie_in_the_new_folder() {
    let scratch = trees("log-new-folder");
    for is_there in [false, true] {
        let _ = fs::remove_dir_all(scratch.path("new"));
        if is_there {
            fs::create_dir(scratch.path("new")).unwrap();
        }
        let words = with(&HERE, &["--output", "@new", "--log", "@new/log.jsonl"]);
        scratch.ok(&with(&words, &["--epochs", "2"]));
        assert_eq!(scratch.text("new/log.jsonl").lines().count(), 2);
        scratch.ok(&with(&words, &["--epochs", "3", "--resume"]));
        assert_eq!(scratch.text("new/log.jsonl").lines().count(), 3);
        let names = edbatch_testing::names(&scratch.path("new"));
        let expected = [CHECKPOINT, "config.json", "log.jsonl", "vocab.txt", WEIGHTS];
        assert_eq!(names, expected);
    }
    let absent = with(&HERE, &["--output", "@other", "--log", "@other/logs/log.jsonl"]);
    let error = scratch.error(&absent);
    assert!(error.contains("other/logs/log.jsonl: cannot be written"), "{error}");
    assert!(!scratch.path("other").exists());
}

#[test]
fn the_rate_in_the_log_is_the_one_at_the_start_of_the_epoch() {
    let scratch = trees("rate-log");
    scratch.write("many.txt", MODELS[0].2.repeat(40));
    let words = ["train", "@model", "--input", "@many.txt", "--valid", "@trees.txt"];
    let more = ["--epochs", "2", "--batch", "2", "--warmup", "250", "--checkpoint-every", "1"];
    let words = [&words[..], &more, &["--threads", "1", "--schedule", "step:1:0.5"]].concat();
    let rates = |output: &str, log: &str, more: &[&str]| -> (Vec<f64>, String) {
        let words = [&words[..], &["--output", output, "--log", log], more].concat();
        let message = scratch.notice(&words);
        let text = scratch.text(&log[1..]);
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        (lines.map(|line| line["rate"].as_f64().unwrap()).collect(), message)
    };
    let (expected, _) = rates("@whole", "@whole.jsonl", &[]);
    assert_eq!(expected[0], 0.001 / 250.0);
    let mut run =
        start(&scratch, &[&words[..], &["--output", "@cut", "--log", "@cut.jsonl"]].concat());
    let checkpoint = scratch.path("cut").join(CHECKPOINT);
    let mut seen = Vec::new();
    wait(&mut run, || {
        seen.extend(fs::metadata(&checkpoint).map(|file| file.mtime_nsec()));
        seen.dedup();
        (seen.len() > 8).then_some(())
    });
    run.kill().unwrap();
    run.wait().unwrap();
    let (got, message) = rates("@cut", "@cut.jsonl", &["--resume"]);
    assert!(!message.contains("after 0 mini-batches"), "{message}");
    assert_eq!(got, expected, "{message}");
    assert!(scratch.bytes("cut/weights.safetensors") == scratch.bytes("whole/weights.safetensors"));
}

#[test]
fn a_second_run_that_is_killed_at_its_start_is_not_resumed_as_the_first() {
    let scratch = trees("second-run");
    let words = with(&HERE, &["--epochs", "3", "--threads", "1"]);
    scratch.ok(&words);
    let first = scratch.bytes("model/weights.safetensors");
    let names = || edbatch_testing::names(&scratch.path("model"));
    let all = names();
    let (mut second, _pipe) = start_at_pipe(&scratch, &words);
    second.kill().unwrap();
    assert!(second.wait_with_output().unwrap().stdout.is_empty());
    let message = scratch.notice(&with(&words, &["--resume"]));
    assert!(message.contains("no checkpoint in "), "{message}");
    let got = scratch.bytes("model/weights.safetensors");
    // Nothing is left over, and the second run was not interrupted here.
    assert_eq!(names(), all);
    scratch.write("model/weights.safetensors", &first);
    scratch.ok(&words);
    assert!(got != first && got == scratch.bytes("model/weights.safetensors"));
}

#[test]
fn two_runs_do_not_train_one_folder() {
    let scratch = trees("two-runs");
    let words = with(&HERE, &["--epochs", "2", "--threads", "1"]);
    let refused = |more: &[&str], folder: &str| {
        let words = [&["train", more[0]], &words[2..], &more[1..]].concat();
        let error = scratch.error(&words);
        let expected = "another run of edbatch train is training this folder: wait until it ends";
        assert!(error.contains(&format!("{folder}: {expected}")), "{error}");
    };
    let (first, mut pipe) = start_at_pipe(&scratch, &words);
    std::os::unix::fs::symlink("model", scratch.path("link")).unwrap();
    refused(&["@model"], "model");
    refused(&["@link", "--resume"], "link");
    refused(&["@model", "--output", "@model", "--resume"], "model");
    let init = ["init", "tree_lstm", "@model", "--hidden", "4", "--input", "@trees.txt"];
    assert!(scratch.error(&init).contains("is training this folder"));
    // The model may be read.
    scratch.ok(&["infer", "@model", "--output", "@out"]);
    scratch.ok(&with(&words, &["--output", "@copy"]));
    pipe.write_all(&scratch.bytes("trees.txt")).unwrap();
    drop(pipe);
    let output = first.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    scratch.ok(&with(&words, &["--resume"]));

    // The same for a new folder.
    let output = ["--epochs", "1000000", "--output", "@trained"];
    let mut long = start(&scratch, &with(&HERE, &output));
    let checkpoint = scratch.path("trained").join(CHECKPOINT);
    wait(&mut long, || checkpoint.exists().then_some(()));
    refused(&["@trained"], "trained");
    refused(&["@model", "--output", "@trained", "--resume"], "trained");
    long.kill().unwrap();
    long.wait().unwrap();
    scratch.ok(&["infer", "@trained", "--output", "@out"]);
    scratch.ok(&["train", "@trained", "--input", "@trees.txt", "--valid", "@trees.txt"]);
}
