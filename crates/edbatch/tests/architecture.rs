//! The direction of the arrows, read from the manifests; and where `unsafe` may stand.

use std::fs;
use std::path::{Path, PathBuf};

/// What each crate may depend on of ours, outside of tests.
const ALLOWED: [(&str, &[&str]); 8] = [
    ("crates/pqtree", &[]),
    ("crates/edbatch-graph", &[]),
    ("datasets", &[]),
    ("crates/edbatch-policy", &["edbatch-graph"]),
    ("crates/edbatch-layout", &["edbatch-graph", "pqtree"]),
    ("crates/edbatch-runtime", &["edbatch-graph", "edbatch-layout"]),
    ("crates/edbatch-models", &["edbatch-graph", "edbatch-datasets"]),
    (
        "crates/edbatch",
        &[
            "edbatch-datasets",
            "edbatch-graph",
            "edbatch-layout",
            "edbatch-models",
            "edbatch-policy",
            "edbatch-runtime",
        ],
    ),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The names in the section `[dependencies]` of a manifest.
fn dependencies(manifest: &str) -> Vec<&str> {
    let section = manifest.split("\n[").find(|section| section.starts_with("dependencies]"));
    let lines = section.unwrap_or("").lines().skip(1);
    lines.filter_map(|line| line.split(['.', ' ', '=']).next()).filter(|n| !n.is_empty()).collect()
}

#[test]
fn crates_depend_only_on_what_the_architecture_says() {
    for (folder, allowed) in ALLOWED {
        let manifest = fs::read_to_string(root().join(folder).join("Cargo.toml")).unwrap();
        for name in dependencies(&manifest) {
            let ours = name.starts_with("edbatch") || name == "pqtree";
            assert!(!ours || allowed.contains(&name), "{folder} must not depend on {name}");
        }
    }
}

#[test]
fn unsafe_stands_in_the_kernels_and_the_thread_pool_alone() {
    for (folder, _) in ALLOWED {
        let library = fs::read_to_string(root().join(folder).join("src/lib.rs")).unwrap();
        if folder != "crates/edbatch-runtime" {
            assert!(
                library.contains("#![forbid(unsafe_code)]"),
                "{folder} must forbid unsafe code"
            );
        }
    }
    let mut files = vec![root().join("crates/edbatch-runtime/src")];
    while let Some(path) = files.pop() {
        if path.is_dir() {
            if !path.ends_with("kernels") {
                files.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
            }
        } else {
            let text = fs::read_to_string(&path).unwrap();
            let pool = path.ends_with("thread_pool.rs");
            assert!(pool || !text.contains("unsafe "), "{} must not be unsafe", path.display());
        }
    }
}
