//! `infer --indices`: names or indices of the largest scores, without the scores.

use std::fs;

use edbatch_testing::all_cases;
use serde_json::Value;

use crate::support::{MODELS, Scratch, goldens_small};

/// The backends that this machine can run.
fn backends() -> Vec<&'static str> {
    let mut backends = vec!["cpu", "interpret"];
    if cfg!(feature = "cuda") && std::process::Command::new("c++").arg("--version").output().is_ok()
    {
        backends.push("cuda-emulated");
    }
    backends
}

/// Returns the index of the largest score of each row of a line: the first, if several are equal.
fn arg_max(line: &Value, rows: &str) -> Vec<u64> {
    let of_row = |row: &Value| {
        let scores = row.as_array().unwrap().iter().map(|score| score.as_f64().unwrap());
        let larger = |best: (u64, f64), next: (u64, f64)| if next.1 > best.1 { next } else { best };
        (0..).zip(scores).reduce(larger).unwrap().0
    };
    line[rows].as_array().unwrap().iter().map(of_row).collect()
}

fn json(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Checks that a line has the identifier and one other member. Returns its list.
fn list<'a>(line: &'a Value, id: usize, key: &str) -> &'a Vec<Value> {
    assert_eq!(line["id"], id);
    assert_eq!(line.as_object().unwrap().len(), 2, "{line}");
    line[key].as_array().unwrap_or_else(|| panic!("{key}: {line}"))
}

#[test]
fn each_index_is_that_of_the_largest_score_that_infer_writes() {
    let scratch = Scratch::new("indices");
    for (model, ..) in MODELS {
        let folder = goldens_small().join(model);
        let folder = folder.to_str().unwrap();
        for backend in backends() {
            // Each process compiles kernels for an emulated device, which takes seconds. Of these
            // models, one has classes, one has tags, and one has tokens.
            let emulated = backend == "cuda-emulated" && !all_cases();
            if emulated && !["tree_gru", "bilstm_tagger", "lstm_nmt"].contains(&model) {
                continue;
            }
            let words = ["infer", folder, "--backend", backend];
            let scores = json(&scratch.ok(&words));
            for batch in if emulated { &["64"][..] } else { &["1", "64"] } {
                let words = [&words[..], &["--indices", "--batch", batch]].concat();
                let indices = json(&scratch.ok(&words));
                assert_eq!(indices.len(), scores.len(), "{words:?}");
                for (id, (got, scores)) in indices.iter().zip(&scores).enumerate() {
                    if let Some(key) =
                        ["tags", "tokens"].into_iter().find(|key| !scores[key].is_null())
                    {
                        assert_eq!(list(got, id, key), scores[key].as_array().unwrap());
                    } else {
                        assert_eq!(*list(got, id, "classes"), arg_max(scores, "logits"));
                    }
                }
            }
        }
    }
}

#[test]
fn a_network_writes_indices_and_classes_may_have_names() {
    let scratch = Scratch::new("indices-named");
    let golden = goldens_small().join("lattice_gru");
    scratch.ok(&["export", golden.to_str().unwrap(), "@network"]);
    let expected = json(&scratch.ok(&["infer", "@network"]));
    let text = scratch.ok(&["infer", "@network", "--indices"]);
    let indices: Vec<Vec<u64>> = expected.iter().map(|line| arg_max(line, "outputs")).collect();
    let lines = indices.iter().enumerate();
    let lines = lines.map(|(id, indices)| format!("{{\"id\": {id}, \"indices\": {indices:?}}}\n"));
    assert_eq!(text, lines.collect::<String>());

    fs::create_dir(scratch.path("model")).unwrap();
    for entry in fs::read_dir(&golden).unwrap().map(Result::unwrap) {
        fs::copy(entry.path(), scratch.path("model").join(entry.file_name())).unwrap();
    }
    let config = fs::read_to_string(golden.join("config.json")).unwrap();
    let config: Value = serde_json::from_str(&config).unwrap();
    let classes = config["classes"].as_u64().unwrap();
    let names: Vec<String> = (0..classes).map(|class| format!("the \"{class}\"")).collect();
    scratch.write("model/classes.txt", names.join("\n"));
    let named = json(&scratch.ok(&["infer", "@model", "--indices"]));
    assert_eq!(named.len(), indices.len());
    for (id, (named, indices)) in named.iter().zip(&indices).enumerate() {
        let expected: Vec<&str> =
            indices.iter().map(|&class| names[class as usize].as_str()).collect();
        assert_eq!(*list(named, id, "classes"), expected);
    }
    scratch.write("model/classes.txt", "one\n");
    let error = scratch.error(&["infer", "@model", "--indices"]);
    let expected = format!("classes.txt: expected {classes} lines, one for each class, got 1");
    assert!(error.contains(&expected), "{error}");
}

/// A shard that was run with another choice of this option runs again.
#[test]
fn marks_of_shards_record_the_option() {
    let scratch = Scratch::new("indices-shard");
    scratch.init("bilstm_tagger");
    let expected = scratch.ok(&["infer", "@model", "--indices"]);
    let words = ["infer", "@model", "--shard", "0/1", "--output-dir", "@out"];
    let with = [&words[..], &["--indices"]].concat();
    let said = |words: &[&str]| String::from_utf8(scratch.run(words).stderr).unwrap();
    assert!(said(&words).contains("done in"));
    let again = said(&with);
    assert!(again.contains("(run again: the arithmetic was "), "{again}");
    assert!(said(&with).contains("already done"));
    assert_eq!(scratch.text("out/part-00000.jsonl"), expected);
    assert!(said(&words).contains(", indices)"));
}
