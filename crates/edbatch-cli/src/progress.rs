//! Progress bars, shown only on a terminal.

use std::io::{IsTerminal, stderr, stdout};
use std::path::{Path, PathBuf};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::corpora::every_nth_line::count_lines;

/// Creates a bar over the lines of files. `to_stdout` says that results go to standard output.
pub(crate) fn over_lines(files: &[PathBuf], to_stdout: bool) -> ProgressBar {
    // Do not draw a bar between lines of results.
    if !stderr().is_terminal() || (to_stdout && stdout().is_terminal()) {
        return ProgressBar::hidden();
    }
    match files.iter().map(|file| lines(file)).sum() {
        Some(lines) => over(lines),
        None => ProgressBar::new_spinner(),
    }
}

/// Creates a bar over `steps` steps.
pub(crate) fn over(steps: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::stderr());
    bar.with_style(
        ProgressStyle::with_template("{bar:40} {pos}/{len} {msg} [{elapsed} < {eta}]")
            .expect("a test checks the template"),
    )
}

/// Creates a spinner for a task of unknown length.
pub(crate) fn spinner(what: &str) -> ProgressBar {
    let spinner = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{spinner} {msg} [{elapsed}]");
    spinner.set_style(style.expect("a test checks the template"));
    spinner.set_message(what.to_string());
    // A tick takes a thread, which may fail to start if memory is limited.
    if stderr().is_terminal() {
        spinner.enable_steady_tick(Duration::from_millis(500));
    }
    spinner
}

/// Counts the lines of a file, if it can be read twice and each line is an input.
fn lines(file: &Path) -> Option<u64> {
    let is_file = std::fs::metadata(file).is_ok_and(|metadata| metadata.is_file());
    if !is_file || edbatch::models::is_arc_file(file) {
        return None;
    }
    count_lines(edbatch_datasets::open(file).ok()?).ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn templates_are_valid() {
        drop(super::over(3));
        drop(super::spinner("it"));
    }
}
