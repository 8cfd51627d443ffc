//! What figures were measured on: without it a record can be compared with nothing.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};
use std::{fs, thread};

use edbatch_runtime::kernels::Level;
use serde::{Deserialize, Serialize};

/// The machine, the compiler, the sources and the day.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name.
    pub processor: String,
    /// Threads that it runs at once.
    pub cores: usize,
    /// The instruction set of our kernels.
    pub isa: String,
    /// What computes.
    pub device: String,
    /// The compiler.
    pub rustc: String,
    /// The commit of the sources; if they were changed since, with `+` and digits that tell one
    /// change from another.
    pub commit: String,
    /// When the run began: `2026-01-31T12:00:00Z`.
    pub date: String,
}

impl Machine {
    /// This one, now.
    #[must_use]
    pub fn here() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            processor: processor().unwrap_or_else(|| "unknown".into()),
            cores: thread::available_parallelism().map_or(1, Into::into),
            isa: Level::detect().name().into(),
            device: "cpu".into(),
            rustc: env!("EDBATCH_RUSTC").into(),
            commit: commit().unwrap_or_else(|| "unknown".into()),
            date: date(now.map_or(0, |now| now.as_secs())),
        }
    }

    /// Whether figures of another run may stand beside those of this one.
    #[must_use]
    pub fn agrees(&self, other: &Self) -> bool {
        let without_date = |machine: &Self| Self { date: String::new(), ..machine.clone() };
        without_date(self) == without_date(other)
    }
}

/// Processor, instruction set, compiler, commit and date in a line.
impl std::fmt::Display for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { processor, cores, isa, rustc, commit, date, .. } = self;
        let rustc = rustc.split(" (").next().unwrap_or_default();
        let day = date.split('T').next().unwrap_or_default();
        write!(f, "{processor}, {cores} cores, {isa}, {rustc}, commit {commit}, {day}")
    }
}

/// As the system names it.
fn processor() -> Option<String> {
    let field = |name: &str| {
        let info = fs::read_to_string("/proc/cpuinfo").ok()?;
        let line = info.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_string())
    };
    let asked = || output("sysctl", &["-n", "machdep.cpu.brand_string"]);
    field("model name").or_else(asked)
}

fn commit() -> Option<String> {
    let folder = ["-C", env!("CARGO_MANIFEST_DIR")];
    let commit = output("git", &[&folder[..], &["rev-parse", "--short=10", "HEAD"]].concat())?;
    let changes = output("git", &[&folder[..], &["diff", "HEAD"]].concat())?;
    if changes.is_empty() {
        return Some(commit);
    }
    let mut hasher = DefaultHasher::new();
    changes.hash(&mut hasher);
    Some(format!("{commit}+{:04x}", hasher.finish() as u16))
}

/// What a program prints, if it is there and succeeds.
fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = output.status.success().then_some(output.stdout)?;
    Some(String::from_utf8(text).ok()?.trim().into())
}

/// A time in seconds since 1970 as ISO 8601, in UTC.
///
/// *Source*: H. Hinnant, "chrono-compatible low-level date algorithms", `civil_from_days`.
fn date(seconds: u64) -> String {
    let (days, time) = (seconds / 86_400, seconds % 86_400);
    // Years begin in March here, so that a leap day is the last; an era has 400 of them.
    let shifted = days + 719_468;
    let (era, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day_of_month = day - (153 * month + 2) / 5 + 1;
    let (year, month) = match month {
        0..10 => (era * 400 + year, month + 3),
        _ => (era * 400 + year + 1, month - 9),
    };
    let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
    format!("{year:04}-{month:02}-{day_of_month:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::date;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_767_225_599, "2025-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(date(seconds), expected);
        }
    }
}
