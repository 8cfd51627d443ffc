//! Packages every crate as for a registry, and builds each from its package.

use std::fs;
use std::process::{self, Command};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::{Failure, root};

/// The cargo command: it publishes without uploading.
const COMMAND: &str = "publish --workspace --dry-run --allow-dirty --target-dir";

/// Returns true if every package builds.
///
/// Cargo unpacks the workspace's packages into its home directory, under a name that depends only
/// on the target directory, and reuses them while the version is the same. So a second run with the
/// same target directory would build the old sources. Each run uses a new directory and removes it.
pub(super) fn pass() -> Result<bool, Failure> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let unique = format!("packages-{}-{}", process::id(), now.as_nanos());
    let directory = root().join("target").join(unique);
    let mut cargo = Command::new("cargo");
    cargo.args(COMMAND.split(' ')).arg(&directory).current_dir(root());
    let status = cargo.status().map_err(|e| format!("failed to start cargo: {e}"))?;
    if directory.exists() {
        fs::remove_dir_all(&directory).map_err(|e| format!("{}: {e}", directory.display()))?;
    }
    Ok(status.success())
}
