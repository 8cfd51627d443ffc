//! Counts lines of Rust, and fails above the limits.
//!
//! A library's size leaves out its tests: files in folders named `tests`, and every item below
//! `#[cfg(test)]`, together with the files that such a module names.

mod items;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::{Failure, root};
use items::test_items;

/// The limit for the libraries without tests, so that a newcomer can read them.
const MAX_LIBRARIES: usize = 46_500;

/// The limit for `benches`, so that the measurements stay much smaller than the libraries.
const MAX_BENCHES: usize = 12_500;

/// The limit for the workspace with its tests, so that moving code does not escape the count.
const MAX_WORKSPACE: usize = 85_000;

/// Prints the sizes of all crates, and returns whether they are within the limits.
pub(super) fn pass() -> Result<bool, Failure> {
    let mut sources = BTreeMap::new();
    for path in tracked()? {
        let text = fs::read_to_string(root().join(&path))
            .map_err(|e| format!("{path}: {e}; if the file was removed, run `git rm` on it"))?;
        sources.insert(path, text);
    }
    let sizes = Sizes::of(&sources)?;
    print!("{}", sizes.table());
    Ok(sizes.are_within_limits())
}

/// The Rust files that Git tracks.
fn tracked() -> Result<Vec<String>, Failure> {
    let output =
        Command::new("git").args(["ls-files", "-z", "*.rs"]).current_dir(root()).output()?;
    if !output.status.success() {
        return Err(format!("git ls-files: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    let names = String::from_utf8(output.stdout)?;
    Ok(names.split_terminator('\0').map(String::from).collect())
}

/// Lines by crate: those of its library without tests, and all.
#[derive(Default)]
struct Sizes(BTreeMap<String, (usize, usize)>);

impl Sizes {
    fn of(sources: &BTreeMap<String, String>) -> Result<Self, String> {
        let mut library = BTreeMap::new();
        let mut test_files = Vec::new();
        for (path, text) in sources.iter().filter(|(path, _)| is_library(path)) {
            let items = test_items(text).map_err(|e| format!("{path}: {e}"))?;
            for module in items.modules {
                let file = module_file(path, &module, sources)?;
                test_files
                    .push(format!("{}/", file.trim_end_matches("/mod.rs").trim_end_matches(".rs")));
                test_files.push(file);
            }
            library.insert(path.as_str(), text.lines().count() - items.lines);
        }
        let is_test = |path: &str| {
            test_files
                .iter()
                .any(|test| path == test || test.ends_with('/') && path.starts_with(test))
        };
        let mut sizes = Self::default();
        for (path, text) in sources {
            let (of_library, all) = sizes.0.entry(crate_of(path)).or_default();
            *all += text.lines().count();
            if !is_test(path) {
                *of_library += library.get(path.as_str()).unwrap_or(&0);
            }
        }
        Ok(sizes)
    }

    /// Name, lines and limit of each total.
    fn totals(&self) -> [(&'static str, usize, usize); 3] {
        let libraries = self.0.values().map(|(library, _)| library).sum();
        let benches = self.0.get("benches").map_or(0, |(_, all)| *all);
        let workspace = self.0.values().map(|(_, all)| all).sum();
        [
            ("libraries", libraries, MAX_LIBRARIES),
            ("benches", benches, MAX_BENCHES),
            ("workspace", workspace, MAX_WORKSPACE),
        ]
    }

    fn are_within_limits(&self) -> bool {
        self.totals().iter().all(|(_, lines, limit)| lines <= limit)
    }

    fn table(&self) -> String {
        let mut table = format!("{:<24} {:>8} {:>8}\n", "lines of Rust", "library", "all");
        for (name, (library, all)) in &self.0 {
            table.push_str(&format!("{name:<24} {library:>8} {all:>8}\n"));
        }
        for (name, lines, limit) in self.totals() {
            let verdict = if lines <= limit {
                String::new()
            } else {
                format!(", {} too many", lines - limit)
            };
            table.push_str(&format!("{name}: {lines} lines, limit {limit}{verdict}\n"));
        }
        table
    }
}

/// The folder of a file's crate.
fn crate_of(path: &str) -> String {
    let depth = if path.starts_with("crates/") { 2 } else { 1 };
    path.split('/').take(depth).collect::<Vec<_>>().join("/")
}

/// Returns true for a source file of a library or of the command.
fn is_library(path: &str) -> bool {
    let mut folders = path.split('/');
    let src = match folders.next() {
        Some("crates") => {
            folders.next() != Some("edbatch-testing") && folders.next() == Some("src")
        }
        Some("datasets") => folders.next() == Some("src"),
        _ => false,
    };
    src && !folders.any(|folder| folder == "tests")
}

/// Finds the file of a module that `parent` declares.
fn module_file(
    parent: &str,
    module: &str,
    sources: &BTreeMap<String, String>,
) -> Result<String, String> {
    let path = Path::new(parent);
    let is_root = ["lib.rs", "main.rs", "mod.rs"].iter().any(|name| path.ends_with(name));
    let folder =
        if is_root { path.parent().unwrap_or(path).to_owned() } else { path.with_extension("") };
    let candidates = [format!("{module}.rs"), format!("{module}/mod.rs")];
    let files = candidates.map(|name| folder.join(name).to_string_lossy().into_owned());
    let found = files.into_iter().find(|file| sources.contains_key(file));
    found.ok_or_else(|| format!("{parent}: Git tracks no file of the module `{module}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(files: &[(&str, &str)]) -> Result<Sizes, String> {
        let own = |(path, text): &(&str, &str)| ((*path).into(), (*text).into());
        Sizes::of(&files.iter().map(own).collect())
    }

    #[test]
    fn test_modules_leave_out_their_files() {
        let sizes = sizes(&[
            ("crates/a/src/lib.rs", "mod b;\n#[cfg(test)]\nmod c;\n"),
            ("crates/a/src/b.rs", "fn b() {}\n#[cfg(test)]\npub(crate) mod d;\n"),
            ("crates/a/src/b/d.rs", "1\n"),
            ("crates/a/src/c/mod.rs", "1\n2\n"),
            ("crates/a/src/c/e.rs", "1\n2\n3\n"),
            ("crates/a/src/cc.rs", "1\n"),
            ("crates/a/src/tests/f.rs", "1\n"),
            ("crates/a/tests/g.rs", "1\n"),
            ("crates/edbatch-testing/src/lib.rs", "1\n"),
            ("datasets/src/lib.rs", "1\n2\n"),
            ("benches/src/main.rs", "1\n"),
        ])
        .unwrap();
        assert_eq!(sizes.totals().map(|(_, lines, _)| lines), [1 + 1 + 1 + 2, 1, 19]);
        assert_eq!(sizes.0["crates/a"], (3, 15));
        assert!(sizes.table().contains("crates/a                        3       15\n"));
    }

    #[test]
    fn test_modules_without_a_file_are_errors() {
        let error = |source| sizes(&[("crates/a/src/lib.rs", source)]).err().unwrap();
        assert_eq!(
            error("#[cfg(test)]\nmod tests;\n"),
            "crates/a/src/lib.rs: Git tracks no file of the module `tests`"
        );
        assert!(error("#[cfg(test)]\n#[path = \"a.rs\"]\nmod tests;\n").contains("not supported"));
    }

    #[test]
    fn one_line_above_a_limit_fails() {
        let text = "x\n".repeat(MAX_BENCHES);
        assert!(sizes(&[("benches/src/a.rs", &text)]).unwrap().are_within_limits());
        let above = sizes(&[("benches/src/a.rs", &text), ("benches/b.rs", "x\n")]).unwrap();
        assert!(!above.are_within_limits());
        assert!(above.table().contains("benches: 12501 lines, limit 12500, 1 too many\n"));
    }
}
