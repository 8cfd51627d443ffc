//! Comparison with the expected results of an independent program in double precision.

use std::fs;
use std::path::Path;

use edbatch_testing::shared;

use crate::support::{MODELS, POLICIES, Scratch, difference};

#[test]
fn goldens_agree() {
    let Some(goldens) = shared("goldens") else { return };
    let scratch = Scratch::new("goldens");
    for (model, ..) in MODELS {
        let folder = goldens.join(model);
        let expected = fs::read_to_string(folder.join("expected.jsonl")).unwrap();
        for batch in ["1", "3", "64"] {
            for policy in POLICIES {
                agree(&scratch, &folder, &["--batch", batch, "--policy", policy], &expected);
            }
        }
        agree(&scratch, &folder, &["--backend", "interpret"], &expected);
    }
}

fn agree(scratch: &Scratch, folder: &Path, words: &[&str], expected: &str) {
    let got = scratch.ok(&[&["infer", folder.to_str().unwrap()], words].concat());
    let max = difference(&got, expected);
    assert!(max < 1e-4, "{} {words:?}: {max}", folder.display());
}

#[test]
fn published_graphs_are_scheduled() {
    let Some(graphs) = shared("datasets/graphs") else { return };
    let scratch = Scratch::new("published");
    let graphs = fs::read_dir(graphs).unwrap();
    let mut count = 0;
    for graph in graphs.map(|graph| graph.unwrap().path()) {
        // The command fails if a schedule is invalid, so only counts are compared.
        let report = scratch.ok(&["schedule", graph.to_str().unwrap(), "--json"]);
        let report: Vec<serde_json::Value> = serde_json::from_str(&report).unwrap();
        for policy in &report {
            assert!(policy["bound"].as_u64() <= policy["batches"].as_u64());
            let equal = policy["bound"] == policy["batches"];
            assert_eq!(policy["proved"], equal);
        }
        count += report.len();
    }
    assert_eq!(count, 28 * 6, "six policies need neither learning nor search");
}
