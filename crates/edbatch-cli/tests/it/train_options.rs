//! Options of `edbatch train` that would train nothing or are given twice, options that a resumed
//! run must keep, and the epoch whose weights are kept.

use std::fs;

use crate::support::{MODELS, Scratch};

const TREES: [&str; 6] = ["train", "@model", "--input", "@trees.txt", "--valid", "@trees.txt"];

#[test]
fn options_that_train_nothing_or_are_given_twice_are_wrong_usage() {
    let scratch = Scratch::new("train-nothing");
    scratch.init("tree_lstm");
    let before = scratch.bytes("model/weights.safetensors");
    let all = ["--group", "embed=0", "--group", "leaf=0", "--group", "node=0", "--group", "out=0"];
    for (more, expected) in [
        (&["--group", "=0"][..], "--group <PREFIX=FACTOR>': expected PREFIX=FACTOR"),
        (&["--group", "=0.5"], "--group <PREFIX=FACTOR>': expected PREFIX=FACTOR"),
        (&all, "--group: these groups freeze all parameters, so nothing would be trained"),
        (&["--group", "embed=0", "--group", "embed=0.1"], "--group: `embed` is given twice"),
        (&["--clip", "0"], "'--clip <C>': expected norm:NUMBER, value:NUMBER or a number, above 0"),
        (&["--clip", "norm:0"], "above 0"),
        (&["--clip", "value:0"], "above 0"),
        (&["--clip", "value:1e-60"], "above 0"),
        (&["--clip=-1"], "above 0"),
        (&["--clip", "nan"], "above 0"),
        (&["--clip", "inf"], "above 0"),
        (&["--clip", "1", "--clip", "2"], "cannot be used multiple times"),
        (
            &["--optimizer", "sgd:momentum=0.9,momentum=0.5"],
            "--optimizer sgd:momentum=0.9,momentum=0.5: momentum is given twice",
        ),
        (&["--optimizer", "sgd:nesterov=true,momentum=1,nesterov=true"], "nesterov is given twice"),
        (&["--optimizer", "adam:eps=1e-8,beta1=0.9,eps=1e-8"], "eps is given twice"),
    ] {
        let output = scratch.run(&[&TREES[..], more].concat());
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{more:?}: {error}");
        assert!(error.contains(expected) && output.stdout.is_empty(), "{more:?}: {error}");
        assert!(scratch.bytes("model/weights.safetensors") == before);
    }
    // A part of the parameters may be frozen, and a longer prefix wins.
    scratch.ok(&[&TREES[..], &all[..6], &["--epochs", "1"]].concat());
    let longer = ["--group", "embed=0", "--group", "embed.weight=1"];
    scratch.ok(&[&TREES[..], &all[2..], &longer, &["--epochs", "1"]].concat());
}

/// Each option that the weights depend on must be the one of the run that goes on.
#[test]
fn a_resumed_run_keeps_its_options() {
    let scratch = Scratch::new("train-keeps");
    scratch.init("tree_lstm");
    let run = ["--epochs", "1", "--rate", "0.01"];
    scratch.ok(&[&TREES[..], &run].concat());
    for more in [
        ["--optimizer", "adam:eps=1e-7"],
        ["--optimizer", "sgd"],
        ["--decay", "0.1"],
        ["--schedule", "exponential:0.9"],
        ["--schedule", "cosine"],
        ["--warmup", "3"],
        ["--batch", "24"],
        ["--clip", "5"],
        ["--clip", "value:5"],
        ["--group", "embed=0.5"],
        ["--word-dropout", "0.1"],
        ["--metric", "root"],
        ["--seed", "1"],
    ] {
        let words = [&TREES[..], &run, &more, &["--resume"]].concat();
        let error = scratch.error(&words);
        assert!(error.contains("this checkpoint is of another run"), "{more:?}: {error}");
        assert!(error.contains(more[0]), "{more:?}: {error}");
    }
    let rate = [&TREES[..], &["--epochs", "1", "--rate", "0.02", "--resume"]].concat();
    assert!(scratch.error(&rate).contains("--rate"));
    scratch.ok(&[&TREES[..], &run, &["--resume"]].concat());
}

/// The folder has the weights of the best epoch, also if later epochs are worse.
#[test]
fn the_weights_are_those_of_the_best_epoch() {
    let scratch = Scratch::new("train-best");
    scratch.init("tree_lstm");
    // The opposite of what is trained: 4 − label.
    let opposite = MODELS[0].2.chars().map(|letter| match letter.to_digit(10) {
        Some(label) => char::from_digit(4_u32.saturating_sub(label), 10).unwrap(),
        None => letter,
    });
    scratch.write("opposite.txt", opposite.collect::<String>());
    for metric in ["loss", "accuracy"] {
        let words = ["train", "@model", "--input", "@trees.txt", "--valid", "@opposite.txt"];
        let options = ["--epochs", "16", "--rate", "0.1", "--metric", metric];
        let _ = fs::remove_dir_all(scratch.path("out"));
        let test = ["--output", "@out", "--test", "@opposite.txt"];
        let text = scratch.ok(&[&words[..], &options, &test].concat());
        let (best, epoch) = text
            .lines()
            .find_map(|line| {
                line.strip_prefix(&format!("best {metric} "))?.split_once(" in epoch ")
            })
            .unwrap();
        assert!(!epoch.starts_with("16:"), "the metric never gets worse: {text}");
        let words = ["evaluate", "@out", "--input", "@opposite.txt", "--metric", metric];
        assert_eq!(scratch.ok(&words), format!("{metric}: {best}\n"), "{text}");
        assert!(text.ends_with(&format!("\ntest {metric}: {best}\n")), "{text}");
    }
}
