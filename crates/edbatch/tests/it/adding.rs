//! `docs/adding.md` names all files that an addition touches, and quotes a backend that runs.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use edbatch_graph::Function;

use crate::architecture::root;

/// Files of a library that use a function or an optimizer, but need no line for another one.
const SHARED: [(&str, &str); 1] = [("erf", "crates/edbatch-graph/src/compose.rs")];

fn page() -> String {
    fs::read_to_string(root().join("docs/adding.md")).unwrap()
}

/// The paths in backticks of the numbered items below a heading, without tests and documents.
fn listed(page: &str, heading: &str) -> BTreeSet<String> {
    let section = page.split("\n## ").find(|section| section.starts_with(heading));
    let section = section.unwrap_or_else(|| panic!("no section {heading:?}"));
    let items = section.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit()));
    let paths = items.flat_map(|line| line.split('`').skip(1).step_by(2));
    paths.filter(|path| is_library(path)).map(String::from).collect()
}

/// Returns true for sources of libraries and of the Python package.
fn is_library(path: &str) -> bool {
    let is_source = path.contains("/src/") || path.contains("/python/edbatch/");
    let is_for_tests = path.contains("/tests/") || path.contains("/edbatch-testing/");
    is_source && path.starts_with("crates/") && !is_for_tests
}

/// The sources of libraries that contain a word, in any case, also with an underscore after it.
fn containing(word: &str) -> BTreeSet<String> {
    let (mut folders, mut found) = (vec![PathBuf::from("crates")], BTreeSet::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root().join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let path = folder.join(entry.file_name());
            let name = path.display().to_string();
            if entry.file_type().unwrap().is_dir() {
                folders.extend((!name.ends_with("/target")).then_some(path));
            } else if [".rs", ".h", ".pyi"].iter().any(|end| name.ends_with(end))
                && is_library(&name)
                && has_word(&fs::read_to_string(root().join(&path)).unwrap(), word)
            {
                found.insert(name);
            }
        }
    }
    found
}

fn has_word(text: &str, word: &str) -> bool {
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.map(|found| found.trim_matches('_')).any(|found| found.eq_ignore_ascii_case(word))
}

#[test]
fn the_lists_of_files_are_complete() {
    let page = page();
    for (heading, word) in [
        ("A function of one element", "erf"),
        ("A function made of others", "leaky_relu"),
        ("An optimizer", "adagrad"),
    ] {
        let mut found = containing(word);
        for (_, path) in SHARED.iter().filter(|(of, _)| *of == word) {
            assert!(found.remove(*path), "{path} does not contain {word}: it is not shared");
        }
        assert_eq!(listed(&page, heading), found, "files with {word}");
    }
    assert_eq!(listed(&page, "A function of one element").len(), 8);
}

/// The compiler does not find these if one is forgotten.
#[test]
fn every_function_has_a_method_in_rust_and_in_python() {
    for (path, before) in [
        ("crates/edbatch-graph/src/builder.rs", "pub fn "),
        ("crates/edbatch-python/src/tensor.rs", "fn "),
        ("crates/edbatch-python/python/edbatch/_native.pyi", "def "),
    ] {
        let text = fs::read_to_string(root().join(path)).unwrap();
        for function in Function::ALL {
            let declared = format!("{before}{function}(");
            assert!(text.contains(&declared), "{path} has no {declared:?}");
        }
    }
}

#[test]
fn the_files_exist() {
    let page = page();
    let paths = page.split('`').skip(1).step_by(2);
    let paths = paths.filter(|path| path.contains('/') && !path.contains(char::is_whitespace));
    let missing: Vec<&str> = paths.filter(|path| !root().join(path).exists()).collect();
    assert!(missing.is_empty(), "docs/adding.md names {missing:?}");
}

#[test]
fn the_quoted_backend_is_the_tested_one() {
    let page = page();
    let quoted = page.split("```rs\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    assert!(quoted.lines().count() > 20);
    assert!(include_str!("outside_backend.rs").contains(quoted));
}

#[test]
fn words_are_found_whole() {
    assert!(has_word("DEVICE float erf_(float x)", "erf") && has_word("Erf = \"erf\"", "erf"));
    assert!(!has_word("interface, perf", "erf"));
}
