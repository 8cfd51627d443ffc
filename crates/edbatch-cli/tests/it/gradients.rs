//! `edbatch gradients`.

use std::fs;
use std::path::{Path, PathBuf};

use safetensors::SafeTensors;
use serde_json::Value;

use crate::support::Scratch;

/// Returns the folders with gradients by PyTorch.
fn folders() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../edbatch/tests/gradients");
    let mut folders: Vec<_> = fs::read_dir(dir).unwrap().map(|dir| dir.unwrap().path()).collect();
    folders.sort();
    assert_eq!(folders.len(), 9);
    folders
}

/// Asserts that two files have the same tensors, within 1e-5 of each tensor's greatest element.
fn compare(expected: &[u8], got: &[u8], what: &str) {
    let [expected, got] = [expected, got].map(|bytes| SafeTensors::deserialize(bytes).unwrap());
    assert_eq!(expected.len(), got.len());
    let elements = |bytes: &[u8]| -> Vec<f32> {
        bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
    };
    for (name, expected) in expected.tensors() {
        let found = got.tensor(&name).unwrap();
        assert_eq!(found.shape(), expected.shape(), "{what}: {name}");
        let (expected, found) = (elements(expected.data()), elements(found.data()));
        let greatest = expected.iter().fold(1e-5f32, |max, x| max.max(x.abs()));
        for (expected, found) in expected.iter().zip(&found) {
            let near = (expected - found).abs() <= 1e-5 * greatest;
            assert!(near, "{what}: {name}: expected {expected}, got {found}");
        }
    }
}

/// Both backends give the gradients and the loss of PyTorch; on the CPU, with the same bytes for
/// all mini-batches, policies and threads.
#[test]
fn gradients_of_nine_models_equal_those_of_pytorch() {
    let scratch = Scratch::new("gradients");
    for dir in folders() {
        let folder = dir.to_str().unwrap();
        let config: Value =
            serde_json::from_slice(&fs::read(dir.join("config.json")).unwrap()).unwrap();
        let input = dir.join(config["input"].as_str().unwrap());
        let input = input.to_str().unwrap();
        let run = |more: &[&str]| -> Vec<u8> {
            let words = ["gradients", folder, "--input", input, "--output", "@out.safetensors"];
            scratch.ok(&[&words[..], &["--stats", "@stats.json"], more].concat());
            scratch.bytes("out.safetensors")
        };
        let expected = fs::read(dir.join("gradients.safetensors")).unwrap();
        let loss: Value =
            serde_json::from_slice(&fs::read(dir.join("loss.json")).unwrap()).unwrap();
        let mut of_cpu = Vec::new();
        for more in [
            &["--backend", "interpret"][..],
            &[],
            &["--batch", "1", "--threads", "1"],
            &["--batch", "2", "--threads", "2", "--policy", "agenda"],
            &["--policy", "depth", "--threads", "3"],
        ] {
            let got = run(more);
            compare(&expected, &got, &format!("{folder} {more:?}"));
            let stats = scratch.json("stats.json");
            let [expected, found] = [&loss, &stats].map(|value| value["loss"].as_f64().unwrap());
            assert!((expected - found).abs() <= 1e-6 * expected, "{folder}: {found}");
            for count in ["terms", "instances"] {
                assert_eq!(stats[count], loss[count], "{folder}: {count}");
            }
            if more.first() != Some(&"--backend") {
                assert!(stats["seconds"]["back"].as_f64().unwrap() > 0.0);
                of_cpu.push(got);
            }
        }
        assert!(of_cpu.iter().all(|bytes| *bytes == of_cpu[0]), "{folder}");
    }
}

/// No failure leaves an output file.
#[test]
fn failures_name_the_file_and_leave_no_output() {
    let scratch = Scratch::new("gradient-failures");
    scratch.init("tree_lstm");
    let before = scratch.names();
    let words = |input: &'static str| {
        ["gradients", "@model", "--input", input, "--output", "@out.safetensors"]
    };
    scratch.write("bad.txt", "(9 (2 a) (2 b))\n");
    let error = scratch.error(&words("@bad.txt"));
    assert!(error.contains("bad.txt:1:2: expected a class below 5, got \"9\""), "{error}");
    let error = scratch.error(&words("@missing.txt"));
    assert!(error.contains("missing.txt"), "{error}");
    let same = ["gradients", "@model", "--input", "@trees.txt", "--output", "@trees.txt"];
    let error = scratch.error_of_usage(&same);
    assert!(error.contains("--output"), "{error}");
    let policy = [&words("@trees.txt")[..], &["--backend", "interpret", "--policy", "depth"]];
    let error = scratch.error_of_usage(&policy.concat());
    assert!(error.contains("which has no batches"), "{error}");
    let weights = scratch.bytes("model/weights.safetensors");
    let mut spoilt = weights.clone();
    let end = spoilt.len();
    spoilt[end - 400..]
        .chunks_exact_mut(4)
        .for_each(|b| b.copy_from_slice(&f32::NAN.to_le_bytes()));
    scratch.write("model/weights.safetensors", spoilt);
    for more in [&[][..], &["--backend", "interpret"]] {
        let error = scratch.error(&[&words("@trees.txt")[..], more].concat());
        assert!(error.contains("is not finite") && error.contains("trees.txt:1: "), "{error}");
    }
    scratch.write("model/weights.safetensors", weights);
    let help = scratch.ok(&["gradients", "--help"]);
    assert!(help.contains("Example:") && help.contains("--targets"), "{help}");
    let mut expected = [&before[..], &["bad.txt".into()]].concat();
    expected.sort();
    assert_eq!(scratch.names(), expected);
}

/// A translator follows the lines of `--targets`, and needs as many as it has inputs.
#[test]
fn translators_follow_their_targets() {
    let scratch = Scratch::new("gradient-targets");
    scratch.init("lstm_nmt");
    let words = ["gradients", "@model", "--input", "@source.txt", "--output", "@out.safetensors"];
    scratch.ok(&[&words[..], &["--targets", "@target.txt"]].concat());
    scratch.write("short.txt", "a b\n");
    let error = scratch.error(&[&words[..], &["--targets", "@short.txt"]].concat());
    assert!(error.contains("expected a translation of line 2"), "{error}");
}

/// Dropout is for training: the gradients equal the ones of a model without dropout.
#[test]
fn gradients_have_no_dropout() {
    let scratch = Scratch::new("gradient-dropout");
    scratch.init("tree_lstm");
    let init = ["init", "tree_lstm", "@dropped", "--hidden", "8", "--embed", "6", "--input"];
    let rates = ["@trees.txt", "--dropout", "0.5", "--dropout-output", "0.25"];
    scratch.ok(&[&init[..], &rates].concat());
    scratch.ok(&["export", "@dropped", "@network"]);
    let network = scratch.text("network/network.json");
    assert!(network.contains("\"dropout\""), "{network}");
    let gradients = |model: &str, input: &str, more: &[&str]| {
        let words = ["gradients", model, "--input", input, "--output", "@g", "--stats", "@s"];
        scratch.ok(&[&words[..], more].concat());
        let stats = scratch.json("s");
        (stats["loss"].as_f64().unwrap(), scratch.bytes("g"))
    };
    let (loss, expected) = gradients("@model", "@trees.txt", &[]);
    for (model, input) in [("@dropped", "@trees.txt"), ("@network", "@network/calls.jsonl")] {
        for more in [&[][..], &["--batch", "3", "--threads", "2"], &["--backend", "interpret"]] {
            let (found, got) = gradients(model, input, more);
            assert!((found - loss).abs() < 1e-6 * loss, "{model} {more:?}: {found}, not {loss}");
            compare(&expected, &got, &format!("{model} {more:?}"));
        }
        let words = ["evaluate", model, "--input", input, "--metric", "loss"];
        assert_eq!(scratch.ok(&words), format!("loss: {loss:.4}\n"));
    }
}
