//! Files have at most 400 lines, with their tests, and functions at most 80.

use std::fs;
use std::path::{Path, PathBuf};

/// The most lines of a file, with its tests.
const FILE: usize = 400;
/// The most lines of a function outside of tests.
const FUNCTION: usize = 80;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().into()
}

/// The paths of all Rust files from the root, in order.
fn sources() -> Vec<String> {
    let mut folders = ["benches", "crates", "datasets", "xtask"].map(PathBuf::from).to_vec();
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root().join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let path = folder.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() && !path.ends_with("target") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path.display().to_string());
            }
        }
    }
    files.sort();
    files
}

/// The functions of a file and their lines. rustfmt puts the brace that ends a function at its own
/// indentation.
fn functions(text: &str) -> Vec<(&str, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let lengths = lines.iter().enumerate().filter_map(|(start, line)| {
        let indentation = line.len() - line.trim_start().len();
        let (before, after) = line[indentation..].split_once("fn ")?;
        let words =
            ["async", "const", "extern", "\"C\"", "pub", "pub(crate)", "pub(super)", "unsafe"];
        if !before.split_whitespace().all(|word| words.contains(&word)) {
            return None;
        }
        let name = after.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
        let is_end = |line: &&&str| {
            let end = line.get(indentation..).unwrap_or("");
            line.len() - line.trim_start().len() == indentation
                && (end.starts_with('}') || end.ends_with(';') || end.ends_with('}'))
        };
        let length = 1 + lines[start..].iter().take_while(|line| !is_end(line)).count();
        Some((name, length))
    });
    lengths.collect()
}

#[test]
fn files_are_short() {
    let sources = sources();
    assert!(sources.len() > 300, "the scan found only {} files", sources.len());
    let lines = |path: &String| fs::read_to_string(root().join(path)).unwrap().lines().count();
    let long: Vec<&String> = sources.iter().filter(|path| lines(path) > FILE).collect();
    assert!(long.is_empty(), "files of more than {FILE} lines: {long:?}");
}

#[test]
fn functions_are_short() {
    let mut long = Vec::new();
    for path in sources() {
        if path.contains("/tests/") || path.ends_with("/tests.rs") {
            continue;
        }
        let text = fs::read_to_string(root().join(&path)).unwrap();
        let found = functions(&text).into_iter().filter(|(_, length)| *length > FUNCTION);
        long.extend(found.map(|(name, _)| format!("{path} {name}")));
    }
    assert!(long.is_empty(), "functions of more than {FUNCTION} lines: {long:?}");
}

#[test]
fn the_lines_of_a_function_are_counted() {
    let text = r"trait T {
    fn a(&self) -> u8;
    pub(crate) const fn b(
        x: u8,
    ) -> u8 {
        match x {
        }
    }
}
fn c() {}
// a fn d
";
    assert_eq!(functions(text), [("a", 1), ("b", 6), ("c", 1)]);
}
