//! Files of `edbatch train`: vocabularies, and the targets of translators.

use std::fs;

use edbatch_datasets::fixtures::text;

use crate::support::Scratch;

/// A translator is trained, validated and tested along the lines of three files of targets.
#[test]
fn translators_have_targets_for_each_file() {
    let scratch = Scratch::new("train-targets");
    scratch.init("lstm_nmt");
    let first = |text: &str, lines: usize| {
        text.lines().take(lines).map(|line| format!("{line}\n")).collect::<String>()
    };
    for (name, lines) in [("valid", 5), ("test", 3)] {
        scratch.write(&format!("{name}.source"), first(text::SOURCES, lines));
        scratch.write(&format!("{name}.target"), first(text::TARGETS, lines));
    }
    let train = ["train", "@model", "--input", "@source.txt", "--output", "@out"];
    let files = ["--valid", "@valid.source", "--test", "@test.source"];
    let of_valid = ["--valid-targets", "@valid.target"];
    let of_test = ["--test-targets", "@test.target"];
    let text = scratch.ok(&[&train[..], &files, &of_valid, &of_test].concat());
    for (name, line) in [("valid", "best loss "), ("test", "test loss: ")] {
        let (input, targets) = (format!("@{name}.source"), format!("@{name}.target"));
        let words = ["evaluate", "@out", "--input", &input, "--targets", &targets];
        let evaluated = scratch.ok(&[&words[..], &["--metric", "loss"]].concat());
        let loss = evaluated.trim().strip_prefix("loss: ").unwrap();
        assert!(text.contains(&format!("{line}{loss}")), "{text}: {evaluated}");
    }
    // The default targets belong to another file.
    fs::remove_dir_all(scratch.path("out")).unwrap();
    let error = scratch.error(&[&train[..], &files, &of_test].concat());
    assert!(error.contains("target.txt:1:1: expected as many lines as"), "{error}");
    assert!(error.contains("valid.source"), "{error}");
    assert!(!scratch.path("out").exists());
}

/// Words that are seen less often are `<unk>`.
#[test]
fn rare_words_are_left_out_of_vocabularies() {
    let scratch = Scratch::new("init-min-count");
    scratch.write("trees.txt", "(1 (0 a) (1 (0 b) (0 a)))\n(1 (0 c) (0 c))\n(0 (0 a) (1 d))\n");
    for (min, expected) in
        [("1", "<unk>\na\nb\nc\nd\n"), ("2", "<unk>\na\nc\n"), ("3", "<unk>\na\n")]
    {
        let words = ["init", "tree_lstm", "@model", "--hidden", "4", "--input", "@trees.txt"];
        scratch.ok(&[&words[..], &["--min-count", min]].concat());
        let words = fs::read_to_string(scratch.path("model").join("vocab.txt")).unwrap();
        assert_eq!(words, expected);
    }
    let refused = ["init", "tree_lstm", "@model", "--hidden", "4", "--input", "@trees.txt"];
    for (option, value) in [("--dropout", "1"), ("--dropout-output", "-0.1"), ("--min-count", "0")]
    {
        let option = format!("{option}={value}");
        let error = scratch.error_of_usage(&[&refused[..], &[&option]].concat());
        assert!(error.contains("expected"), "{error}");
    }
}
