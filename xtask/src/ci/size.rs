//! Counts lines of Rust, and fails above the limits.
//!
//! A library's size leaves out its tests: files in folders named `tests`, files named `tests.rs`,
//! and every item below `#[cfg(test)]`. If such an item is a module in a file, the file is left
//! out, too. The end of an item is found by its indentation, which rustfmt keeps.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use crate::{Failure, root};

/// The limit for the libraries without tests, so that a newcomer can read them. It leaves no room:
/// a new line replaces an old one, and only a new capability raises the limit, by its own size.
/// Inference alone had 46,225 lines; gradients, operations, training, networks as data, bf16, the
/// Python package and sessions (2,763 lines, 754 of them for Python) added the others. 500 are call
/// lists with slots, runs of rows as one array, and networks by fingerprint, for layers of PyTorch.
/// 1,773 are the C interface: 26 functions, the checks of their arguments, and opening engines.
/// 1,392 are graphs as arrays, in Rust, in Python and in lines of files; 80 find the free ranges of
/// deep graphs, 75 reserve the rows of large inputs, 11 name pointers of Git LFS, 3 mark
/// what needs a feature, 29 read float64 at the speed of float32, name missing folders,
/// and say which gradients are missing. 883 are unit tiles on devices: which phases they are, their
/// shapes and costs, their place on groups of blocks, packed weights, and generated code. 322 put
/// cells side by side on blocks, as plans show, and divide mini-batches by the rounds of a device.
/// 475 predict the times of plans on devices, and tell the device's time from the launch's and the
/// host's. 371 wait for rows instead of barriers, in two arenas, and multiply many rows in large
/// tiles. 12 let a job have tiles of several shapes. 3,944 are for training on
/// devices: waves, phases and kernels of adjoints, the order of gradients, of a norm and of a
/// logarithm; then losses, sums, totals and updates with their lists, steps as chains of launches,
/// state and its errors, and the options of the command and of Python. 1,012
/// more are steps that are enqueued ahead, and trainers that decide ahead; 77 are unit tiles of
/// phases without products, products of several widths, and smaller tiles of sums. 936 train in
/// memory of another library, in the order of its stream, for layers of PyTorch on CUDA: its trait,
/// chains of launches without a wait, copies and events of both devices, and tensors of Python. 19
/// name the argument of C, or the row, that an error is about. 652 let calls name the row of an
/// argmax, for chains of decoder steps: graphs, plans and their checks, CPU and devices. 220 share
/// large copies between threads, and 142 are products in bf16, and tiles on tensor cores. 200 are
/// tiles of 256 rows whose sums wait in memory, 170 wire graphs as arrays in half of the time, and
/// 40 let a thread work alone after others were stopped.
const MAX_LIBRARIES: usize = 84_280;

/// The limit for `benches`, so that the measurements stay much smaller than the libraries. The
/// store of its plain backend, which sessions need, has 45 lines. 480 are predictions of a device,
/// the parts of its time in records, and the calibration by waves of unit tiles; 88 predict steps
/// of training, and 180 verify training on a device, and 78 verify it on random networks. 312 time
/// it there beside PyTorch. 64 calibrate and predict tiles on tensor cores.
const MAX_BENCHES: usize = 14_747;

/// The limit for the workspace with its tests, so that moving code does not escape the count.
/// 709 of them are the examples `derivations`, `plans` and `networks` with their tests, 170 are
/// `cargo xtask release` and the checks for other systems. 1,325 are unit tiles with their tests.
/// 831 are cells side by side and parts on devices, with their tests. 1,170 are predictions and
/// parts of a device's time with their tests. 610 are waits for rows and large tiles with their
/// tests, and 44 tiles of several shapes with theirs. 7,336 are for training on devices, with their
/// tests. 1,548 are steps and trainers ahead and the verification of training, with their tests;
/// 390 time it and verify random networks. 113 are unit tiles without products, and 109 count
/// barriers and banks of registers. 1,540 train in memory of another library, with the tests and an
/// example that plays that library, and name the arguments of C. 1,230 are chains of decoder steps,
/// 240 shared copies, and 690 tensor cores, with their tests. 630 are the tiles of 256 rows, graphs
/// as arrays, threads that work alone, and the bench of the host's time, with their tests.
const MAX_WORKSPACE: usize = 152_060;

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

/// For each crate, the lines of its library without tests, and all lines.
#[derive(Default)]
struct Sizes(BTreeMap<String, (usize, usize)>);

impl Sizes {
    fn of(sources: &BTreeMap<String, String>) -> Result<Self, String> {
        let mut sizes = Self::default();
        for (path, text) in sources {
            let (library, all) = sizes.0.entry(crate_of(path)).or_default();
            *all += text.lines().count();
            if is_library(path) && !is_test_module(path, sources) {
                *library += without_tests(text).map_err(|error| format!("{path}: {error}"))?;
            }
        }
        Ok(sizes)
    }

    /// The name, the lines and the limit of each total.
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
            let verdict = match lines.saturating_sub(limit) {
                0 => String::new(),
                more => format!(", {more} too many"),
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
    src && !folders.any(|folder| folder == "tests" || folder == "tests.rs")
}

/// Returns true if the file that declares this module, `a.rs` for `a/b.rs`, does so for tests only.
fn is_test_module(path: &str, sources: &BTreeMap<String, String>) -> bool {
    let Some((folder, module)) = path.strip_suffix(".rs").and_then(|path| path.rsplit_once('/'))
    else {
        return false;
    };
    let parents = [format!("{folder}.rs"), format!("{folder}/lib.rs"), format!("{folder}/mod.rs")];
    let declaration = format!("#[cfg(test)]\nmod {module};");
    parents.iter().filter_map(|parent| sources.get(parent)).any(|text| text.contains(&declaration))
}

/// Counts the lines of a file without its items for tests.
fn without_tests(text: &str) -> Result<usize, String> {
    let (mut lines, mut count) = (text.lines(), 0);
    while let Some(line) = lines.next() {
        let Some(indentation) = line.strip_suffix("#[cfg(test)]") else {
            count += 1;
            continue;
        };
        let is_end = |line: &str| {
            let item = line.strip_prefix(indentation).filter(|item| !item.starts_with(' '));
            item.is_some_and(|item| item.starts_with('}') || item.ends_with([';', '}']))
        };
        if !lines.any(is_end) {
            return Err("expected the end of an item below #[cfg(test)]: run cargo fmt".into());
        }
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(files: &[(&str, &str)]) -> Result<Sizes, String> {
        let own = |(path, text): &(&str, &str)| ((*path).into(), (*text).into());
        Sizes::of(&files.iter().map(own).collect())
    }

    #[test]
    fn tests_are_left_out_of_libraries_alone() {
        let source = "mod a;\n#[cfg(test)]\nmod notation;\nfn f() {\n    #[cfg(test)]\n    \
                      {\n        g();\n    }\n}\n#[cfg(test)]\nmod inner {\n    fn g() {}\n}\n";
        let sizes = sizes(&[
            ("crates/a/src/lib.rs", source),
            ("crates/a/src/tests.rs", "1\n"),
            ("crates/a/src/notation.rs", "1\n"),
            ("crates/a/src/tests/f.rs", "1\n"),
            ("crates/a/tests/g.rs", "1\n"),
            ("crates/edbatch-testing/src/lib.rs", "1\n"),
            ("datasets/src/lib.rs", "1\n2\n"),
            ("benches/src/main.rs", "1\n"),
        ])
        .unwrap();
        assert_eq!(sizes.0["crates/a"], (3, 13 + 4));
        assert_eq!(sizes.totals().map(|(_, lines, ..)| lines), [3 + 2, 1, 17 + 4]);
    }

    #[test]
    fn an_item_without_an_end_is_an_error() {
        let spoilt = "#[cfg(test)]\nmod tests {\n    fn f() {}\n";
        let error = sizes(&[("crates/a/src/lib.rs", spoilt)]).err().unwrap();
        assert!(error.starts_with("crates/a/src/lib.rs: expected the end"), "{error}");
    }

    #[test]
    fn one_line_above_a_limit_fails() {
        let text = "x\n".repeat(MAX_BENCHES);
        assert!(sizes(&[("benches/src/a.rs", &text)]).unwrap().are_within_limits());
        let above = sizes(&[("benches/src/a.rs", &text), ("benches/b.rs", "x\n")]).unwrap();
        assert!(!above.are_within_limits());
        let expected =
            format!("benches: {} lines, limit {MAX_BENCHES}, 1 too many\n", MAX_BENCHES + 1);
        assert!(above.table().contains(&expected));
    }
}
