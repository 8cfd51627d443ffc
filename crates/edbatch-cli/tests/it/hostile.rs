//! Wrong usage and invalid files: the exit code, an error of one line with file and position, and
//! no output.

use std::fs;
use std::path::Path;

use edbatch_datasets::fixtures::text;
use edbatch_testing::all_cases;

use crate::support::{Scratch, gz};

#[test]
fn wrong_usage_exits_with_2() {
    let scratch = Scratch::new("usage");
    for words in [
        &[][..],
        &["fly"],
        &["infer"],
        &["infer", "@model", "--batch", "0"],
        &["infer", "@model", "--threads", "x"],
        &["infer", "@model", "--backend", "abacus"],
        &["infer", "@model", "--backend", "interpret", "--policy", "depth"],
        &["infer", "@model", "--policy", "beam:0"],
        &["init", "no_model", "@model", "--hidden", "8", "--input", "x"],
        &["init", "tree_lstm", "@model", "--input", "x"],
        &["init", "tree_lstm", "@model", "--hidden", "0", "--input", "x"],
        &["learn", "--output", "x"],
        &["learn", "@model"],
        &["learn", "@graph", "--output", "x", "--encoding", "none"],
        &["learn", "@graph", "--output", "x", "--input", "y"],
        &["schedule"],
        &["infer", "@model", "--shard", "0/2"],
        &["infer", "@model", "--output-dir", "@out"],
        &["infer", "@model", "--shard", "2/2", "--output-dir", "@out"],
        &["infer", "@model", "--shard", "0/2", "--output-dir", "@out", "--output", "@x"],
        &["shards"],
        &["shards", "check"],
    ] {
        assert_eq!(scratch.run(words).status.code(), Some(2), "{words:?}");
    }
    assert!(!scratch.path("model").exists());
}

#[test]
fn every_help_has_an_example() {
    let scratch = Scratch::new("help");
    for command in ["infer", "init", "learn", "schedule", "shards"] {
        let help = scratch.ok(&[command, "--help"]);
        let (_, example) = help.split_once("\nExample:\n").expect("an example");
        assert!(example.contains(&format!("  edbatch {command} ")), "{help}");
    }
}

/// Checks that the error contains all of `expected`, and that no file is left.
fn check(scratch: &Scratch, words: &[&str], expected: &[&str]) {
    let before = scratch.names();
    let words = [words, &["--output", "@out"]].concat();
    let message = scratch.error(&words);
    for expected in expected {
        assert!(message.contains(expected), "{words:?}: {message}");
    }
    assert_eq!(scratch.names(), before, "{words:?}");
}

#[test]
fn errors_of_inputs_have_a_position() {
    let scratch = Scratch::new("inputs");
    scratch.init("tree_lstm");
    let mut many = text::BINARY_TREES.repeat(40);
    many.push_str("(2 (2 a) (2 b)\n");
    for (name, contents, expected) in [
        ("unbalanced", "(2 a)\n(2 (2 a) (2 b)\n", ":2:15: expected \")\" for 1 open"),
        ("three", "(2 (2 a) (2 b) (2 c))\n", ":1:16: expected \")\" after two children"),
        ("empty", "(2 a)\n\n", ":2:1: expected \"(\""),
        ("late", &many, ":321:15: expected \")\""),
    ] {
        scratch.write(name, contents);
        check(&scratch, &["infer", "@model", "--input", &format!("@{name}")], &[name, expected]);
    }
    let whole = gz(many.as_bytes());
    scratch.write("cut.gz", &whole[..whole.len() / 2]);
    let expected = ["cut.gz:", "expected the rest of the compressed data"];
    check(&scratch, &["infer", "@model", "--input", "@cut.gz"], &expected);
    scratch.write("latin1", b"(2 a)\n(2 \xe4)\n");
    check(&scratch, &["infer", "@model", "--input", "@latin1"], &["latin1:2:4: expected UTF-8"]);
    check(&scratch, &["infer", "@model", "--input", "@none"], &["none", "expected a readable"]);
    let expected = "expected a folder with config.json or network.json, got neither";
    check(&scratch, &["infer", "@none"], &["none: ", "network.json, got no such folder"]);
    check(&scratch, &["infer", "@model/vocab.txt"], &["vocab.txt: ", expected]);
    for backend in ["cpu", "interpret"] {
        for (option, value) in [("--precision", "tf32"), ("--devices", "0,1")] {
            let words = ["infer", "@model", "--backend", backend, option, value];
            let message = scratch.error_of_usage(&words);
            assert!(message.contains("is for backend cuda"), "{message}");
        }
    }
    let evaluate = ["evaluate", "@model", "--metric", "loss", "--input", "@unbalanced"];
    let message = scratch.error_of_usage(&[&evaluate[..], &["--precision", "tf32"]].concat());
    assert!(message.contains("is for backend cuda"), "{message}");
    let device = ["infer", "@model", "--backend", "cuda"];
    if !cfg!(feature = "cuda") {
        check(&scratch, &device, &["does not support backend cuda", "--features cuda"]);
    } else if !Path::new("/dev/nvidia0").exists() {
        check(&scratch, &device, &["CUDA", "install NVIDIA's driver"]);
    }
}

#[test]
fn words_outside_a_lattice_are_an_error() {
    let scratch = Scratch::new("outside");
    scratch.init("lattice_lstm");
    scratch.write("in", "\n{\"chars\": [\"a\", \"b\"], \"words\": [[0, 2, \"abc\"]]}\n");
    let expected = ["in:2:33: expected a word with start < end < 2 characters"];
    check(&scratch, &["infer", "@model", "--input", "@in"], &expected);
}

#[test]
fn errors_of_model_folders_name_the_file() {
    let scratch = Scratch::new("folders");
    scratch.init("tree_lstm");
    let weights = scratch.bytes("model/weights.safetensors");
    let config = scratch.text("model/config.json");
    let with = |name: &str, contents: &[u8], expected: &[&str]| {
        let before = fs::read(scratch.path("model").join(name)).unwrap();
        fs::write(scratch.path("model").join(name), contents).unwrap();
        check(&scratch, &["infer", "@model"], &[&[name], expected].concat());
        fs::write(scratch.path("model").join(name), before).unwrap();
    };
    with("weights.safetensors", &weights[..100], &["not a readable safetensors file"]);
    with(
        "weights.safetensors",
        &replaced(&weights, "node.b_u", "node.b_x"),
        &["tensor node.b_u is missing; the model needs it with shape [8]"],
    );
    let config_with = |from, to| replaced(config.as_bytes(), from, to);
    with("config.json", &config_with("\"hidden\": 8", "\"hidden\": 0"), &["\"hidden\": expected"]);
    with("config.json", &config_with("classes", "glasses"), &["needs \"classes\", got none"]);
    with("config.json", &config_with("tree_lstm", "tree"), &["unknown model `tree`", "tree_lstm"]);
    with("vocab.txt", b"the\n", &["vocab.txt:1:1: expected \"<unk>\""]);
    fs::write(scratch.path("model/config.json"), config_with("\"hidden\": 8", "\"hidden\": 9"))
        .unwrap();
    let expected = ["weights.safetensors: tensor", "expects shape [9, 6], got [8, 6]"];
    check(&scratch, &["infer", "@model"], &expected);
}

#[test]
fn invalid_policies_are_an_error() {
    let scratch = Scratch::new("policies");
    scratch.init("tree_lstm");
    let infer = |policy: &str, expected: &[&str]| {
        check(&scratch, &["infer", "@model", "--policy", policy], expected);
    };
    infer(
        "critcal",
        &["critcal: expected auto, depth, by-depth, agenda, sufficient, critical, critical:pair, "],
    );
    scratch.write("p.json", "{}");
    infer("@p.json", &["p.json: not a learned policy"]);
    scratch.write("p.json", r#"{"format": "edbatch-policy", "version": 2, "kinds": []}"#);
    infer("@p.json", &["p.json: not a learned policy: missing field `encoding`"]);
    scratch.write("p.json", r#"{"format": "edbatch-policy", "version": 3}"#);
    infer("@p.json", &["p.json: expected \"version\": ", ", got 3: learn it again"]);
    let words = ["infer", "@model", "--policy", "critical:pear"];
    let message = scratch.error_of_usage(&words);
    assert!(message.contains("expected critical, critical:pair or critical:soft"), "{message}");
}

#[test]
fn errors_of_graphs_have_a_position() {
    let scratch = Scratch::new("graphs");
    for (text, expected) in [
        ("", "line 1: expected the number of nodes"),
        ("2\n0 0\n0 1 1\n", "line 3: node 1 reads node 1, which does not precede it"),
        ("2\n0 1 1\n0 0\n", "line 2: node 0 reads node 1, which does not precede it"),
        ("2\n0 0\n0 1 7\n", "line 3: node 1 reads node 7, but there are only 2"),
        ("3\n0 0\n0 1 0\n", "line 4: expected 3 nodes, got 2"),
        ("2\n0 0\n0 -1\n", "line 3: expected the number of inputs, got -1"),
        ("99999999999999999999\n", "line 1: expected the number of nodes"),
    ] {
        scratch.write("graph", text);
        let before = scratch.names();
        let message = scratch.error(&["schedule", "@graph", "--svg", "@out"]);
        assert!(message.contains("graph: ") && message.contains(expected), "{message}");
        check(&scratch, &["learn", "@graph"], &["graph: ", expected]);
        assert_eq!(scratch.names(), before);
    }
    let whole = gz(b"2\n0 0\n0 1 0\n");
    scratch.write("graph.gz", &whole[..whole.len() - 9]);
    check(&scratch, &["learn", "@graph.gz"], &["graph.gz: expected text"]);
    check(&scratch, &["learn", "@none"], &["none: expected a readable file"]);
    scratch.write("nothing", "0\n");
    check(&scratch, &["learn", "@nothing"], &["nothing: expected at least one node to learn on"]);
    assert!(scratch.ok(&["schedule", "@nothing"]).contains("0 batches"));
}

#[test]
fn a_model_that_exceeds_the_memory_is_an_error() {
    let scratch = Scratch::new("fit");
    scratch.write("trees.txt", text::BINARY_TREES);
    let before = scratch.names();
    let init = |hidden: &str, more: &[&str]| {
        let words =
            ["init", "tree_lstm", "@deep/model", "--input", "@trees.txt", "--hidden", hidden];
        scratch.error(&[&words[..], more].concat())
    };
    let message = init("30000", &[]);
    assert!(message.contains("tree_lstm needs 1") && message.contains(" GB"), "{message}");
    let message = init("64", &["--memory", "100000"]);
    assert!(message.contains("100.0 kB are allowed"), "{message}");
    init("3000000000", &[]);
    init("1000000", &[]);
    scratch.write("plain", "no tags here\n");
    let words = ["init", "bilstm_tagger", "@model", "--hidden", "8", "--input", "@plain"];
    let expected = "plain:1:1: expected `word|tag word|tag …`, one sentence a line, words \
        separated by spaces, got a file without tags";
    assert!(scratch.error(&words).contains(expected));
    fs::remove_file(scratch.path("plain")).unwrap();
    assert_eq!(scratch.names(), before);
}

/// Under every limit of address space, a run ends with its results or with one line of error.
#[test]
#[cfg(target_os = "linux")]
fn a_run_out_of_memory_is_an_error_under_every_limit() {
    let scratch = Scratch::new("limits");
    scratch.write("trees.txt", text::BINARY_TREES.repeat(250));
    let words = ["init", "tree_lstm", "@model", "--hidden", "128", "--input", "@trees.txt"];
    scratch.ok(&words);
    let infer = ["infer", "@model", "--batch", "2000", "--output", "@out", "--threads"];
    let expected = {
        scratch.ok(&[&infer[..], &["1"]].concat());
        scratch.bytes("out")
    };
    let runs = |threads: &'static str| {
        let mut ended = [0, 0];
        // Runs succeed from about 100 MB on.
        let end = if all_cases() { 400_000 } else { 180_000 };
        for limit in (20_000..end).step_by(8_000) {
            let command = scratch.command(&[&infer[..], &[threads]].concat());
            let _ = fs::remove_file(scratch.path("out"));
            let output = std::process::Command::new("sh")
                .args(["-c", &format!("ulimit -v {limit}; exec \"$@\""), "sh"])
                .arg(command.get_program())
                .args(command.get_args())
                .current_dir(&scratch.0)
                .output()
                .unwrap();
            let message = String::from_utf8(output.stderr).unwrap();
            match output.status.code() {
                Some(0) => assert_eq!(scratch.bytes("out"), expected),
                Some(1) => assert_eq!(message.lines().count(), 1, "{limit} kB: {message}"),
                // The system cannot load the program.
                Some(127) if limit < 40_000 => {}
                other => panic!("{limit} kB, {threads} threads: {other:?}: {message}"),
            }
            ended[usize::from(output.status.success())] += 1;
        }
        ended
    };
    for threads in if all_cases() { &["2", "1"][..] } else { &["2"] } {
        let [failed, succeeded] = runs(threads);
        assert!(failed > 5 && succeeded > 5, "{failed} runs failed, {succeeded} succeeded");
    }
    let message = scratch.error_of_usage(&["infer", "@model", "--threads", "100000"]);
    assert!(message.contains("expected an integer from 1 to 1000"), "{message}");
}

/// Replaces the first occurrence of a text in bytes.
fn replaced(bytes: &[u8], from: &str, to: &str) -> Vec<u8> {
    let at = bytes.windows(from.len()).position(|part| part == from.as_bytes()).unwrap();
    [&bytes[..at], to.as_bytes(), &bytes[at + from.len()..]].concat()
}
