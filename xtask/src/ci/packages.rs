//! Packs every crate as for a registry, and builds each from its package alone.

use std::fs;
use std::process::{self, Command};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::{Failure, root};

/// All that publishing does, but for the upload.
const COMMAND: &str = "publish --workspace --dry-run --allow-dirty --target-dir";

/// Whether every package builds.
///
/// Cargo unpacks the workspace's own packages into its home directory, under a name that depends on
/// the target directory alone, and does not look again: with the usual directory a second run
/// would build against the crates of the first, as long as versions are the same. So each run has
/// a directory of its own, which is removed.
pub(super) fn pass() -> Result<bool, Failure> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let unique = format!("packages-{}-{}", process::id(), now.as_nanos());
    let directory = root().join("target").join(unique);
    let mut cargo = Command::new("cargo");
    cargo.args(COMMAND.split(' ')).arg(&directory).current_dir(root());
    let status = cargo.status().map_err(|e| format!("cargo does not start: {e}"))?;
    if directory.exists() {
        fs::remove_dir_all(&directory).map_err(|e| format!("{}: {e}", directory.display()))?;
    }
    Ok(status.success())
}
