//! `edbatch train` and `edbatch evaluate`.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use edbatch_datasets::fixtures::text;
use edbatch_testing::names;
use serde_json::Value;

use crate::support::{POLICIES, Scratch};

pub(crate) const CHECKPOINT: &str = "checkpoint.safetensors";
pub(crate) const WEIGHTS: &str = "weights.safetensors";

/// The words of a run on the trees of `scratch`, which trains `@model` into `@trained`.
pub(crate) static TREES: LazyLock<Vec<&str>> = LazyLock::new(|| {
    let words = "train @model --input @trees.txt --valid @trees.txt --output @trained --batch 3 \
                 --rate 0.01";
    words.split(' ').collect()
});

pub(crate) fn trees(test: &str) -> Scratch {
    let scratch = Scratch::new(test);
    scratch.init("tree_lstm");
    scratch
}

pub(crate) fn with<'a>(words: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [words, more].concat()
}

/// Returns the contents of the files of a trained model.
pub(crate) fn trained(scratch: &Scratch) -> [Vec<u8>; 2] {
    [WEIGHTS, CHECKPOINT].map(|file| fs::read(scratch.path("trained").join(file)).unwrap())
}

pub(crate) fn log(scratch: &Scratch, file: &str) -> Vec<Value> {
    let text = scratch.text(file);
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The fields of a line of `--log`, and of its seconds, sorted.
const LOG_KEYS: [&str; 7] =
    ["epoch", "gradient_norm", "instances_per_second", "loss", "metric", "rate", "seconds"];
const PARTS_OF_SECONDS: [&str; 6] = ["back", "decide", "evaluate", "forward", "sums", "update"];

/// Returns the names of an object's fields, sorted.
fn keys(object: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> = object.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

fn last_number(line: &str) -> f64 {
    line.split_whitespace().next_back().unwrap().parse().unwrap()
}

/// All nine models, and a network, learn the examples that they are trained on.
#[test]
fn nine_models_and_a_network_learn() {
    let scratch = Scratch::new("train-all");
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../edbatch/tests/gradients");
    let models = names(&dir);
    assert_eq!(models.len(), 9);
    let network = scratch.path("network");
    let exported = dir.join("tree_gru");
    scratch.ok(&["export", exported.to_str().unwrap(), "@network"]);
    for folder in models.iter().map(|name| dir.join(name)).chain([network]) {
        let (before, folder) = (names(&folder), folder.to_str().unwrap());
        let config = fs::read(Path::new(folder).join("config.json")).unwrap_or("{}".into());
        let config: Value = serde_json::from_slice(&config).unwrap();
        let input = config["input"].as_str().unwrap_or("calls.jsonl");
        let input = Path::new(folder).join(input);
        let input = input.to_str().unwrap();
        let _ = fs::remove_dir_all(scratch.path("out"));
        let words = ["train", folder, "--input", input, "--valid", input, "--test", input];
        let options = ["--epochs", "8", "--batch", "2", "--rate", "0.03", "--threads", "1"];
        let output = ["--output", "@out", "--log", "@log"];
        let text = scratch.ok(&[&words[..], &options, &output].concat());
        let lines = log(&scratch, "log");
        assert_eq!(lines.len(), 8);
        let number = |line: &Value, key: &str| line[key].as_f64().unwrap();
        let [first, last] = [&lines[0], &lines[7]].map(|line| number(line, "metric"));
        assert!(last < 0.9 * first, "{folder}: {first} {last}");
        assert!(number(&lines[7], "loss") < number(&lines[0], "loss"), "{folder}");
        assert_eq!(keys(&lines[0]), LOG_KEYS);
        assert_eq!(keys(&lines[0]["seconds"]), PARTS_OF_SECONDS);
        for key in PARTS_OF_SECONDS {
            assert!(lines[0]["seconds"][key].as_f64().unwrap() > 0.0, "{key}");
        }
        assert!(number(&lines[0], "gradient_norm") > 0.0);
        assert!(number(&lines[0], "instances_per_second") > 0.0);
        assert_eq!((number(&lines[0], "rate"), number(&lines[7], "epoch")), (0.03, 8.0));
        // The folder has the best weights, and `edbatch gradients` computes the same loss.
        let best = lines.iter().map(|line| number(line, "metric")).fold(f64::INFINITY, f64::min);
        let evaluated = scratch.ok(&["evaluate", "@out", "--input", input, "--metric", "loss"]);
        assert_eq!(evaluated, format!("loss: {best:.4}\n"));
        let words = ["evaluate", "@out", "--input", input, "--metric", "loss"];
        let rounded = scratch.ok(&[&words[..], &["--precision", "bf16"]].concat());
        let rounded: f64 = rounded.trim_start_matches("loss: ").trim().parse().unwrap();
        assert!((rounded - best).abs() < 1e-2 * best.max(1.0), "{folder}: {rounded}");
        assert_eq!(text.lines().last(), Some(&*format!("test loss: {best:.4}")), "{text}");
        let gradients = ["gradients", "@out", "--input", input, "--output", "@g.safetensors"];
        scratch.ok(&[&gradients[..], &["--stats", "@stats"]].concat());
        let loss = number(&log(&scratch, "stats")[0], "loss");
        assert!((loss - best).abs() < 1e-5 * best, "{folder}: {loss} {best}");
        assert_eq!(names(Path::new(folder)), before, "the model's folder has changed");
    }
}

/// The weights do not depend on threads, policies or memory limits; on the seed they do.
#[test]
fn weights_have_the_same_bits_under_all_options_of_speed() {
    let scratch = trees("train-bits");
    let run = |more: &[&'static str]| {
        let _ = fs::remove_dir_all(scratch.path("trained"));
        let options = ["--epochs", "3", "--word-dropout", "0.1", "--clip", "1"];
        scratch.ok(&[&TREES[..], &options, more].concat());
        trained(&scratch)
    };
    let expected = run(&["--threads", "1"]);
    for policy in POLICIES {
        assert!(run(&["--policy", policy]) == expected, "{policy}");
    }
    for threads in ["2", "3"] {
        assert!(run(&["--threads", threads]) == expected, "{threads} threads");
    }
    assert!(run(&["--memory", "140000"]) == expected, "memory");
    assert!(run(&["--checkpoint-every", "1"]) == expected, "checkpoints");
    for more in [["--seed", "1"], ["--word-dropout", "0"], ["--clip", "value:0.001"]] {
        // A later option replaces the earlier one only if clap allows it, so start again.
        let _ = fs::remove_dir_all(scratch.path("trained"));
        scratch.ok(&[&TREES[..], &["--epochs", "3"], &more].concat());
        assert!(trained(&scratch)[0] != expected[0], "{more:?}");
    }
}

#[test]
fn a_loss_that_is_not_finite_names_the_line() {
    let scratch = trees("train-nan");
    scratch.ok(&with(&TREES, &["--epochs", "1", "--optimizer", "sgd"]));
    let before = trained(&scratch);
    fs::remove_dir_all(scratch.path("trained")).unwrap();
    let mut words = with(&TREES, &["--epochs", "9", "--optimizer", "sgd", "--seed", "3"]);
    words[11] = "1e38";
    let error = scratch.error(&words);
    let is_line = |n| error.contains(&format!("trees.txt:{n}: the loss of input {} is not", n - 1));
    assert!((1..9).any(is_line), "{error}");
    // The weights are the ones of the model, and of the first checkpoint.
    let [weights, _] = trained(&scratch);
    assert!(weights == fs::read(scratch.path("model").join(WEIGHTS)).unwrap());
    assert!(weights != before[0]);
}

#[test]
fn metrics_of_the_command_are_consistent() {
    let scratch = trees("train-metrics");
    for (metric, name) in [("accuracy", "accuracy"), ("root", "root")] {
        let _ = fs::remove_dir_all(scratch.path("trained"));
        let more = ["--epochs", "6", "--metric", metric, "--test", "@trees.txt"];
        let text = scratch.ok(&[&TREES[..], &more].concat());
        let words = ["evaluate", "@trained", "--input", "@trees.txt", "--metric", metric];
        let line = scratch.ok(&words);
        assert!(line.starts_with(&format!("{name}: ")), "{line}");
        let value = last_number(&line);
        assert!((0.2..=1.0).contains(&value), "{line}");
        assert_eq!(last_number(text.lines().last().unwrap()), value, "{text}");
        assert_eq!(scratch.ok(&[&words[..], &["--threads", "3"]].concat()), line);
    }
    let tagger = Scratch::new("train-tagger");
    tagger.write("tagged.txt", "a|B-X b|I-X c|O\na|B-X c|O\nb|B-Y b|I-Y a|B-X\n");
    let words = ["init", "bilstm_tagger", "@model", "--hidden", "8", "--input", "@tagged.txt"];
    tagger.ok(&words);
    let train = ["train", "@model", "--input", "@tagged.txt", "--valid", "@tagged.txt"];
    let text =
        tagger.ok(&[&train[..], &["--metric", "f1", "--rate", "0.05", "--epochs", "30"]].concat());
    assert!(text.contains("\nbest f1 1.0000 in epoch "), "{text}");
    let f1 = ["evaluate", "@model", "--input", "@tagged.txt", "--metric", "f1"];
    assert_eq!(tagger.ok(&f1), "f1: 1.0000\n");
    tagger.write("none.txt", "a b c\n");
    for (metric, what) in [("f1", "tags such as B-PER and I-PER"), ("loss", "targets")] {
        let words = ["evaluate", "@model", "--input", "@none.txt", "--metric", metric];
        let error = tagger.error(&words);
        assert!(error.contains(&format!("none.txt: expected {what}, got none")), "{error}");
    }
}

#[test]
fn wrong_options_are_errors_that_say_what_is_expected() {
    let scratch = trees("train-usage");
    for (more, expected) in [
        (&["--metric", "f1"][..], "--metric f1 needs a tagger"),
        (&["--memory", "1000000", "--threads", "2"], "--memory needs --threads 1"),
        (&["--optimizer", "lion"], "expected sgd, adagrad, rmsprop, adam or adam_w"),
        (&["--optimizer", "sgd:momentum=-1"], "momentum: expected a finite number of at least 0"),
        (&["--schedule", "step:2"], "expected constant, step:EVERY:FACTOR"),
        (&["--clip", "max:3"], "expected norm:NUMBER, value:NUMBER or a number"),
        (&["--clip=-1"], "expected norm:NUMBER, value:NUMBER or a number, above 0"),
        (&["--decay", "nan"], "decay: expected a finite number of at least 0, got NaN"),
        (&["--group", "embed"], "expected PREFIX=FACTOR, for example embed=0.1"),
        (
            &["--group", "embde=0.1"],
            "no parameter of the model has a name that begins with `embde`",
        ),
        (&["--word-dropout", "1"], "expected a number from 0 to below 1"),
        (&["--epochs", "0"], "0 is not in 1.."),
        (&["--targets", "@trees.txt", "@trees.txt"], "targets for each of 1 inputs, got 2"),
        (&["--log", "@trees.txt"], "choose another name for --log"),
        (&["--test-targets", "@trees.txt"], "--test <FILE>"),
    ] {
        let error = scratch.error_of_usage(&[&TREES[..], more].concat());
        assert!(error.contains(expected), "{more:?}: {error}");
        assert!(!scratch.path("trained").exists());
    }
    scratch.write("empty.txt", "");
    scratch.write("labels.txt", "(9 a)\n");
    scratch.write("none.txt", "(_ (_ a) (_ b))\n");
    for (file, expected) in [
        ("@empty.txt", "empty.txt: expected examples, got an empty file"),
        ("@none.txt", "none.txt: expected targets, got none"),
        ("@labels.txt", "labels.txt:1:"),
        ("@absent.txt", "absent.txt"),
    ] {
        let mut words = TREES.clone();
        words[3] = file;
        let error = scratch.error(&words);
        assert!(error.contains(expected), "{error}");
        assert!(!scratch.path("trained").exists());
    }
    let error = scratch.error(&with(&TREES, &["--log", "@absent/log.jsonl"]));
    assert!(error.contains("absent/log.jsonl"), "{error}");
    assert!(!scratch.path("trained").exists());
    scratch.ok(&with(&TREES, &["--epochs", "1"]));
    let error = scratch.error(&TREES);
    assert!(error.contains("trained: expected a new or empty folder"), "{error}");
    scratch.ok(&["export", "@model", "@network"]);
    let words = ["train", "@network", "--input", "@network/calls.jsonl", "--valid"];
    let more = ["@network/calls.jsonl", "--word-dropout", "0.1"];
    let error = scratch.error_of_usage(&[&words[..], &more].concat());
    assert!(error.contains("--word-dropout needs a model with words"), "{error}");
}

/// Dropout of `init` has the same bits under all options of speed, also in an exported network, and
/// inference has none.
#[test]
fn models_with_dropout_train_and_go_on_to_the_same_weights() {
    let scratch = Scratch::new("train-dropout");
    scratch.write("trees.txt", text::BINARY_TREES);
    let init = |dir: &'static str, more: &[&'static str]| {
        let words = ["init", "tree_lstm", dir, "--hidden", "8", "--input", "@trees.txt"];
        scratch.ok(&[&words[..], more].concat());
    };
    init("@plain", &[]);
    init("@model", &["--dropout", "0.5", "--dropout-output", "0.25"]);
    let config = fs::read_to_string(scratch.path("model").join("config.json")).unwrap();
    let config: Value = serde_json::from_str(&config).unwrap();
    assert_eq!(
        (config["dropout"].as_f64(), config["dropout_output"].as_f64()),
        (Some(0.5), Some(0.25))
    );
    // The same weights, and the same outputs.
    let infer = |dir: &'static str| {
        scratch.ok(&["infer", dir, "--input", "@trees.txt", "--output", "@out.jsonl"]);
        scratch.bytes("out.jsonl")
    };
    assert!(infer("@plain") == infer("@model"));
    let run = |words: &[&'static str]| {
        let _ = fs::remove_dir_all(scratch.path("trained"));
        scratch.ok(words);
        trained(&scratch)
    };
    let expected = run(&with(&TREES, &["--epochs", "3"]));
    assert!(run(&with(&TREES, &["--epochs", "3", "--threads", "2"])) == expected);
    assert!(run(&with(&TREES, &["--epochs", "3", "--policy", "agenda"])) == expected);
    run(&with(&TREES, &["--epochs", "2"]));
    scratch.ok(&with(&TREES, &["--epochs", "3", "--resume"]));
    assert!(trained(&scratch) == expected, "resumed");
    let mut words = TREES.clone();
    words[1] = "@plain";
    assert!(run(&with(&words, &["--epochs", "3"]))[0] != expected[0], "without dropout");
    scratch.ok(&["export", "@model", "@network", "--input", "@trees.txt"]);
    let network = fs::read_to_string(scratch.path("network").join("network.json")).unwrap();
    assert_eq!(network.matches("\"dropout\"").count(), 2, "{network}");
    let input = scratch.path("network").join("calls.jsonl");
    fs::copy(input, scratch.path("calls.jsonl")).unwrap();
    (words[1], words[3], words[5]) = ("@network", "@calls.jsonl", "@calls.jsonl");
    assert!(run(&with(&words, &["--epochs", "3"]))[0] == expected[0], "exported");
}
