//! How much memory there is, and whether something fits.

use super::failure::Failure;

/// Bytes that could be taken now without making others go; `None` where the system does not say.
pub(crate) fn available() -> Option<u64> {
    let system = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = system.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let system = line.split_ascii_whitespace().next()?.parse::<u64>().ok()? * 1024;
    Some(in_this_container().map_or(system, |container| system.min(container)))
}

/// What a container's limit leaves, where there is one.
fn in_this_container() -> Option<u64> {
    let number = |file: &str| -> Option<u64> {
        std::fs::read_to_string(format!("/sys/fs/cgroup/{file}")).ok()?.trim().parse().ok()
    };
    Some(number("memory.max")?.saturating_sub(number("memory.current")?))
}

/// Refuses what needs more than `limit`, or than is available if there is no limit.
pub(crate) fn check(what: &str, needed: u128, limit: Option<u64>) -> Result<(), Failure> {
    let (most, whence) = match (limit, available()) {
        (Some(limit), _) => (limit, "allowed"),
        (None, Some(available)) => (available, "available"),
        (None, None) => return Ok(()),
    };
    if needed <= u128::from(most) {
        return Ok(());
    }
    let most = human(u128::from(most));
    let needed = human(needed);
    Err(Failure::new(format_args!("{what} would take {needed} of memory; {most} are {whence}")))
}

/// Bytes, as people read them.
pub(crate) fn human(bytes: u128) -> String {
    match bytes {
        0..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}
