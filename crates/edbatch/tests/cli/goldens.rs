//! The folders with the expected results of an independent program in double precision.

use std::fs;
use std::path::Path;

use crate::support::{MODELS, Scratch, difference, shared};

#[test]
fn goldens_agree() {
    let Some(shared) = shared("goldens_agree") else { return };
    let scratch = Scratch::new("goldens");
    for (model, ..) in MODELS {
        let folder = shared.join("goldens").join(model);
        let expected = fs::read_to_string(folder.join("expected.jsonl")).unwrap();
        for batch in ["1", "3", "64"] {
            for policy in ["depth", "agenda", "sufficient", "critical"] {
                agree(&scratch, &folder, &["--batch", batch, "--policy", policy], &expected);
            }
        }
        agree(&scratch, &folder, &["--backend", "interpret"], &expected);
    }
}

fn agree(scratch: &Scratch, folder: &Path, words: &[&str], expected: &str) {
    let got = scratch.ok(&[&["infer", folder.to_str().unwrap()], words].concat());
    let most = difference(&got, expected);
    assert!(most < 1e-4, "{} {words:?}: {most}", folder.display());
}
