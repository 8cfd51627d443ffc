//! Training under limits of the address space: a result or an error, but never an abort.

use std::process::Command;

use crate::support::Scratch;

/// Returns trees with 24 leaves, each with another word, so that rows of the embedding need most of
/// the memory.
fn trees() -> String {
    fn tree(words: std::ops::Range<u32>) -> String {
        let (label, middle) = (words.start % 3, words.start.midpoint(words.end));
        match words.len() {
            1 => format!("({label} w{})", words.start),
            _ => format!("({label} {} {})", tree(words.start..middle), tree(middle..words.end)),
        }
    }
    (0..400).map(|index| tree(24 * index..24 * (index + 1)) + "\n").collect()
}

#[cfg(unix)]
#[test]
fn training_ends_with_an_error_where_memory_ends() {
    let scratch = Scratch::new("memory-limits");
    scratch.write("trees.txt", trees());
    let init = ["init", "tree_lstm", "@model", "--hidden", "8", "--embed", "300"];
    scratch.ok(&[&init[..], &["--input", "@trees.txt"]].concat());
    let gradients = "gradients model --input trees.txt --output g.safetensors";
    let train = "train model --input trees.txt --valid trees.txt --epochs 1 --output trained";
    let evaluate = "evaluate model --input trees.txt --metric loss";
    for command in [gradients, train, evaluate] {
        let mut codes = Vec::new();
        for limit in (60_000..=340_000).step_by(20_000) {
            let _ = std::fs::remove_dir_all(scratch.path("trained"));
            let script = format!("ulimit -v {limit} && exec \"$0\" {command} --threads 1");
            let mut shell = Command::new("sh");
            shell.args(["-c", &script, env!("CARGO_BIN_EXE_edbatch")]).current_dir(&scratch.0);
            let output = shell.output().unwrap();
            let error = String::from_utf8(output.stderr).unwrap();
            match output.status.code() {
                Some(0) => {}
                Some(1) => assert!(error.contains("memory") && error.lines().count() == 1),
                _ => panic!("{command}: {limit} KiB: {:?}: {error}", output.status),
            }
            codes.push(output.status.code().unwrap());
        }
        assert!(codes.contains(&0) && codes.contains(&1), "{command}: {codes:?}");
    }
}
