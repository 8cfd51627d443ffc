//! A progress bar on a terminal, nothing elsewhere.

use std::io::{IsTerminal, stderr, stdout};
use std::path::{Path, PathBuf};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar over the lines of files, whose output goes to standard output or not.
pub(crate) fn over_lines(files: &[PathBuf], to_stdout: bool) -> ProgressBar {
    // A bar between lines of results would only be in their way.
    if !stderr().is_terminal() || (to_stdout && stdout().is_terminal()) {
        return ProgressBar::hidden();
    }
    match files.iter().map(|file| lines(file)).sum() {
        Some(lines) => over(lines),
        None => ProgressBar::new_spinner(),
    }
}

/// A bar over so many steps.
pub(crate) fn over(steps: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::stderr());
    bar.with_style(
        ProgressStyle::with_template("{bar:40} {pos}/{len} {msg} [{elapsed} < {eta}]")
            .expect("a template that is tested"),
    )
}

/// A sign of life while something runs that may take long.
pub(crate) fn of_something(what: &str) -> ProgressBar {
    let spinner = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    spinner
        .set_style(ProgressStyle::with_template("{spinner} {msg} [{elapsed}]").expect("as above"));
    spinner.set_message(what.to_string());
    spinner.enable_steady_tick(Duration::from_millis(500));
    spinner
}

/// Counts the lines of a file that can be read twice and has an instance a line.
fn lines(file: &Path) -> Option<u64> {
    let twice = std::fs::metadata(file).is_ok_and(|metadata| metadata.is_file());
    if !twice || edbatch_models::is_arc_file(file) {
        return None;
    }
    let mut lines = edbatch_datasets::lines(file).ok()?;
    while lines.next_line().ok()?.is_some() {}
    Some(lines.number())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_template_is_one() {
        drop(super::over(3));
        drop(super::of_something("it"));
    }
}
