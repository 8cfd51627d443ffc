//! Results that are not finite, and `infer --check-finite`: the error names the line, the call and
//! the weight.

use edbatch_testing::all_cases;

use crate::support::{Scratch, goldens_small};

/// Overwrites elements of the first tensor whose name contains `name`. `elements` maps the number
/// of columns to the indices of the elements.
fn plant(scratch: &Scratch, name: &str, value: f32, elements: impl Fn(usize) -> Vec<usize>) {
    let file = "model/weights.safetensors";
    let mut weights = scratch.bytes(file);
    let length = u64::from_le_bytes(weights[..8].try_into().unwrap()) as usize;
    let header: serde_json::Value = serde_json::from_slice(&weights[8..8 + length]).unwrap();
    let (_, tensor) =
        header.as_object().unwrap().iter().find(|(key, _)| key.contains(name)).unwrap();
    let columns = tensor["shape"].as_array().unwrap().last().unwrap().as_u64().unwrap();
    let start = 8 + length + tensor["data_offsets"][0].as_u64().unwrap() as usize;
    for element in elements(columns as usize) {
        let at = start + 4 * element;
        weights[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }
    scratch.write(file, weights);
}

/// A golden model with a NaN in the embedding of a word that only one line contains. Returns the id
/// of the line, and the word's row.
fn folder(scratch: &Scratch) -> (usize, usize) {
    let golden = goldens_small().join("tree_lstm");
    std::fs::create_dir(scratch.path("model")).unwrap();
    for file in ["config.json", "vocab.txt", "trees.txt", "weights.safetensors"] {
        scratch.write(&format!("model/{file}"), std::fs::read(golden.join(file)).unwrap());
    }
    let text = |name: &str| scratch.text(name);
    let (trees, words) = (text("model/trees.txt"), text("model/vocab.txt"));
    let contains = |line: &str, word: &str| line.contains(&format!(" {word})"));
    let only = words.lines().enumerate().skip(1).find_map(|(row, word)| {
        let lines = trees.lines().enumerate().filter(|(_, line)| contains(line, word));
        let lines: Vec<usize> = lines.map(|(id, _)| id).collect();
        (lines.len() == 1).then(|| (lines[0], row))
    });
    let (id, row) = only.expect("a word that only one line contains");
    plant(scratch, "embed", f32::NAN, |columns| vec![row * columns + 1]);
    (id, row)
}

#[test]
fn errors_name_the_line_the_call_and_the_weight() {
    let scratch = Scratch::new("check-finite");
    let (id, row) = folder(&scratch);
    let golden = goldens_small().join("tree_lstm");
    let golden = golden.to_str().unwrap();
    let mut backends = vec!["cpu", "interpret"];
    if cfg!(feature = "cuda") && std::process::Command::new("c++").arg("--version").output().is_ok()
    {
        backends.push("cuda-emulated");
    }
    for backend in backends {
        for (batch, check, indices) in [
            ("1", false, false),
            ("3", false, false),
            ("3", true, false),
            ("64", true, false),
            ("1", false, true),
            ("3", true, true),
        ] {
            // Each process compiles kernels for an emulated device, which takes seconds.
            if backend == "cuda-emulated" && batch != "3" && !all_cases() {
                continue;
            }
            let option = indices.then_some("--indices");
            let mut words = vec!["infer", golden, "--backend", backend];
            words.extend(option);
            let expected = scratch.ok(&words);
            let mut words = vec!["infer", "@model", "--backend", backend, "--batch", batch];
            words.extend(check.then_some("--check-finite").into_iter().chain(option));
            let error = scratch.error(&words);
            let place =
                format!("trees.txt:{}: id {id}: expected finite values, got NaN at", id + 1);
            assert!(error.contains(&place), "{error}");
            let cause = format!("is NaN at [{row}, 1]: correct the weights");
            assert!(
                error.contains("of cell leaf, call ") && error.ends_with(&format!("{cause}\n")),
                "{error}"
            );
            let run = scratch.run(&[&words[..], &["--on-error", "record"]].concat());
            assert!(run.status.success());
            let said = String::from_utf8(run.stderr).unwrap();
            assert!(said.contains("1 of 3 inputs failed"), "{said}");
            let weight = "a weight is not finite: tensor embed.weight, which is NaN";
            assert_eq!(said.contains(weight), check, "{said}");
            let got = String::from_utf8(run.stdout).unwrap();
            assert_eq!(got.lines().count(), expected.lines().count());
            for (line, (got, expected)) in got.lines().zip(expected.lines()).enumerate() {
                match line == id {
                    true => assert!(got.contains(&cause) && got.contains("\"error\""), "{got}"),
                    false => assert_eq!(got, expected, "{backend}, mini-batches of {batch}"),
                }
            }
        }
    }
}

/// The matrix of the root overflows, but no result reads it.
#[test]
fn an_overflow_without_effect_is_found_only_with_the_option() {
    let scratch = Scratch::new("check-finite-hidden");
    scratch.init("mv_rnn");
    plant(&scratch, "embed.matrix", 1e37, |columns| (0..columns * columns).collect());
    plant(&scratch, "node.w_m", 40.0, |columns| (0..columns).collect());
    scratch.write("two.txt", "(2 (2 unknown) (2 words))\n");
    let words = ["infer", "@model", "--input", "@two.txt"];
    assert!(scratch.ok(&words).starts_with("{\"id\": 0, \"logits\": [["));
    let error = scratch.error(&[&words[..], &["--check-finite"]].concat());
    let call = "two.txt:1: id 0: expected finite values, got inf at [0, 0] of field M of cell \
                node, call 2 of the input, counted from 0: ";
    assert!(error.contains(call), "{error}");
}

/// Finite results do not change, and the mark of a shard says that it was checked.
#[test]
fn finite_results_do_not_change() {
    let scratch = Scratch::new("check-finite-good");
    for model in ["tree_lstm", "lstm_nmt", "lattice_gru"] {
        let golden = goldens_small().join(model);
        let golden = golden.to_str().unwrap();
        let expected = scratch.ok(&["infer", golden]);
        assert_eq!(scratch.ok(&["infer", golden, "--check-finite"]), expected);
    }
    let golden = goldens_small().join("tree_gru");
    let words = ["infer", golden.to_str().unwrap(), "--shard", "0/2", "--output-dir", "@out"];
    scratch.ok(&words);
    let said = |words: &[&str]| String::from_utf8(scratch.run(words).stderr).unwrap();
    let checked = [&words[..], &["--check-finite"]].concat();
    assert!(
        said(&checked).contains("(run again: the arithmetic was "),
        "it was not checked before"
    );
    assert!(said(&checked).contains("already done"));
}
