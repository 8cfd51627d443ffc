//! Files have at most 400 lines, with their tests, and functions at most 80.

use std::fs;
use std::path::PathBuf;

use crate::architecture;

/// The most lines of a file, with its tests.
const FILE: usize = 400;
/// The most lines of a function outside of tests.
const FUNCTION: usize = 80;

/// The paths of all Rust files and their texts, in order of their paths.
fn sources() -> impl Iterator<Item = (String, String)> {
    let folders = ["benches", "crates", "datasets", "xtask"].iter();
    let files =
        folders.flat_map(|folder| architecture::sources(&architecture::root().join(folder)));
    let mut files: Vec<PathBuf> = files.collect();
    files.sort();
    files.into_iter().map(|path| (path.display().to_string(), fs::read_to_string(path).unwrap()))
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
    let sources: Vec<_> = sources().collect();
    assert!(sources.len() > 300, "the scan found only {} files", sources.len());
    let long = sources.iter().filter(|(_, text)| text.lines().count() > FILE);
    let long: Vec<&String> = long.map(|(path, _)| path).collect();
    assert!(long.is_empty(), "files of more than {FILE} lines: {long:?}");
}

#[test]
fn functions_are_short() {
    let mut long = Vec::new();
    for (path, text) in sources() {
        if path.contains("/tests/") || path.ends_with("/tests.rs") {
            continue;
        }
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
