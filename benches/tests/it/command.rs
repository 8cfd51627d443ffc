//! The command line: exit codes, messages, and what it prints.

use std::process::{Command, Output};

fn bench(options: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_edbatch-benches")).args(options).output().unwrap()
}

#[test]
fn wrong_usage_exits_2_and_names_what_is_possible() {
    for (options, expected) in [
        (["--only", "cuonts"], "counts"),
        (["--models", "tree"], "tree_lstm"),
        (["--systems", "ours"], "edbatch"),
        (["--batch", "0"], "from 1"),
    ] {
        let output = bench(&options);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn what_cannot_be_done_exits_1_and_leaves_no_file() {
    let folder = std::env::temp_dir().join(format!("edbatch-benches-{}", std::process::id()));
    let json = folder.join("records.jsonl");
    let (missing, json_path) = (folder.to_str().unwrap(), json.to_str().unwrap());
    let output = bench(&["--data", missing, "--models", "tree_lstm", "--json", json_path]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("sst/train.txt"), "{message}");
    assert!(!json.exists());
}

#[test]
fn help_has_an_example() {
    let output = bench(&["--help"]);
    assert!(output.status.success());
    assert!(String::from_utf8(output.stdout).unwrap().contains("cargo xtask bench --quick"));
}

#[test]
fn a_run_says_what_it_does_in_a_pipe_and_goes_on_where_it_ended() {
    let folder = std::env::temp_dir().join(format!("edbatch-run-{}", std::process::id()));
    let [json, html] = ["records.jsonl", "page.html"].map(|name| folder.join(name));
    let files = ["--json", json.to_str().unwrap(), "--html", html.to_str().unwrap()];
    let run = |options: &[&str]| {
        let output = bench(&[options, &files[..]].concat());
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{message}");
        String::from_utf8(output.stdout).unwrap()
    };
    let first = run(&["--only", "cells"]);
    assert!(first.contains("1/1 0:0") && first.contains("cells: 7 cells"), "{first}");
    assert!(first.contains("Compiling a cell") && !first.contains("GRUCell"), "{first}");
    let records = std::fs::read_to_string(&json).unwrap();
    assert_eq!(records.lines().count(), 7);

    let second = run(&["--only", "cells", "--resume", "--tables", "--against", files[1]]);
    assert!(!second.contains("1/1") && second.contains("GRUCell"), "{second}");
    assert!(second.contains("0 of 0 figures"), "{second}");
    assert_eq!(std::fs::read_to_string(&json).unwrap(), records);
    assert!(std::fs::read_to_string(&html).unwrap().ends_with("</html>\n"));
    std::fs::remove_dir_all(&folder).unwrap();
}
