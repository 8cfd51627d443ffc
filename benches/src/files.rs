//! Files that appear whole, and a folder for a moment.

use std::path::{Path, PathBuf};
use std::{env, fs, io, process};

use crate::workload::Failure;

/// Writes a file whole or not at all, and makes the folder that it lies in.
///
/// # Errors
/// If it cannot be written; the error names it.
pub fn write_file(path: &Path, contents: &str) -> Result<(), Failure> {
    let failure = |error| format!("{}: {error}", path.display());
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failure)?;
    }
    Ok(edbatch_datasets::write_atomic(path, contents.as_bytes()).map_err(failure)?)
}

/// A folder of this process, which goes away with what is in it.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// Makes it; `name` says what for.
    pub(crate) fn new(name: &str) -> io::Result<Self> {
        let path = env::temp_dir().join(format!("edbatch-{name}-{}", process::id()));
        fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed is left to the system.
        let _ = fs::remove_dir_all(&self.0);
    }
}
