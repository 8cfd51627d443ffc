//! Checkpoints of `edbatch train`, and runs that go on from them.

use std::fs;
use std::process::Stdio;

use edbatch_datasets::fixtures::text;
use edbatch_testing::{kill_repeatedly, names};
use serde_json::Value;

use crate::train::{CHECKPOINT, TREES, WEIGHTS, log, trained, trees, with};

/// A run that is killed at any moment leaves a model that can be run, and goes on to the same
/// weights.
#[test]
#[cfg(unix)]
fn killed_runs_go_on_to_the_same_weights() {
    let scratch = trees("train-killed");
    scratch.write("many.txt", text::BINARY_TREES.repeat(20));
    let words = "train @model --input @many.txt --valid @trees.txt --output @trained --epochs 4 \
                 --log @log --checkpoint-every 3 --schedule plateau:0.5:0 \
                 --optimizer sgd:momentum=0.9 --threads 2";
    let words: Vec<&str> = words.split(' ').collect();
    let resume = [&words[..], &["--resume"]].concat();
    let without_times = |mut line: Value| {
        let line = line.as_object_mut().unwrap();
        line.remove("seconds");
        line.remove("instances_per_second");
        line.clone()
    };
    let lines = || log(&scratch, "log").into_iter().map(without_times).collect::<Vec<_>>();
    let mut whole = None;
    let start = |_| {
        let _ = fs::remove_dir_all(scratch.path("trained"));
        let _ = fs::remove_file(scratch.path("log"));
        let mut command = scratch.command(&words);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let (mut left, mut within_epochs) = (0, 0);
    kill_repeatedly(50, start, |time| {
        if time == 0 {
            whole = Some((trained(&scratch), lines()));
            return;
        }
        if scratch.path("trained").exists() {
            left += 1;
            scratch.ok(&["infer", "@trained", "--input", "@trees.txt", "--output", "@out"]);
        }
        let message = scratch.notice(&resume);
        within_epochs += usize::from(
            message.contains("goes on in epoch") && !message.contains(", after 0 mini-batches"),
        );
        assert!(whole == Some((trained(&scratch), lines())), "run {time}");
    });
    assert!(within_epochs > 0, "no run went on in the middle of an epoch");
    assert!(left > 10, "{left} of 50 runs were killed after they had begun");
    let names = names(&scratch.path("trained"));
    assert_eq!(names, [CHECKPOINT, "config.json", "vocab.txt", WEIGHTS]);
}

#[test]
fn runs_go_on_for_more_epochs_and_end_by_patience() {
    let scratch = trees("train-more");
    let run = |more: &[&'static str]| scratch.ok(&with(&TREES, more));
    run(&["--epochs", "4", "--log", "@all"]);
    let expected = trained(&scratch);
    fs::remove_dir_all(scratch.path("trained")).unwrap();
    // Without a checkpoint, --resume begins.
    let first = with(&TREES, &["--epochs", "1", "--resume", "--log", "@log"]);
    let message = scratch.notice(&first);
    assert!(message.contains("no checkpoint in ") && message.contains("trained: starts from"));
    run(&["--epochs", "3", "--resume", "--log", "@log"]);
    let text = run(&["--epochs", "4", "--resume", "--log", "@log", "--threads", "2"]);
    assert!(text.starts_with("epoch 4: loss "), "{text}");
    assert!(trained(&scratch) == expected);
    assert_eq!(log(&scratch, "log").len(), 4);
    let again = scratch.run(&with(&TREES, &["--epochs", "4", "--resume", "--log", "@log"]));
    assert_eq!(String::from_utf8(again.stdout).unwrap().lines().count(), 1);
    let message = String::from_utf8(again.stderr).unwrap();
    assert!(message.contains("the run has ended after 4 epochs; a larger --epochs"), "{message}");
    assert!(trained(&scratch) == expected && log(&scratch, "log").len() == 4);
    // A rate of 0 never gets better.
    let words = ["train", "@model", "--input", "@trees.txt", "--valid", "@trees.txt"];
    let options = ["--rate", "0", "--patience", "2", "--output", "@still"];
    let text = scratch.ok(&[&words[..], &options].concat());
    assert!(text.contains("\nstopped: no better loss in 2 epochs\nbest loss "), "{text}");
    assert_eq!(text.lines().count(), 5, "{text}");
    let [before, after] = ["model", "still"].map(|dir| fs::read(scratch.path(dir).join(WEIGHTS)));
    assert!(before.unwrap() == after.unwrap(), "a rate of 0 changes nothing");
}

#[test]
fn checkpoints_of_other_runs_are_refused_by_name() {
    let scratch = trees("train-others");
    scratch.ok(&with(&TREES, &["--epochs", "1"]));
    scratch.write("fewer.txt", text::BINARY_TREES.lines().next().unwrap());
    let before = trained(&scratch);
    let expect = |words: &[&str], expected: &str| {
        let error = scratch.error(&[words, &["--resume"]].concat());
        assert!(error.contains("trained/checkpoint.safetensors: ") && error.contains(expected));
        assert!(trained(&scratch) == before, "{error}");
    };
    expect(&with(&TREES, &["--seed", "1"]), "it has --seed 0, now --seed is 1");
    expect(&with(&TREES, &["--decay", "0.1"]), "--decay");
    expect(
        &with(&TREES, &["--optimizer", "sgd"]),
        "it has --optimizer adam, now --optimizer is sgd;",
    );
    expect(&with(&TREES, &["--group", "embed=0.5"]), "now --group is embed=0.5");
    let [batch, valid] = [("--batch", "4"), ("--valid", "@fewer.txt")].map(|(name, value)| {
        let mut words = TREES.clone();
        words[TREES.iter().position(|word| *word == name).unwrap() + 1] = value;
        words
    });
    expect(&batch, "it has --batch 3, now --batch is 4");
    expect(&valid, "fewer.txt have changed since the run");
    // Another model: the checkpoint is copied into its folder.
    scratch.ok(&["init", "tree_lstm", "@other", "--hidden", "4", "--input", "@trees.txt"]);
    let checkpoint = |dir: &str| scratch.path(dir).join(CHECKPOINT);
    fs::copy(checkpoint("trained"), checkpoint("other")).unwrap();
    let mut other = TREES.clone();
    (other[1], other[7]) = ("@other", "@other");
    let error = scratch.error(&[&other[..], &["--resume"]].concat());
    assert!(error.contains("the contents of config.json have changed"), "{error}");
    // Broken files.
    for bytes in [&b""[..], b"not safetensors", &before[0], &before[1][..before[1].len() - 1]] {
        fs::write(checkpoint("trained"), bytes).unwrap();
        let error = scratch.error(&with(&TREES, &["--resume"]));
        assert!(error.contains("trained/checkpoint.safetensors: "), "{error}");
    }
}

/// A file-size limit stands for a full disk.
#[test]
#[cfg(unix)]
fn a_full_disk_leaves_the_last_checkpoint() {
    let scratch = trees("train-full");
    scratch.ok(&with(&TREES, &["--epochs", "1"]));
    let before = trained(&scratch);
    let command = scratch.command(&with(&TREES, &["--epochs", "2", "--resume"]));
    let words = [command.get_program()].into_iter().chain(command.get_args());
    // The signal is ignored, so that writing fails. Blocks have 512 bytes.
    let output = std::process::Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 4; exec \"$0\" \"$@\""])
        .args(words)
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("cannot be written: File too large"), "{error}");
    assert!(trained(&scratch) == before);
    scratch.ok(&with(&TREES, &["--epochs", "2", "--resume"]));
    assert!(trained(&scratch) != before);
}
