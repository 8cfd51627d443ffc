//! Support for tests: paths to shared data, a record of skipped tests, and exact counts of
//! allocations. With the features `generate` and `networks`, also random inputs and networks, which
//! the benches use too.
//!
//! A skipped test appends a line to the file named by `EDBATCH_SKIPS`, so that it does not count as
//! passed: `cargo xtask ci` prints and counts these lines.
//!
//! Other crates depend on this one by path, without a version, so cargo omits it when they are
//! published.

mod allocations;
#[cfg(feature = "networks")]
mod chained;
#[cfg(feature = "generate")]
pub mod generate;
mod killing;
#[cfg(feature = "networks")]
pub mod networks;
#[cfg(feature = "networks")]
mod subject;

use std::env;
use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;
use std::panic::Location;
use std::path::{Path, PathBuf};
use std::process::Command;

pub use allocations::{CountingAllocator, allocations, with_max_allocation};
#[cfg(feature = "networks")]
pub use chained::{chained, resolved};
pub use killing::{kill_repeatedly, names};
#[cfg(feature = "networks")]
pub use subject::{STYLES, Subject, every_value, planned, policies};

/// The environment variable with the file that lists skipped tests.
const SKIPS: &str = "EDBATCH_SKIPS";

/// The environment variable with the folder of the shared data.
const SHARED: &str = "EDBATCH_SHARED";

/// The environment variable that a test sets for the process that runs it alone.
const ALONE: &str = "EDBATCH_TEST_RUNS_ALONE";

/// The environment variable that is `all` if tests run with all their cases.
const CASES: &str = "EDBATCH_CASES";

/// Returns true if `EDBATCH_CASES` is `all`, as `cargo xtask ci --long` sets it. Otherwise tests
/// leave out cases that rarely find a fault that others do not.
#[must_use]
pub fn all_cases() -> bool {
    env::var_os(CASES).is_some_and(|value| value == "all")
}

/// Returns the number of random cases of a test: all `n`, or a quarter of them, at least one,
/// unless [all cases](all_cases) run.
#[must_use]
pub fn cases(n: u32) -> u32 {
    if all_cases() { n } else { (n / 4).max(1) }
}

/// Returns a result, or records a skipped test and returns `None` if the machine lacks what it
/// needs.
///
/// # Panics
/// If there is any other error.
#[track_caller]
pub fn or_skip<T, E: Display>(result: Result<T, E>, lacks: impl Fn(&E) -> bool) -> Option<T> {
    match result {
        Err(error) if lacks(&error) => skip(&error.to_string()),
        result => return Some(result.unwrap_or_else(|error| panic!("{error}"))),
    }
    None
}

/// Records that the running test, or a part of it, is skipped, and why.
///
/// # Panics
/// If the file named by `EDBATCH_SKIPS` cannot be written.
#[track_caller]
pub fn skip(reason: &str) {
    let test = running_test(Location::caller());
    eprintln!("{test}: skipped: {reason}");
    let Some(file) = env::var_os(SKIPS) else { return };
    let line = format!("{test}\t{}\n", reason.replace(['\n', '\t'], " "));
    // One write per line: other processes append to the same file.
    let appended = OpenOptions::new()
        .append(true)
        .create(true)
        .open(&file)
        .and_then(|mut file| file.write_all(line.as_bytes()));
    appended.unwrap_or_else(|error| panic!("{SKIPS}: {}: {error}", file.display()));
}

/// Returns the path of a file or folder of the shared data. Without it, [skips](skip) the running
/// test and returns `None`.
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

/// Runs the calling test again in a process of its own, because it measures or changes what belongs
/// to a process. Returns true in that process, and false in the other one, once the test has passed
/// there.
///
/// # Panics
/// If the test fails there.
#[must_use]
pub fn runs_alone() -> bool {
    if env::var_os(ALONE).is_some() {
        return true;
    }
    let thread = std::thread::current();
    let test = thread.name().expect("the thread of a test has its name");
    let mut again = Command::new(env::current_exe().expect("a test is a program"));
    again.args(["--exact", test, "--include-ignored", "--nocapture"]).env(ALONE, "1");
    let output = again.output().expect("a test can run again");
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{test}: {said}{errors}");
    false
}

/// Returns `package binary::test`. If the test's thread has no name, the caller's file and line
/// replace the name.
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
    use super::*;

    #[test]
    fn a_quarter_of_the_cases_runs_unless_all_do() {
        let [many, one] = [400, 3].map(cases);
        assert_eq!((many, one), if all_cases() { (400, 3) } else { (100, 1) });
    }

    /// The next test runs this one in a separate process, whose environment variables it sets.
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
