//! Atomic file writes.

use std::fs;
use std::path::Path;

use crate::failure::Failure;

/// Writes a file atomically and creates its folder.
pub fn write_file(path: &Path, contents: &str) -> Result<(), Failure> {
    let failure = |error| format!("{}: {error}", path.display());
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failure)?;
    }
    Ok(edbatch_datasets::write_atomic(path, contents.as_bytes()).map_err(failure)?)
}
