//! The rules of `docs/ARCHITECTURE.md` for the sources: dependencies between crates, the places of
//! `unsafe`, unique names of public types, and the width of text.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The workspace's crates that each crate may depend on, outside of tests, without `edbatch-`.
const ALLOWED: [(&str, &str); 14] = [
    ("crates/pqtree", ""),
    ("crates/edbatch-graph", ""),
    ("datasets", ""),
    ("crates/edbatch-policy", "graph"),
    ("crates/edbatch-layout", "graph pqtree"),
    ("crates/edbatch-runtime", "graph layout"),
    ("crates/edbatch-cuda", "graph layout runtime"),
    ("crates/edbatch-models", "graph"),
    ("crates/edbatch-zoo", "datasets graph models"),
    ("crates/edbatch", "cuda datasets graph layout models policy runtime zoo"),
    ("crates/edbatch-cli", "edbatch datasets graph layout policy runtime"),
    ("crates/edbatch-testing", "datasets graph layout policy runtime"),
    ("crates/edbatch-c", "edbatch"),
    ("crates/edbatch-python", "edbatch cli"),
];

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The dependencies in a manifest, except development dependencies.
fn dependencies(manifest: &str) -> Vec<&str> {
    let (mut names, mut is_list) = (Vec::new(), false);
    for line in manifest.lines() {
        if let Some(title) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            let is_of_tests = title.contains("dev-dependencies");
            is_list = !is_of_tests && title.ends_with("dependencies");
            let named = title.split_once("dependencies.").filter(|_| !is_of_tests);
            names.extend(named.map(|(_, name)| name));
        } else if is_list && line.starts_with(|c: char| c.is_ascii_alphanumeric()) {
            names.extend(line.split(['.', ' ', '=']).next());
        }
    }
    names
}

#[test]
fn dependencies_are_found_in_every_kind_of_section() {
    let manifest = "[dependencies]\na = \"1\"\n# none\nb.workspace = true\n[dev-dependencies]\nc = \
                    \"1\"\n[target.'cfg(unix)'.dependencies]\nd = \"1\"\n[dependencies.e]\nversion \
                    = \"1\"\n[build-dependencies]\nf = \"1\"\n[dev-dependencies.g]\nversion = \
                    \"1\"\n[features]\nh = []\n";
    assert_eq!(dependencies(manifest), ["a", "b", "d", "e", "f"]);
}

#[test]
fn crates_depend_only_on_what_the_architecture_allows() {
    for (folder, allowed) in ALLOWED {
        let manifest = fs::read_to_string(root().join(folder).join("Cargo.toml")).unwrap();
        for name in dependencies(&manifest) {
            let ours = name.starts_with("edbatch") || name == "pqtree";
            let short = name.strip_prefix("edbatch-").unwrap_or(name);
            let allowed = allowed.split(' ').any(|allowed| allowed == short);
            assert!(!ours || allowed, "{folder} must not depend on {name}");
        }
    }
}

/// The crates with unsafe code, and their files and folders that may contain it.
const UNSAFE: [(&str, &[&str]); 6] = [
    ("crates/edbatch-testing", &["allocations.rs"]),
    ("crates/edbatch-runtime", &["backend/borrowed.rs", "kernels", "thread_pool.rs"]),
    ("crates/edbatch-c", &["pointers.rs", "pointers"]),
    ("crates/edbatch-cli", &["reserve.rs"]),
    ("crates/edbatch-python", &["borrowed.rs"]),
    (
        "crates/edbatch-cuda",
        &[
            "emulated.rs",
            "emulated",
            "nvidia.rs",
            "nvidia",
            "nvrtc.rs",
            "tests/trained/borrowed.rs",
        ],
    ),
];

/// The feature `cuda` concerns only the re-export of the device crate, the command, and the file of
/// the C interface that opens devices, with it and without.
#[test]
fn only_the_re_export_the_command_and_c_devices_know_the_feature_cuda() {
    for (folder, _) in ALLOWED {
        for path in sources(&root().join(folder).join("src")) {
            let text = fs::read_to_string(&path).unwrap();
            let is_command = folder == "crates/edbatch-cli";
            let allowed = match () {
                () if path.ends_with("edbatch/src/lib.rs") => 1,
                () if path.ends_with("edbatch-c/src/device.rs") => 2,
                () => 0,
            };
            let count = text.matches("feature = \"cuda\"").count();
            assert!(is_command || count <= allowed, "{} knows the feature cuda", path.display());
        }
    }
}

#[test]
fn unsafe_stands_where_the_architecture_allows_it_alone() {
    for (folder, _) in ALLOWED {
        let library = fs::read_to_string(root().join(folder).join("src/lib.rs")).unwrap();
        if UNSAFE.iter().all(|(crate_folder, _)| folder != *crate_folder) {
            assert!(
                library.contains("#![forbid(unsafe_code)]"),
                "{folder} must forbid unsafe code"
            );
        }
    }
    for (folder, allowed) in UNSAFE {
        let source = root().join(folder).join("src");
        for path in sources(&source) {
            let text = fs::read_to_string(&path).unwrap();
            let inside = path.strip_prefix(&source).unwrap();
            let allowed = allowed.iter().any(|name| inside.starts_with(name));
            assert!(allowed || !text.contains("unsafe "), "{} must not be unsafe", path.display());
        }
    }
}

/// `pqtree` is an independent library, so its type names may also occur in other crates.
#[test]
fn no_two_public_types_have_the_same_name() {
    let mut declared: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (folder, _) in ALLOWED.iter().filter(|(folder, _)| *folder != "crates/pqtree") {
        for path in sources(&root().join(folder).join("src")) {
            let text = fs::read_to_string(&path).unwrap();
            for name in text.lines().filter_map(public_type) {
                declared.entry(name.to_string()).or_default().push(path.display().to_string());
            }
        }
    }
    // Check that the scan finds declarations at all.
    assert!(["Engine", "Backend", "Kind", "Dag"].iter().all(|&name| declared.contains_key(name)));
    declared.retain(|_, files| files.len() > 1);
    assert!(declared.is_empty(), "public types with the same name: {declared:#?}");
}

/// Folders in which every line of code, comments or prose has at most 100 characters, except for
/// rows of tables.
const NARROW: [&str; 5] = ["benches", "crates", "datasets", "docs", "xtask"];

#[test]
fn lines_have_at_most_100_characters() {
    let mut files = vec![root().join("README.md"), root().join("CHANGELOG.md")];
    files.extend(NARROW.iter().flat_map(|folder| text_files(&root().join(folder))));
    assert!(files.len() > 50, "the scan found only {} files", files.len());
    for path in files {
        let text = fs::read_to_string(&path).unwrap();
        for (number, line) in (1..).zip(text.lines()) {
            let is_row = line.trim_start_matches("//!").trim_start().starts_with('|');
            let width = if is_row { 0 } else { line.chars().count() };
            assert!(width <= 100, "{}:{number}: {width} characters", path.display());
        }
    }
}

/// A document names a file by its path or in short: `runtime/cpu.rs` is
/// `edbatch-runtime/src/cpu.rs`.
#[test]
fn files_that_the_documents_name_exist() {
    let folders = ["benches", "crates", "datasets", "xtask"];
    let files = folders.iter().flat_map(|folder| sources(&root().join(folder)));
    let short = |path: PathBuf| {
        let path = path.display().to_string();
        [PathBuf::from(path.replace("/src/", "/").replace("edbatch-", "")), PathBuf::from(path)]
    };
    let files: Vec<PathBuf> = files.flat_map(short).collect();
    let documents = [
        "CONTRIBUTING.md",
        "README.md",
        "docs/ARCHITECTURE.md",
        "docs/paper.md",
        "docs/walkthrough.md",
    ];
    for document in documents {
        let text = fs::read_to_string(root().join(document)).unwrap();
        let named = text.split('`').filter(|name| name.ends_with(".rs") && !name.contains(' '));
        for name in named {
            assert!(files.iter().any(|file| file.ends_with(name)), "{document} names {name}");
        }
    }
}

/// Returns the name of the public type that a line declares, if it declares one.
fn public_type(line: &str) -> Option<&str> {
    let item = line.trim_start().strip_prefix("pub ")?;
    let item = item.strip_prefix("unsafe ").unwrap_or(item);
    let (keyword, rest) = item.split_once(' ')?;
    let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    // A macro declares `pub enum $Type`.
    if name.is_empty() {
        return None;
    }
    ["struct", "enum", "trait", "type", "union"].contains(&keyword).then_some(name)
}

/// Returns the Rust files under a folder.
pub(crate) fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut files = text_files(folder);
    files.retain(|path| path.extension().is_some_and(|extension| extension == "rs"));
    files
}

/// Returns the Rust and Markdown files under a folder, without build folders.
fn text_files(folder: &Path) -> Vec<PathBuf> {
    let (mut folders, mut files) = (vec![folder.to_path_buf()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("target") {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs" || end == "md") {
                files.push(path);
            }
        }
    }
    files
}

/// ARCHITECTURE's table of `Backend` has a row for each method, and says which ones have defaults.
#[test]
fn the_contract_of_backends_lists_all_methods() {
    let source = root().join("crates/edbatch-runtime/src/backend.rs");
    let source = fs::read_to_string(source).unwrap();
    let (_, declared) = source.split_once("pub trait Backend").unwrap();
    let (declared, _) = declared.split_once("\n}\n").unwrap();
    let methods: BTreeMap<String, bool> = declared
        .lines()
        .filter_map(|line| line.strip_prefix("    fn "))
        .map(|line| (line.split(['(', '<']).next().unwrap().into(), line.ends_with('{')))
        .collect();
    let text = fs::read_to_string(root().join("docs/ARCHITECTURE.md")).unwrap();
    let (_, table) = text.split_once("| method | default | contract |\n").unwrap();
    let rows: BTreeMap<String, bool> = table
        .lines()
        .skip(1)
        .map_while(|line| line.strip_prefix("| `"))
        .map(|row| {
            let mut cells = row.split(" | ");
            let name = cells.next().unwrap().split('(').next().unwrap();
            (name.into(), cells.next() != Some("none"))
        })
        .collect();
    assert_eq!(rows, methods);
}
