//! The command line: exit codes, messages and output.

use std::process::{Command, Output};

use edbatch_benches::record::journal::read;
use edbatch_benches::record::{Figures, Record};

use crate::run::{Run, outcome};

fn bench(options: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_edbatch-benches")).args(options).output().unwrap()
}

#[test]
fn wrong_usage_exits_with_2_and_names_the_choices() {
    for (options, expected) in [
        (["--only", "cuonts"], "counts"),
        (["--models", "tree"], "tree_lstm"),
        (["--systems", "ours"], "edbatch"),
        (["--batch", "0"], "from 1"),
        (["--backends", "cuda-emulated"], "meaningless"),
        (["--backends", "gpu"], "cpu or cuda"),
        (["--minutes", "0"], "more than 0"),
        (["--minutes", "ten"], "a number of minutes"),
        (["--device", "opencl"], "emulated"),
        (["--pack", "folder"], "--gpu"),
        (["--predict", "--quick"], "--gpu"),
        (["--sms", "0"], "1..=1024"),
    ] {
        let output = bench(&options);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn a_missing_set_exits_with_1_and_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let json = folder.join("records.jsonl");
    let (missing, json_path) = (folder.to_str().unwrap(), json.to_str().unwrap());
    let output = bench(&["--data", missing, "--models", "tree_lstm", "--json", json_path]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("sst/train.txt"), "{message}");
    assert!(!json.exists());
}

#[test]
fn a_prediction_is_a_table_that_needs_no_device() {
    let small = ["--gpu", "--predict", "--models", "tree_lstm", "--hidden", "64"];
    let output = bench(&[&small[..], &["--batch", "2,64", "--sms", "12"]].concat());
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{printed}");
    assert!(printed.starts_with("Model of 12 SMs, not measured"), "{printed}");
    let rows: Vec<Vec<&str>> = printed
        .lines()
        .filter(|line| line.starts_with("| tree_lstm"))
        .map(|line| line.split('|').map(str::trim).collect())
        .collect();
    let systems = ["cuda", "cuda-tf32", "cuda-bf16"];
    let expected: Vec<_> =
        ["2", "64"].map(|batch| systems.map(|system| [system, batch, "1"])).concat();
    let got: Vec<_> = rows.iter().map(|row| [row[3], row[4], row[5]]).collect();
    assert_eq!(got, expected, "{printed}");
    let (few, many) = (&rows[0], &rows[3]);
    let number = |cell: &str| cell.replace(',', "").parse::<f64>().unwrap();
    let (device, seen, rate) = (few.len() - 4, few.len() - 3, few.len() - 2);
    for row in &rows {
        assert!((number(row[seen]) - number(row[device]) - 8.2).abs() <= 1.0, "{printed}");
        let expected = number(row[4]) / number(row[device]) * 1e6;
        assert!((number(row[rate]) / expected - 1.0).abs() < 0.02, "{printed}");
    }
    assert!(number(many[rate]) > 4.0 * number(few[rate]), "{printed}");
}

/// The launches and the gaps between them are the time on the device.
#[test]
fn a_prediction_of_training_has_a_column_for_each_launch() {
    let small = ["--gpu", "--predict", "--models", "tree_lstm", "--hidden", "64", "--batch", "4"];
    let of = |part| bench(&[&small[..], &["--only", part]].concat());
    let printed = String::from_utf8(of("training").stdout).unwrap();
    let row = printed.lines().find(|line| line.starts_with("| tree_lstm")).expect(&printed);
    let cells: Vec<&str> = row.split('|').map(str::trim).collect();
    let number = |cell: &str| cell.replace(',', "").parse::<f64>().unwrap();
    let numbers: Vec<f64> = cells[4..cells.len() - 1].iter().map(|cell| number(cell)).collect();
    let [launches @ .., count, device, seen, _] = &numbers[..] else { panic!("{printed}") };
    assert_eq!((launches.len(), *count), (7, 7.0), "{printed}");
    assert!(launches.iter().all(|&time| time > 0.0), "{printed}");
    let sum = launches.iter().sum::<f64>() + 2.0 * 6.0;
    assert!((sum - device).abs() < 5.0 && seen > device, "{printed}");
    let message = String::from_utf8(of("latency").stderr).unwrap();
    assert!(message.contains("the only part is training"), "{message}");
}

#[test]
fn a_missing_device_is_reported_and_skipped() {
    let run = Run::new();
    let small = ["--only", "throughput", "--models", "tree_gru", "--hidden", "8", "--batch", "4"];
    let few = ["--systems", "edbatch", "--seconds", "0.001", "--backends", "cpu,cuda"];
    // Hides a device, if there is one.
    let mut command = run.command(&[&small, &few]);
    let (code, _, message) = outcome(command.env("CUDA_VISIBLE_DEVICES", "").output().unwrap());
    assert_eq!(code, Some(0), "{message}");
    let lines: Vec<&str> = message.lines().filter(|line| line.starts_with("cuda: ")).collect();
    assert!(lines.len() == 1 && lines[0].ends_with("; skipped"), "{message}");
    let records = read(&run.json).unwrap();
    let [Record { figures: Figures::Throughput(record), .. }] = &records[..] else {
        panic!("{records:?}");
    };
    assert_eq!((&*record.system, &*record.case.backend), ("edbatch", "cpu"));
}

#[test]
fn whole_times_all_mini_batches_of_a_set() {
    let run = Run::new();
    let timed = |more: &[&str]| {
        let chosen = ["--only", "throughput", "--models", "tree_gru", "--hidden", "8"];
        let few = ["--batch", "16", "--systems", "edbatch", "--seconds", "0.001"];
        run.ok(&[&chosen, &few, more]);
        read(&run.json).unwrap().into_iter().find_map(|record| match record.figures {
            Figures::Throughput(throughput) => Some((throughput.mini_batches, record.step)),
            _ => None,
        })
    };
    let (few, step) = timed(&[]).unwrap();
    let (all, step_of_all) = timed(&["--whole"]).unwrap();
    assert!(few < 80 && all == 80, "{few} and {all} of 80");
    assert_ne!(step, step_of_all, "laps of the two are not mixed");
}

#[test]
fn help_has_an_example() {
    let output = bench(&["--help"]);
    assert!(output.status.success());
    assert!(String::from_utf8(output.stdout).unwrap().contains("cargo xtask bench --quick"));
}

#[test]
fn a_run_in_a_pipe_prints_progress_and_can_be_resumed() {
    let run = Run::new();
    let first = run.ok(&[&["--only", "cells", "--pulse", "0.001"]]);
    // What is measured is named before its figures.
    let (before, _) = first.split_once("1/1 0:0").expect("a line for the step");
    assert!(before.contains(" of 5: cells\n"), "{first}");
    assert!(first.contains("1/1 0:0") && first.contains("cells: Compiling a cell"), "{first}");
    assert!(!first.contains("GRUCell"), "{first}");
    let records = std::fs::read_to_string(&run.json).unwrap();
    assert_eq!(records.lines().count(), 7);

    let against = ["--against", run.json.to_str().unwrap()];
    let second = run.ok(&[&["--only", "cells", "--resume", "--tables"], &against]);
    assert!(!second.contains("1/1") && second.contains("GRUCell"), "{second}");
    assert!(second.contains("0 of 0 figures"), "{second}");
    assert_eq!(std::fs::read_to_string(&run.json).unwrap(), records);
    assert!(std::fs::read_to_string(&run.html).unwrap().ends_with("</html>\n"));
}

#[test]
fn a_run_ends_after_its_minutes_and_can_be_resumed() {
    let run = Run::new();
    let short = ["--only", "cells,counts", "--quick", "--models", "tree_gru", "--batch", "1"];
    let said = run.ok(&[&short, &["--minutes", "0.000000001"]]);
    assert!(said.contains("2 steps are left (--resume)"), "{said}");
    assert!(!run.json.exists() && run.html.exists());
    run.ok(&[&short, &["--resume"]]);
    assert!(!read(&run.json).unwrap().is_empty());
}
