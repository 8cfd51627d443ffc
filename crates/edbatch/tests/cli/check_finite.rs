//! `infer --check-finite`: the input, the cell and the weight at fault are named.

use crate::support::{Scratch, goldens_small};

/// A golden model whose table of words has a NaN in the row of one word; the id of the one line
/// that reads it, and that word's row.
fn folder(scratch: &Scratch) -> (usize, usize) {
    let golden = goldens_small().join("tree_lstm");
    for file in ["config.json", "vocab.txt", "trees.txt", "weights.safetensors"] {
        scratch.write(file, std::fs::read(golden.join(file)).unwrap());
    }
    let text = |name: &str| std::fs::read_to_string(scratch.path(name)).unwrap();
    let (trees, words) = (text("trees.txt"), text("vocab.txt"));
    let reads = |line: &str, word: &str| line.contains(&format!(" {word})"));
    let only = words.lines().enumerate().skip(1).find_map(|(row, word)| {
        let lines = trees.lines().enumerate().filter(|(_, line)| reads(line, word));
        let lines: Vec<usize> = lines.map(|(id, _)| id).collect();
        (lines.len() == 1).then(|| (lines[0], row))
    });
    let (id, row) = only.expect("a word of one line alone");
    let mut weights = std::fs::read(scratch.path("weights.safetensors")).unwrap();
    let length = u64::from_le_bytes(weights[..8].try_into().unwrap()) as usize;
    let header: serde_json::Value = serde_json::from_slice(&weights[8..8 + length]).unwrap();
    let (_, table) =
        header.as_object().unwrap().iter().find(|(name, _)| name.contains("embed")).unwrap();
    let columns = table["shape"][1].as_u64().unwrap() as usize;
    let start = 8 + length + table["data_offsets"][0].as_u64().unwrap() as usize;
    let element = start + 4 * (row * columns + 1);
    weights[element..element + 4].copy_from_slice(&f32::NAN.to_le_bytes());
    scratch.write("weights.safetensors", weights);
    (id, row)
}

#[test]
fn the_line_the_cell_and_the_weight_are_named() {
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
        let expected = scratch.ok(&["infer", golden, "--backend", backend]);
        for batch in ["1", "3", "64"] {
            let words = ["infer", ".", "--check-finite", "--backend", backend, "--batch", batch];
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
            assert!(said.contains("1 of 3 inputs have no results"), "{said}");
            assert!(said.contains(&format!("is NaN at [{row}, 1]")), "the weight is named: {said}");
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

/// What is finite stays as it is, byte by byte, and a shard that was checked is known as such.
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
    assert!(said(&checked).contains("(again: its arithmetic was "), "it was not checked before");
    assert!(said(&checked).contains("done before"));
}
