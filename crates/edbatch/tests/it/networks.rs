//! Networks as data, with outputs that were computed in float64.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use edbatch::models::{CallList, CallLists, Model, network_from_json, network_to_json};
use edbatch::{Engine, EngineOptions};
use edbatch_runtime::Parameters;
use edbatch_testing::shared;
use serde_json::Value;

/// Each folder has a network, its weights, and a line of calls and of outputs for each input.
#[test]
fn networks_of_files_compute_the_expected_outputs() {
    let Some(folders) = shared("networks") else { return };
    let folders = fs::read_dir(folders).unwrap().map(|entry| entry.unwrap().path());
    let mut checked = 0;
    for folder in folders.filter(|path| path.is_dir()) {
        check(&folder);
        checked += 1;
    }
    assert!(checked >= 8, "{checked} folders");
}

fn check(folder: &Path) {
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    let network = network_from_json(&read("network.json")).unwrap();
    let again = network_from_json(&network_to_json(&network).unwrap()).unwrap();
    assert_eq!(again, network, "{}", folder.display());
    let model = CallLists::new(Arc::new(network));
    let weights = fs::read(folder.join("weights.safetensors")).unwrap();
    let parameters = Parameters::from_safetensors(model.network(), &weights).unwrap();
    let calls = read("calls.jsonl");
    let inputs: Vec<CallList> = calls.lines().map(|line| model.read(line).unwrap()).collect();
    let expected: Vec<Value> =
        read("expected.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(inputs.len(), expected.len());
    let run = |batch: usize, threads: usize| {
        let options = EngineOptions::new().threads(threads);
        let mut engine = Engine::with_options(model.clone(), parameters.clone(), options).unwrap();
        let chunks = inputs.chunks(batch).flat_map(|chunk| engine.run(chunk).unwrap());
        chunks.map(|rows| rows.iter().map(<[f32]>::to_vec).collect()).collect::<Vec<Vec<_>>>()
    };
    let outputs = run(64, 1);
    assert!(outputs == run(1, 1) && outputs == run(8, 3), "{}: bits", folder.display());
    for (number, (rows, expected)) in outputs.iter().zip(&expected).enumerate() {
        let expected: Vec<Vec<f64>> = serde_json::from_value(expected["outputs"].clone()).unwrap();
        assert_eq!(rows.len(), expected.len(), "{}: input {number}", folder.display());
        for (got, expected) in rows.iter().zip(&expected) {
            let largest = expected.iter().fold(0.01f64, |max, x| max.max(x.abs()));
            assert_eq!(got.len(), expected.len());
            for (&got, &expected) in got.iter().zip(expected) {
                let error = (f64::from(got) - expected).abs();
                let what = format!("{}, input {number}", folder.display());
                assert!(error <= 1e-5 * largest, "{what}: {got}, expected {expected}");
            }
        }
    }
}
