//! No output replaces a file of a model, a file that the command reads, or another output.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::support::Scratch;

/// All files that a model's folder can have.
const FILES: [&str; 12] = [
    "config.json",
    "network.json",
    "weights.safetensors",
    "checkpoint.safetensors",
    "calls.jsonl",
    "vocab.txt",
    "chars.txt",
    "words.txt",
    "src_vocab.txt",
    "tgt_vocab.txt",
    "tags.txt",
    "classes.txt",
];

/// A tree model with names of classes, whose default input is not in its folder.
fn trees(test: &str) -> Scratch {
    let scratch = Scratch::new(test);
    scratch.write("trees.txt", "(pos (neu a) (pos b))\n(neg (neu a) (neg c))\n");
    scratch.ok(&["init", "tree_lstm", "@model", "--hidden", "4", "--input", "@trees.txt"]);
    scratch.write("graph.txt", "2\n7 0\n7 1 0\n");
    scratch.write("other.txt", "(neu b)\n");
    scratch
}

/// Returns the names and contents of all files in a folder.
fn contents(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let names = edbatch_testing::names(folder);
    names.into_iter().map(|name| (name.clone(), fs::read(folder.join(name)).unwrap())).collect()
}

/// All commands and options that write a file, without the file.
fn writers(model: &'static str, input: &'static str) -> Vec<Vec<&'static str>> {
    let infer = ["infer", model, "--input", input];
    let gradients = ["gradients", model, "--input", input];
    let train = ["train", model, "--input", input, "--valid", input, "--epochs", "1"];
    let words = |words: &[&'static str], more: &[&'static str]| [words, more].concat();
    vec![
        words(&infer, &["--output"]),
        words(&infer, &["--output", "@new", "--stats"]),
        words(&infer, &["--output", "@new", "--trace"]),
        words(&gradients, &["--output"]),
        words(&gradients, &["--output", "@new", "--stats"]),
        words(&["learn", model, "--input", input], &["--output"]),
        words(&train, &["--log"]),
        words(&train, &["--output", "@trained", "--log"]),
    ]
}

#[test]
fn no_output_replaces_a_file_of_the_model() {
    let scratch = trees("model-files");
    symlink(scratch.path("model"), scratch.path("link")).unwrap();
    let before = contents(&scratch.path("model"));
    let refused = |words: &[&str], file: &str| {
        let words = [words, &[file]].concat();
        let error = scratch.error_of_usage(&words);
        let name = file.trim_start_matches('@');
        assert!(error.contains(name) && error.contains("choose another name for --"), "{error}");
        assert!(contents(&scratch.path("model")) == before, "{words:?}");
        assert!(!scratch.path("new").exists() && !scratch.path("trained").exists(), "{words:?}");
    };
    for words in writers("@model", "@other.txt") {
        for file in FILES {
            refused(&words, &format!("@model/{file}"));
        }
        // By other paths and links, also dangling ones.
        refused(&words, "@link/vocab.txt");
        refused(&words, "@model/../model/tags.txt");
        for file in ["vocab.txt", "checkpoint.safetensors"] {
            symlink(scratch.path("model").join(file), scratch.path("alias")).unwrap();
            refused(&words, "@alias");
            fs::remove_file(scratch.path("alias")).unwrap();
        }
        fs::hard_link(scratch.path("model/classes.txt"), scratch.path("alias")).unwrap();
        refused(&words, "@alias");
        fs::remove_file(scratch.path("alias")).unwrap();
        // The model's default input, which this command does not read.
        refused(&words, "@trees.txt");
    }
    // Commands that read no model, and commands that read another.
    for words in [&["schedule", "@graph.txt", "--svg"][..], &["learn", "@graph.txt", "--output"]] {
        for file in ["@model/vocab.txt", "@link/config.json", "@model/weights.safetensors"] {
            refused(words, file);
        }
    }
    let second = trees("model-files-second");
    let path = scratch.path("model/vocab.txt");
    let error = second.error_of_usage(&["infer", "@model", "--output", path.to_str().unwrap()]);
    assert!(error.contains("is a file of the model in "), "{error}");
    // Other files of the folder may be written, and written again.
    for _ in 0..2 {
        scratch.ok(&["infer", "@model", "--output", "@model/out.jsonl"]);
        scratch.ok(&["schedule", "@graph.txt", "--svg", "@vocab.txt"]);
        scratch.ok(&["learn", "@graph.txt", "--output", "@model/policy.json"]);
    }
}

#[test]
fn no_output_replaces_a_file_that_the_command_reads() {
    let scratch = Scratch::new("read-files");
    scratch.init("lstm_nmt");
    for file in ["policy.json", "s", "t"] {
        scratch.write(file, "");
    }
    let before = scratch.names();
    let refused = |words: &[&str]| {
        let error = scratch.error_of_usage(words);
        assert!(error.contains("is the same file as"), "{words:?}: {error}");
        assert_eq!(scratch.names(), before);
    };
    let train = ["train", "@model", "--input", "@source.txt", "--valid", "@source.txt"];
    let targets = ["--targets", "@s", "--valid-targets", "@t"];
    for log in ["@s", "@t", "@source.txt", "@target.txt", "@policy.json", "@new"] {
        let more = ["--policy", "@policy.json", "--output", "@new", "--log", log];
        refused(&[&train[..], &targets, &more].concat());
    }
    for log in ["@s", "@t"] {
        refused(&[&train[..], &["--test", "@s", "--test-targets", "@t", "--log", log]].concat());
    }
    // Files of the folder that this run would make, also by a path through it.
    for log in
        ["@new/src_vocab.txt", "@new/checkpoint.safetensors", "@new/x/../tags.txt", "@new/../s"]
    {
        refused(&[&train[..], &["--test", "@s", "--output", "@new", "--log", log]].concat());
    }
    // The translations that config.json names.
    refused(&["gradients", "@model", "--input", "@source.txt", "--output", "@target.txt"]);
    refused(&["learn", "@model", "--output", "@source.txt"]);
    refused(&["infer", "@model", "--input", "@s", "--output", "@source.txt"]);
}

#[test]
fn init_does_not_replace_its_inputs() {
    let scratch = trees("init-files");
    let before = contents(&scratch.path("model"));
    let words = ["init", "tree_lstm", "@model", "--hidden", "4", "--input", "@trees.txt"];
    let error = scratch.error_of_usage(&[&words[..], &["@model/vocab.txt"]].concat());
    assert!(error.contains("model/vocab.txt is the same file as the model's"), "{error}");
    assert!(contents(&scratch.path("model")) == before);
    scratch.ok(&[&words[..], &["@trees.txt"]].concat());
}
