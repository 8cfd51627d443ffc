//! The command line: exit codes, messages, and what it prints.

use std::process::{Command, Output};

use edbatch_benches::journal::read;
use edbatch_benches::record::Figures;

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
        (["--backends", "cuda-emulated"], "say nothing"),
        (["--backends", "gpu"], "cpu or cuda"),
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
fn a_backend_that_is_not_there_is_a_line_and_the_others_go_on() {
    let folder = std::env::temp_dir().join(format!("edbatch-backends-{}", std::process::id()));
    let [json, html] = ["records.jsonl", "page.html"].map(|name| folder.join(name));
    // No device can be seen, should there be one.
    let output = Command::new(env!("CARGO_BIN_EXE_edbatch-benches"))
        .env("CUDA_VISIBLE_DEVICES", "")
        .args(["--only", "throughput", "--models", "tree_gru", "--hidden", "8", "--batch", "4"])
        .args(["--systems", "edbatch", "--seconds", "0.001", "--backends", "cpu,cuda"])
        .args(["--json", json.to_str().unwrap(), "--html", html.to_str().unwrap()])
        .output()
        .unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{message}");
    let lines: Vec<&str> = message.lines().filter(|line| line.starts_with("cuda: ")).collect();
    assert!(lines.len() == 1 && lines[0].ends_with("; skipped"), "{message}");
    let records = std::fs::read_to_string(&json).unwrap();
    let records: Vec<serde_json::Value> =
        records.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(records.len(), 1);
    assert_eq!((&records[0]["system"], &records[0]["backend"]), (&"edbatch".into(), &"cpu".into()));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn whole_sets_are_timed_to_their_last_mini_batch() {
    let folder = std::env::temp_dir().join(format!("edbatch-whole-{}", std::process::id()));
    let [json, html] = ["records.jsonl", "page.html"].map(|name| folder.join(name));
    let timed = |more: &[&str]| {
        let chosen = ["--only", "throughput", "--models", "tree_gru", "--hidden", "8"];
        let few = ["--batch", "16", "--systems", "edbatch", "--seconds", "0.001"];
        let files = ["--json", json.to_str().unwrap(), "--html", html.to_str().unwrap()];
        let output = bench(&[&chosen[..], &few, &files, more].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        read(&json).unwrap().into_iter().find_map(|record| match record.figures {
            Figures::Throughput(throughput) => Some((throughput.mini_batches, record.step)),
            _ => None,
        })
    };
    let (few, step) = timed(&[]).unwrap();
    let (all, step_of_all) = timed(&["--whole"]).unwrap();
    assert!(few < 80 && all == 80, "{few} and {all} of 80");
    assert_ne!(step, step_of_all, "neither goes on with the other's laps");
    std::fs::remove_dir_all(&folder).unwrap();
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
