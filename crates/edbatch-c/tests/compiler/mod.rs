//! The C compiler of the machine, and the folder of the header.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Returns a compiler for C, or the one for C++. Without it, skips the running test.
#[track_caller]
pub(crate) fn compiler(variable: &str, default: &str) -> Option<Command> {
    // The variable may have options after the name, as in `CXX="c++ -fsanitize=undefined"`.
    let words = std::env::var(variable).unwrap_or_else(|_| default.into());
    let mut words = words.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or(default));
    if command.arg("--version").output().is_ok_and(|output| output.status.success()) {
        let mut found = Command::new(command.get_program());
        found.args(words);
        return Some(found);
    }
    edbatch_testing::skip(&format!("no compiler `{default}`; to install it: apt install g++"));
    None
}

/// The folder of the crate.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub(crate) fn include() -> PathBuf {
    root().join("include")
}

/// Fails with the output of a command that fails. Returns what it printed.
pub(crate) fn succeed(command: &mut Command) -> String {
    let Output { status, stdout, stderr } =
        command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (out, err) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?}: {status}\n{out}{err}");
    out.into_owned()
}
