//! Every published crate has the files and the metadata that registries need.

use std::fs;
use std::path::Path;

use crate::architecture::root;

const PUBLISHED: [&str; 11] = [
    "crates/edbatch",
    "crates/edbatch-cli",
    "crates/edbatch-cuda",
    "crates/edbatch-graph",
    "crates/edbatch-layout",
    "crates/edbatch-models",
    "crates/edbatch-policy",
    "crates/edbatch-runtime",
    "crates/edbatch-zoo",
    "crates/pqtree",
    "datasets",
];

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn every_published_crate_is_listed() {
    let manifests = fs::read_dir(root().join("crates")).unwrap();
    let manifests = manifests.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    for folder in manifests {
        let published = !read(&folder.join("Cargo.toml")).contains("\npublish = false");
        let name = folder.file_name().expect("a folder has a name").to_string_lossy();
        assert_eq!(PUBLISHED.contains(&format!("crates/{name}").as_str()), published, "{name}");
    }
}

#[test]
fn manifests_have_the_metadata_for_registries() {
    for folder in PUBLISHED {
        let manifest = read(&root().join(folder).join("Cargo.toml"));
        for line in ["readme = \"README.md\"", "repository.workspace = true", "all-features = true"]
        {
            assert!(manifest.lines().any(|other| other == line), "{folder}: {line}");
        }
        for (key, max) in [("keywords", 5), ("categories", 5)] {
            let start = format!("{key} = [");
            let list = manifest.lines().find_map(|line| line.strip_prefix(&start)).unwrap_or("");
            let words = list.trim_end_matches(']').split(", ").filter(|word| !word.is_empty());
            assert!((1..=max).contains(&words.count()), "{folder}: {key}");
        }
    }
}

#[test]
fn readmes_are_doctests_and_licences_are_copies() {
    for folder in PUBLISHED {
        let folder = root().join(folder);
        let library = read(&folder.join("src/lib.rs"));
        assert!(library.contains("include_str!(\"../README.md\")"), "{}", folder.display());
        assert!(read(&folder.join("README.md")).contains("```rust"), "{}", folder.display());
        for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
            let expected = read(&root().join(licence));
            assert_eq!(read(&folder.join(licence)), expected, "{}", folder.display());
        }
    }
}
