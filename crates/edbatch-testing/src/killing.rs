//! Tests of processes that are killed while they run.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Returns the names in a folder, sorted.
///
/// # Panics
/// If the folder cannot be read, or a name is not UTF-8.
#[must_use]
pub fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    let name = |entry: fs::DirEntry| entry.file_name().into_string().expect("a name in UTF-8");
    let mut names: Vec<_> = entries.map(|entry| name(entry.expect("an entry"))).collect();
    names.sort();
    names
}

/// Runs a process to its end, as run 0. Then starts it `times` more times and kills it by SIGKILL
/// and SIGTERM in turn, each time after a longer run. The last runs may end before they are killed.
/// `start` and `check` get the number of the run.
///
/// # Panics
/// If run 0 fails, or if all other runs end before they are killed.
pub fn kill_repeatedly(
    times: usize,
    mut start: impl FnMut(usize) -> Child,
    mut check: impl FnMut(usize),
) {
    let started = Instant::now();
    assert!(start(0).wait().expect("waiting succeeds").success());
    let took = started.elapsed();
    check(0);
    let mut interrupted = 0;
    for time in 1..=times {
        let mut child = start(time);
        let share = 1.1 * (time as f64 - 0.5) / times as f64;
        thread::sleep(took.mul_f64(share).min(Duration::from_secs(20)));
        let signal = ["-KILL", "-TERM"][time % 2];
        let mut kill = Command::new("kill");
        let _ = kill.args([signal, &child.id().to_string()]).stderr(Stdio::null()).status();
        interrupted += usize::from(!child.wait().expect("waiting succeeds").success());
        check(time);
    }
    assert!(interrupted > 0, "all of {times} runs ended before they were killed");
}
