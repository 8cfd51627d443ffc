//! What tests share: where real data lies, and which tests were skipped for the lack of something;
//! with the feature `networks` random networks, which the benches verify devices by as well.
//!
//! Each test that is skipped appends a line to the file that `EDBATCH_SKIPS` names, so that it does
//! not count as one that passed: `cargo xtask ci` prints and counts them.
//!
//! Crates name this one by its path alone, without a version: it is left out of what they publish.

mod allocations;
mod killing;
#[cfg(feature = "networks")]
pub mod networks;
#[cfg(feature = "networks")]
mod subject;

use std::env;
use std::fs::OpenOptions;
use std::io::Write;
use std::panic::Location;
use std::path::{Path, PathBuf};

pub use allocations::{CountingAllocator, allocations};
pub use killing::{kill_repeatedly, names};
#[cfg(feature = "networks")]
pub use subject::Subject;

/// The variable with the file that lists what was skipped.
const SKIPS: &str = "EDBATCH_SKIPS";

/// The variable with the folder of the shared data.
const SHARED: &str = "EDBATCH_SHARED";

/// Notes that the running test, or a part of it, is skipped, and why.
///
/// # Panics
/// If the file that `EDBATCH_SKIPS` names cannot be written to.
#[track_caller]
pub fn skip(reason: &str) {
    let test = running_test(Location::caller());
    eprintln!("{test}: skipped: {reason}");
    let Some(file) = env::var_os(SKIPS) else { return };
    let line = format!("{test}\t{}\n", reason.replace(['\n', '\t'], " "));
    // One write a line: tests of other processes append to the same file.
    let appended = OpenOptions::new()
        .append(true)
        .create(true)
        .open(&file)
        .and_then(|mut file| file.write_all(line.as_bytes()));
    appended.unwrap_or_else(|error| panic!("{SKIPS}: {}: {error}", file.display()));
}

/// A file or a folder of the shared data; without it, the running test is [skipped](skip).
#[must_use]
#[track_caller]
pub fn shared(path: impl AsRef<Path>) -> Option<PathBuf> {
    let Some(shared) = env::var_os(SHARED) else {
        skip(&format!("{SHARED} is not set, so there is no {}", path.as_ref().display()));
        return None;
    };
    let path = PathBuf::from(shared).join(path);
    if !path.exists() {
        skip(&format!("there is no {}", path.display()));
        return None;
    }
    Some(path)
}

/// `package binary::test`; where the harness gave the thread no name, the place of the call.
fn running_test(caller: &Location<'_>) -> String {
    let package = env::var("CARGO_PKG_NAME").unwrap_or_default();
    let binary = env::current_exe().ok();
    let binary = binary.as_deref().and_then(Path::file_stem).unwrap_or_default().to_string_lossy();
    // Cargo appends a hash to the name.
    let binary = binary.rsplit_once('-').map_or(&*binary, |(name, _)| name);
    match std::thread::current().name() {
        Some(test) if test != "main" => format!("{package} {binary}::{test}"),
        _ => format!("{package} {binary}::{}:{}", caller.file(), caller.line()),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// What the test below does in a process of its own, where it may set variables.
    #[test]
    #[ignore = "run by the other test"]
    fn skips() {
        skip("a reason\nof two lines");
        assert_eq!(shared("nothing"), None);
        assert_eq!(shared(""), None);
    }

    #[test]
    fn skipped_tests_are_listed_with_their_reasons() {
        let file = env::temp_dir().join(format!("edbatch-testing-{}", std::process::id()));
        for shared in [None, Some("/nowhere")] {
            let mut command = Command::new(env::current_exe().unwrap());
            command.args(["--ignored", "--exact", "tests::skips"]).env_remove(SHARED);
            command.env(SKIPS, &file).envs(shared.map(|shared| (SHARED, shared)));
            assert!(command.output().unwrap().status.success());
        }
        let listed = std::fs::read_to_string(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        let name = "edbatch-testing edbatch_testing::tests::skips";
        let expected = [
            "a reason of two lines",
            "EDBATCH_SHARED is not set, so there is no nothing",
            "EDBATCH_SHARED is not set, so there is no ",
            "a reason of two lines",
            "there is no /nowhere/nothing",
            "there is no /nowhere/",
        ];
        let lines: Vec<String> = expected.iter().map(|why| format!("{name}\t{why}")).collect();
        assert_eq!(listed.lines().collect::<Vec<_>>(), lines);
    }
}
