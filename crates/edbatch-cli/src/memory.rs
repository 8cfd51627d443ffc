//! The available memory, and a check against it.

use std::fmt::Display;

use super::failure::Failure;

/// Returns the available memory in bytes, or `None` if the system does not report it.
pub(crate) fn available() -> Option<u64> {
    let system = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = system.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let system = line.split_ascii_whitespace().next()?.parse::<u64>().ok()? * 1024;
    Some(in_this_container().map_or(system, |container| system.min(container)))
}

/// Returns the memory in bytes that the limit of a container still allows, if there is a limit.
fn in_this_container() -> Option<u64> {
    let number = |file: &str| -> Option<u64> {
        std::fs::read_to_string(format!("/sys/fs/cgroup/{file}")).ok()?.trim().parse().ok()
    };
    Some(number("memory.max")?.saturating_sub(number("memory.current")?))
}

/// Fails if `needed` bytes exceed `limit`, or the available memory if there is no limit.
pub(crate) fn check(what: &str, needed: u128, limit: Option<u64>) -> Result<(), Failure> {
    let (max, source) = match (limit, available()) {
        (Some(limit), _) => (limit, "allowed"),
        (None, Some(available)) => (available, "available"),
        (None, None) => return Ok(()),
    };
    if needed <= u128::from(max) {
        return Ok(());
    }
    let (max, needed) = (human(u128::from(max)), human(needed));
    Err(Failure::new(format_args!("{what} needs {needed} of memory; {max} are {source}")))
}

/// Fails if a trial allocation of this size fails. Otherwise a task can allocate as much.
pub(crate) fn reserve(what: &dyn Display, bytes: u64) -> Result<(), Failure> {
    let mut probe = Vec::<u8>::new();
    let reserved = probe.try_reserve_exact(usize::try_from(bytes).unwrap_or(usize::MAX));
    // Without this the compiler may remove the allocation and assume that it succeeds.
    std::hint::black_box(&probe);
    let error = |_| {
        let needed = human(bytes.into());
        Failure::new(format_args!(
            "{what}: out of memory: failed to allocate {needed} for the graph"
        ))
    };
    reserved.map_err(error)
}

/// Formats a number of bytes in kB, MB or GB.
pub(crate) fn human(bytes: u128) -> String {
    match bytes {
        0..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}
