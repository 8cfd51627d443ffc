//! Other people's programs: the models of the scripts, and the tables.

use std::fs;
use std::path::Path;

use edbatch_benches::measure::families::FAMILIES;
use edbatch_benches::measure::growth::SOME_OF_EACH;
use edbatch_benches::measure::peers::program::Program;
use edbatch_benches::record::training::{Training, TrainingPeer};
use edbatch_benches::record::{Figures, Record};
use edbatch_benches::render::docs::blocks;

use crate::run::{Run, outcome};
use crate::sample;

#[test]
fn scripts_have_the_models_that_programs_know() {
    let trained = |_: Program, model: &str| SOME_OF_EACH.contains(&model);
    let scripts = [
        ("pytorch.py", Program::PyTorch, Program::knows as fn(_, &str) -> bool),
        ("dynet_peer.py", Program::DyNet, Program::knows),
        ("pytorch_training.py", Program::PyTorch, trained),
        ("dynet_training.py", Program::DyNet, trained),
    ];
    for (script, program, knows) in scripts {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers").join(script);
        let text = fs::read_to_string(path).unwrap();
        let (_, models) = text.split_once("\nMODELS = {").unwrap();
        let (models, _) = models.split_once("\n}").unwrap();
        for (model, _) in FAMILIES {
            let has = models.contains(&format!("\"{model}\":"));
            assert_eq!(has, knows(program, model), "{model} in {script}");
        }
    }
}

#[test]
fn a_record_names_its_program() {
    for program in Program::ALL {
        for (model, _) in FAMILIES {
            assert_eq!(Program::of_system(program.system(model)), Some(program));
        }
    }
    assert_eq!(Program::of_system("edbatch"), None);
}

/// A captured graph reads the tensors of its mini-batch by address.
#[test]
fn replayed_mini_batches_keep_their_inputs() {
    if let Err(missing) = Program::PyTorch.version() {
        return edbatch_testing::skip(&missing);
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/test_replayed.py");
    let python = std::env::var_os("EDBATCH_PYTHON").unwrap_or_else(|| "python3".into());
    let test = std::process::Command::new(python).arg("-B").arg(script).output();
    let (code, printed, message) = outcome(test.unwrap());
    let expected = "three mini-batches replayed, in inference and in training\n";
    assert_eq!((code, &*printed), (Some(0), expected), "{message}");
}

#[test]
fn tables_of_speeds_have_their_columns() {
    let blocks = blocks(&sample::records());
    for (name, header, row) in [
        ("main", "|model, inputs|inputs/s|/ PyTorch|/ DyNet|/ paper|", "set0|38,281|4.0|5.0|1.4|"),
        (
            "sizes",
            "|model|set|H|batch|inst/s|±|of peak|/ unbatched|/ op by op|/ cells|/ paper|",
            "|38,281|5.0 %|98 %|",
        ),
    ] {
        let (_, table) = blocks.iter().find(|(block, _)| *block == name).unwrap();
        let table = table.as_ref().unwrap();
        assert!(table.contains(header) && table.contains(row), "{table}");
        assert!(table.lines().all(|line| line.chars().count() <= 100), "{table}");
    }
}

#[test]
fn the_block_of_the_soak_omits_its_speed() {
    let blocks = blocks(&sample::records());
    let (_, text) = blocks.iter().find(|(block, _)| *block == "soak").unwrap();
    let text = text.as_ref().unwrap();
    assert!(text.contains("reference bits") && !text.contains("speed"), "{text}");
}

#[test]
fn the_table_of_peers_has_the_best_of_each_program() {
    let records = sample::records();
    let blocks = blocks(&records);
    let (_, table) = blocks.iter().find(|(name, _)| *name == "peers").unwrap();
    let table = table.as_ref().unwrap();
    let header = "|model|set|H|PyTorch, best|batch|DyNet, best|batch|ours, best|batch|/ PyTorch|";
    assert!(table.contains(header), "{table}");
    assert!(table.lines().all(|line| line.chars().count() <= 100), "{table}");
    // Ours is 4,000, theirs are 1,000 and 800.
    assert!(
        table.lines().any(|line| line.ends_with("|1,000|256|800|256|4,000|128|4.0|5.0|")),
        "{table}"
    );
}

#[test]
fn the_table_of_training_has_other_programs_where_they_were_measured() {
    let first = &sample::records()[0];
    let record = |peers| {
        let training = Training { instances_per_second: 3_000.0, peers, ..Training::default() };
        Record { figures: Figures::Training(training), ..first.clone() }
    };
    let peer = |program: Program, instances_per_second| {
        let program = program.name().into();
        TrainingPeer { program, instances_per_second, ..TrainingPeer::default() }
    };
    let both = vec![peer(Program::PyTorch, 1_200.0), peer(Program::DyNet, 600.0)];
    let blocks = blocks(&[record(both), record(vec![])]);
    let (_, table) = blocks.iter().find(|(name, _)| *name == "training").unwrap();
    let lines: Vec<&str> = table.as_ref().unwrap().trim_end().lines().rev().collect();
    assert!(lines[0].ends_with("|-|-|-|") && lines[1].ends_with("|1,200|600|2.5|"), "{lines:?}");
    assert!(lines[3].ends_with("|engine|PyTorch|DyNet|ours / best|"), "{lines:?}");
}

/// A script in place of Python. Its first four losses are zero.
const WRONG: &str = r#"#!/bin/sh
[ "$1" = -c ] && echo 1.0 && exit
echo '{"version": "1.0"}'
read line && head -c 16 /dev/zero > "$2/results.f32" && echo '""'
"#;

#[cfg(unix)]
#[test]
fn pytorch_that_is_missing_or_has_other_losses_is_reported() {
    use std::os::unix::fs::PermissionsExt;
    let run = Run::new();
    let python = run.folder().join("python");
    let small = ["--only", "training", "--peers", "--models", "tree_lstm", "--hidden", "8"];
    let outcome_of = |more: &[&str]| {
        let mut command = run.command(&[&small, more]);
        outcome(command.env("EDBATCH_PYTHON", &python).output().unwrap())
    };
    let (code, _, message) = outcome_of(&["--minutes", "0.0000001"]);
    assert_eq!(code, Some(0), "{message}");
    assert!(message.starts_with("PyTorch: ") && message.ends_with("; skipped\n"), "{message}");
    fs::write(&python, WRONG).unwrap();
    fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
    let (code, _, message) = outcome_of(&[]);
    assert_eq!(code, Some(1), "{message}");
    assert!(message.contains("PyTorch: the losses of the first 4 steps differ"), "{message}");
    // On a device, it is a failed check of each program.
    if !crate::gpu::has_compiler() {
        return;
    }
    let (code, printed, message) = outcome_of(&["--gpu", "--device", "emulated", "--batch", "2"]);
    assert_eq!(code, Some(1), "{message}");
    let wrong = |program: &str| {
        let found = format!("losses of {program}: {program}: the losses of the first 4 steps");
        printed.lines().any(|line| line.contains("FAILED") && line.contains(&found))
    };
    assert!(wrong("PyTorch, CUDA") && wrong("PyTorch, CUDA graphs"), "{printed}{message}");
}
