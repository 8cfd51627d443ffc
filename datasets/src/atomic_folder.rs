//! Folders whose files appear together.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::atomic_file::{named, prepare};

/// A folder that is filled under a temporary name and appears at its path when it is complete.
/// Dropping it before [`finish`](Self::finish) removes the partial folder.
///
/// Like an [`AtomicFile`](crate::AtomicFile), it is locked until it is complete. The next process
/// that fills the same folder removes the leftovers of killed processes. On systems that cannot
/// lock folders, leftovers remain.
///
/// ```
/// use edbatch_datasets::AtomicFolder;
///
/// # let scratch = tempfile::tempdir()?;
/// # let scratch = scratch.path();
/// let path = scratch.join("model");
/// let folder = AtomicFolder::create(&path)?;
/// std::fs::write(folder.partial().join("config.json"), "{}")?;
/// assert!(!path.exists());
/// folder.finish()?;
/// assert_eq!(std::fs::read_to_string(path.join("config.json"))?, "{}");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct AtomicFolder {
    partial: TempDir,
    path: PathBuf,
    /// The lock on the partial folder, released when dropped. `None` if the system cannot lock
    /// folders.
    _lock: Option<File>,
}

impl AtomicFolder {
    /// Creates a partial folder, after removing leftovers of the same folder.
    ///
    /// # Errors
    /// If the partial folder cannot be created.
    pub fn create(path: &Path) -> io::Result<Self> {
        let (prefix, parent) = prepare(path);
        loop {
            let partial = named(&prefix).tempdir_in(parent)?;
            let lock = File::open(&partial).ok();
            let locked = lock.as_ref().map(File::try_lock);
            // Another process may have taken the folder for a leftover before it was locked.
            let swept = matches!(locked, Some(Err(TryLockError::WouldBlock)));
            if !swept && partial.path().exists() {
                return Ok(Self { partial, path: path.to_path_buf(), _lock: lock });
            }
        }
    }

    /// Returns the temporary folder, into which the caller writes the files.
    #[must_use]
    pub fn partial(&self) -> &Path {
        self.partial.path()
    }

    /// Moves the files to their final path. If that folder exists, its other files stay.
    ///
    /// # Errors
    /// If a file cannot be moved.
    pub fn finish(self) -> io::Result<()> {
        if !self.path.exists() {
            return fs::rename(&self.partial, &self.path);
        }
        for file in fs::read_dir(&self.partial)? {
            let file = file?;
            fs::rename(file.path(), self.path.join(file.file_name()))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(unix)]
    fn leftovers_are_removed_and_running_processes_keep_theirs() {
        let scratch = tempfile::tempdir().unwrap();
        let left = scratch.path().join(".model.0123456789abcdef.partial");
        fs::create_dir_all(&left).unwrap();
        fs::write(left.join("weights"), "half").unwrap();
        let path = scratch.path().join("model");
        let first = AtomicFolder::create(&path).unwrap();
        assert!(!left.exists());
        fs::write(first.partial().join("config"), "first").unwrap();
        let second = AtomicFolder::create(&path).unwrap();
        assert!(first.partial().exists(), "it is locked");
        fs::write(second.partial().join("config"), "second").unwrap();
        fs::write(second.partial().join("weights"), "whole").unwrap();
        second.finish().unwrap();
        // The folder exists now: its other files stay.
        first.finish().unwrap();
        assert_eq!(fs::read_to_string(path.join("config")).unwrap(), "first");
        assert_eq!(fs::read_to_string(path.join("weights")).unwrap(), "whole");
        drop(AtomicFolder::create(&path).unwrap());
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 1);
    }
}
