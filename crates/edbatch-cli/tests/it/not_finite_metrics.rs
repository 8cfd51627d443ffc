//! Metrics of scores that are not finite: an error with the line, and never the best.

use std::fs;

use crate::support::{MODELS, Scratch};

/// Creates a tree model whose row of `<unk>` is NaN, and `unknown.txt`, whose second line has an
/// unknown word.
fn spoilt(test: &str) -> Scratch {
    let scratch = Scratch::new(test);
    scratch.init("tree_lstm");
    let known = MODELS[0].2.lines().next().unwrap();
    scratch.write("known.txt", format!("{known}\n"));
    scratch.write("unknown.txt", format!("{known}\n(0 (0 zzz) (0 zzz))\n"));
    scratch.change_weights(|name, index, value| {
        if name == "embed.weight" && index < 6 {
            *value = f32::NAN;
        }
    });
    scratch
}

fn says_why(error: &str) {
    let line = "unknown.txt:2: expected finite values, got NaN at [0] of field ";
    assert!(error.contains(line) && error.contains("it reads tensor embed.weight"), "{error}");
}

#[test]
fn evaluate_names_the_line_and_the_weight() {
    let scratch = spoilt("nan-evaluate");
    for metric in ["loss", "accuracy", "root"] {
        for more in [&[][..], &["--precision", "bf16"], &["--threads", "2"]] {
            let words = ["evaluate", "@model", "--metric", metric, "--input"];
            scratch.ok(&[&words[..], &["@known.txt"], more].concat());
            says_why(&scratch.error(&[&words[..], &["@unknown.txt"], more].concat()));
        }
    }
    let tagger = Scratch::new("nan-tagger");
    tagger.write("tagged.txt", "a|B-X b|I-X\n");
    tagger.write("unknown.txt", "a|B-X b|I-X\nzzz|B-X\n");
    let words = [
        "init",
        "bilstm_tagger",
        "@model",
        "--hidden",
        "8",
        "--embed",
        "6",
        "--input",
        "@tagged.txt",
    ];
    tagger.ok(&words);
    tagger.change_weights(|name, index, value| {
        if name == "embed.weight" && index < 6 {
            *value = f32::NAN;
        }
    });
    for metric in ["f1", "accuracy", "root", "loss"] {
        let words = ["evaluate", "@model", "--metric", metric, "--input"];
        tagger.ok(&[&words[..], &["@tagged.txt"]].concat());
        says_why(&tagger.error(&[&words[..], &["@unknown.txt"]].concat()));
    }
}

#[test]
fn a_metric_that_is_not_finite_is_never_the_best() {
    let scratch = spoilt("nan-valid");
    for metric in ["loss", "accuracy", "root"] {
        for [valid, test] in [["@unknown.txt", "@known.txt"], ["@known.txt", "@unknown.txt"]] {
            let _ = fs::remove_dir_all(scratch.path("trained"));
            let words = ["train", "@model", "--input", "@trees.txt", "--output", "@trained"];
            let options = ["--metric", metric, "--epochs", "2", "--valid", valid, "--test", test];
            let output = scratch.run(&[&words[..], &options].concat());
            assert_eq!(output.status.code(), Some(1), "{metric}");
            says_why(&String::from_utf8(output.stderr).unwrap());
            let text = String::from_utf8(output.stdout).unwrap();
            assert!(!text.contains("NaN"), "{text}");
            assert_eq!(text.contains("best so far"), valid == "@known.txt", "{text}");
            // The weights before the first epoch stay.
            let weights = ["model", "trained"]
                .map(|dir| fs::read(scratch.path(dir).join("weights.safetensors")).unwrap());
            assert_eq!(weights[0] == weights[1], valid == "@unknown.txt", "{metric}");
        }
    }
}
