//! Results of `infer` with all policies, mini-batch sizes, backends and kinds of inputs.

use edbatch_datasets::fixtures::text::BINARY_TREES;
use edbatch_runtime::kernels::Level;
use edbatch_testing::names;

use crate::support::{MODELS, POLICIES, Scratch, difference, lines};

#[test]
fn policies_batch_sizes_and_threads_agree() {
    for (model, ..) in MODELS {
        let scratch = Scratch::new(&format!("agree-{model}"));
        scratch.init(model);
        let reference = scratch.ok(&["infer", "@model", "--backend", "interpret"]);
        assert_eq!(lines(&reference).len(), 8);
        assert!(lines(&reference).iter().enumerate().all(|(i, line)| line.id == i));
        for batch in ["1", "3", "64"] {
            for policy in POLICIES {
                let words = ["infer", "@model", "--batch", batch, "--policy", policy];
                let one = scratch.ok(&[&words[..], &["--threads", "1"]].concat());
                let two = scratch.ok(&[&words[..], &["--threads", "2"]].concat());
                assert_eq!(one, two, "{model} {batch} {policy}");
                let max = difference(&one, &reference);
                assert!(max < 1e-4, "{model} {batch} {policy}: {max}");
            }
        }
    }
}

#[test]
fn results_and_statistics_are_written_to_files() {
    let scratch = Scratch::new("sent");
    scratch.init("tree_lstm");
    let expected = scratch.ok(&["infer", "@model"]);
    assert_eq!(scratch.ok(&["infer", "@model", "--output", "@out", "--stats", "@stats"]), "");
    assert_eq!(scratch.text("out"), expected);
    let stats = scratch.json("stats");
    assert_eq!(stats["instances"], 8);
    assert!(stats["bound"].as_u64() <= stats["batches"].as_u64());
    assert!(stats["batches"].as_u64() < stats["nodes"].as_u64());
    for phase in ["construct", "schedule", "plan", "execute"] {
        assert!(stats["seconds"][phase].as_f64().unwrap() > 0.0, "{phase}");
    }
    assert!(stats["peak_bytes"].as_u64() > Some(0) && stats["gathered_bytes"].is_u64());
    let kinds = stats["kinds"].as_array().unwrap();
    let sum = |what: &str| kinds.iter().map(|kind| kind[what].as_u64().unwrap()).sum::<u64>();
    assert_eq!(sum("batches"), stats["batches"]);
    assert_eq!(sum("nodes"), stats["nodes"]);
    for kind in kinds {
        let sizes = kind["sizes"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap());
        assert_eq!(sizes.sum::<u64>(), kind["batches"]);
    }
    assert!(stats["missed"].is_null(), "the default policy misses nothing on trees");
}

/// An output must not replace an input or another output, under any name of the file.
#[test]
#[cfg(unix)]
fn outputs_that_are_the_same_file_are_wrong_usage() {
    use std::fs::{hard_link, read};
    use std::os::unix::fs::symlink;
    let scratch = Scratch::new("same-file");
    scratch.init("tree_lstm");
    scratch.write("rule", "not a policy");
    scratch.write("chain.json", r#"{"kinds": ["a"], "nodes": [{"kind": 0, "args": []}]}"#);
    symlink(scratch.path("trees.txt"), scratch.path("link")).unwrap();
    hard_link(scratch.path("trees.txt"), scratch.path("hard")).unwrap();
    symlink(".", scratch.path("here")).unwrap();
    let before = scratch.names();
    let infer = |words: &[&'static str]| [&["infer", "@model"], words].concat();
    let cases = [
        infer(&["--output", "@trees.txt"]),
        infer(&["--output", "@link"]),
        infer(&["--stats", "@hard"]),
        infer(&["--trace", "trees.txt", "--input", "@hard"]),
        infer(&["--stats", "@new", "--output", "@here/new"]),
        infer(&["--trace", "new", "--output", "@new"]),
        infer(&["--stats", "@new", "--trace", "@new"]),
        infer(&["--output", "@model/config.json"]),
        infer(&["--output", "@model/weights.safetensors"]),
        infer(&["--output", "@rule", "--policy", "@rule"]),
        infer(&["--shard", "0/1", "--output-dir", "@", "--stats", "@part-00000.jsonl"]),
        infer(&["--shard", "0/1", "--output-dir", "@", "--trace", "@part-00000.done"]),
        vec!["learn", "@chain.json", "--output", "@here/chain.json"],
        vec!["learn", "@model", "--input", "@hard", "--output", "@link"],
        vec!["schedule", "@chain.json", "--svg", "@chain.json"],
        vec!["schedule", "@chain.json", "--policy", "@rule", "--svg", "@rule"],
    ];
    for words in cases {
        let message = scratch.error_of_usage(&words);
        assert!(message.contains("is the same file as"), "{words:?}: {message}");
        assert_eq!(scratch.names(), before, "{words:?}");
        assert_eq!(read(scratch.path("trees.txt")).unwrap(), BINARY_TREES.as_bytes(), "{words:?}");
    }
    scratch.ok(&["infer", "@model", "--output", "/dev/null", "--stats", "/dev/null"]);
}

#[test]
fn exceeding_the_memory_limit_is_an_error() {
    let scratch = Scratch::new("memory");
    scratch.init("tree_lstm");
    let expected = scratch.ok(&["infer", "@model"]);
    assert_eq!(scratch.ok(&["infer", "@model", "--memory", "1000000000"]), expected);
    let output = scratch.run(&["infer", "@model", "--memory", "1000", "--output", "@out"]);
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains(" bytes, expected at most 1000 bytes"), "{message}");
    assert!(!scratch.path("out").exists());
    let weights = scratch.path("model/weights.safetensors").metadata().unwrap().len();
    let error = scratch.error(&["infer", "@model", "--memory", &(2 * weights).to_string()]);
    assert!(error.contains("make mini-batches smaller"), "{error}");
}

#[test]
fn tables_are_folded_within_the_memory_limit() {
    let scratch = Scratch::new("folded");
    scratch.init("tree_lstm");
    let expected = scratch.ok(&["infer", "@model"]);
    let words = ["infer", "@model", "--fold-tables", "1000000"];
    assert_eq!(scratch.ok(&words), expected);
    assert_eq!(scratch.ok(&[&words[..], &["--memory", "1000000000"]].concat()), expected);
    for (more, says) in [
        (["--memory", "999999"], "--fold-tables 1000000 exceeds --memory 999999"),
        (["--backend", "interpret"], "--fold-tables are not supported by backend interpret"),
    ] {
        let output = scratch.run(&[&words[..], &more].concat());
        assert_eq!(output.status.code(), Some(2));
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(message.contains(says), "{message}");
    }
}

#[test]
fn the_default_precision_is_f32() {
    let scratch = Scratch::new("precision");
    scratch.init("tree_lstm");
    let expected = scratch.ok(&["infer", "@model"]);
    assert_eq!(scratch.ok(&["infer", "@model", "--precision", "f32"]), expected);
    let message = scratch.error_of_usage(&["infer", "@model", "--precision", "f16"]);
    assert!(message.contains("f32, bf16, tf32"), "{message}");
}

/// Rounds factors on every level and in the interpreter; levels that fuse give the same bytes.
#[test]
fn bf16_gives_the_same_bytes_at_all_levels_that_fuse() {
    let scratch = Scratch::new("bf16");
    scratch.init("lattice_lstm");
    let words = ["infer", "@model", "--precision", "bf16"];
    let outputs = |level: Level, more: &[&str]| {
        let mut command = scratch.command(&[&words[..], more].concat());
        let output = command.env("EDBATCH_CPU", level.name()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let levels = Level::available();
    let fusing = levels.iter().filter(|&&level| level != Level::Portable);
    let ways = [["--batch", "1"], ["--fold-tables", "1000000"]];
    let results: Vec<String> =
        fusing.flat_map(|&level| ways.map(|way| outputs(level, &way))).collect();
    assert!(results.windows(2).all(|pair| pair[0] == pair[1]), "{levels:?}");
    let portable = outputs(Level::Portable, &[]);
    let interpreted = outputs(levels[0], &["--backend", "interpret"]);
    let exact = scratch.ok(&["infer", "@model"]);
    for other in results.first().into_iter().chain([&portable, &interpreted]) {
        assert_eq!(other.lines().count(), exact.lines().count());
        assert_ne!(other, &exact);
    }
    scratch.ok(&[&words[..], &["--check-finite"]].concat());
}

/// A mini-batch of 4,096 inputs under a limit of the address space: the failed allocation of the
/// arena is an error.
#[cfg(unix)]
#[test]
fn a_failed_allocation_is_an_error() {
    use std::process::Command;

    let scratch = Scratch::new("address-space");
    scratch.write("trees.txt", MODELS[0].2);
    scratch.ok(&["init", "tree_lstm", "@model", "--hidden", "512", "--input", "@trees.txt"]);
    scratch.write("many.txt", MODELS[0].2.repeat(4096));
    let program = env!("CARGO_BIN_EXE_edbatch");
    let infer = |limit: &str| {
        let script =
            r#"ulimit -v "$1" && exec "$0" infer model --input many.txt --batch 4096 --threads 1"#;
        let mut command = Command::new("sh");
        command.args(["-c", script, program, limit]).current_dir(&scratch.0);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{limit} KiB: {output:?}");
        assert!(output.stdout.is_empty());
        String::from_utf8(output.stderr).unwrap()
    };
    let arena = infer("300000");
    assert!(arena.contains("out of memory") && arena.contains("for the arena"), "{arena}");
    assert!(arena.contains("many.txt:1: the mini-batch") && arena.contains("smaller"), "{arena}");
}

#[test]
fn statistics_report_a_missed_opportunity() {
    let scratch = Scratch::new("missed");
    scratch.init("tree_lstm");
    scratch.ok(&["infer", "@model", "--policy", "depth", "--output", "@out", "--stats", "@stats"]);
    let stats = scratch.json("stats");
    assert_eq!(stats["missed"]["kind"], "output");
    let kinds = stats["kinds"].as_array().unwrap();
    let output = kinds.iter().find(|kind| kind["kind"] == "output").unwrap();
    let missed = output["batches"].as_u64().unwrap() - 1;
    assert_eq!(stats["missed"]["batches"], missed);
    assert!(output["advice"].as_str().unwrap().contains("better schedule"), "{output}");
}

#[test]
fn wide_rows_agree_with_the_reference() {
    let scratch = Scratch::new("wide");
    scratch.write("trees.txt", MODELS[0].2);
    scratch.ok(&["init", "tree_lstm", "@model", "--hidden", "40", "--input", "@trees.txt"]);
    let reference = scratch.ok(&["infer", "@model", "--backend", "interpret"]);
    for batch in ["1", "3", "64"] {
        let got = scratch.ok(&["infer", "@model", "--batch", batch]);
        assert!(difference(&got, &reference) < 1e-4);
    }
}

#[test]
fn an_empty_line_has_no_results() {
    for (model, input) in [
        ("bilstm_tagger", "\nta|O da\n\n"),
        ("bilstm_tagger_char", "\nta|O da\n\n"),
        ("lstm_nmt", "\nwana nina\n\n"),
        ("lattice_lstm", "\n\n\n"),
    ] {
        let scratch = Scratch::new(&format!("empty-{model}"));
        scratch.init(model);
        scratch.write("in", input);
        for backend in ["cpu", "interpret"] {
            let words = ["infer", "@model", "--input", "@in", "--batch", "1", "--backend", backend];
            let got = lines(&scratch.ok(&words));
            assert_eq!(got.len(), 3);
            assert!(got[0].logits.is_empty() && got[2].logits.is_empty());
        }
        assert_eq!(scratch.ok(&["infer", "@model", "--input", "@in"]).lines().count(), 3);
    }
}

#[test]
fn arc_files_are_read() {
    let scratch = Scratch::new("arcs");
    scratch.write("a.arcs.txt", "2\n3\n0 5 6\n0\n1 0 7\n2 1 8 0 40\n\n1\n0\n0\n");
    scratch.ok(&["init", "lattice_lstm", "@model", "--hidden", "4", "--input", "@a.arcs.txt"]);
    let got = lines(&scratch.ok(&["infer", "@model"]));
    assert_eq!(got.iter().map(|line| line.logits.len()).collect::<Vec<_>>(), [2, 0]);
    assert_eq!(got[0].logits[0].len(), 7, "labels up to 6");
    let count = |file| scratch.text(file).lines().count();
    assert_eq!((count("model/chars.txt"), count("model/words.txt")), (9, 41));
    // Word numbers that have no row are <unk>, the same as number 0.
    scratch.write("b.arcs.txt", "1\n2\n0 0\n0\n1 0 99\n");
    scratch.write("c.arcs.txt", "1\n2\n0 0\n0\n1 0 0\n");
    let results = ["@b.arcs.txt", "@c.arcs.txt"]
        .map(|file| scratch.ok(&["infer", "@model", "--input", file]));
    assert_eq!(results[0], results[1]);
}

#[test]
fn init_is_deterministic() {
    let scratch = Scratch::new("seed");
    scratch.init("bilstm_tagger");
    for (dir, seed) in [("@a", "5"), ("@b", "5"), ("@c", "6")] {
        let words = ["init", "bilstm_tagger", dir, "--hidden", "8", "--input", "@tagged.txt"];
        scratch.ok(&[&words[..], &["--seed", seed]].concat());
    }
    let weights = |dir: &str| std::fs::read(scratch.path(dir).join("weights.safetensors")).unwrap();
    assert!(weights("a") == weights("b") && weights("a") != weights("c"));
    assert_eq!(
        names(&scratch.path("a")),
        ["config.json", "tags.txt", "vocab.txt", "weights.safetensors"]
    );
    let vocabulary = scratch.text("a/vocab.txt");
    assert!(vocabulary.starts_with("<unk>\nta\nda\nce\n"), "{vocabulary}");
}
