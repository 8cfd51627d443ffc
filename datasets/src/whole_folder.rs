//! Folders of files that appear together.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::whole_file::{beside, folder_of, remove_leftovers};

/// A folder that is filled beside its place and then put there; dropped before that, it leaves
/// nothing.
///
/// It is locked meanwhile, as a [`WholeFile`](crate::WholeFile) is, so that what a killed program
/// has left is removed by the next that fills the same folder; where systems lock no folders,
/// leftovers stay.
///
/// ```
/// use edbatch_datasets::WholeFolder;
///
/// # let scratch = std::env::temp_dir().join(format!("edbatch-folder-{}", std::process::id()));
/// # std::fs::create_dir_all(&scratch)?;
/// let path = scratch.join("model");
/// let folder = WholeFolder::create(&path)?;
/// std::fs::write(folder.partial().join("config.json"), "{}")?;
/// assert!(!path.exists());
/// folder.finish()?;
/// assert_eq!(std::fs::read_to_string(path.join("config.json"))?, "{}");
/// # std::fs::remove_dir_all(&scratch)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct WholeFolder {
    partial: PathBuf,
    path: PathBuf,
    /// Holds the lock, where there is one.
    _lock: Option<File>,
}

impl WholeFolder {
    /// Begins a folder, and removes what killed programs have left of it.
    ///
    /// # Errors
    /// If no folder can be made beside its place.
    pub fn create(path: &Path) -> io::Result<Self> {
        let name = path.file_name().unwrap_or_default();
        // A folder that can be written to need not be one that can be listed.
        let _ = remove_leftovers(folder_of(path), |target| target == name);
        loop {
            let partial = beside(path);
            match fs::create_dir(&partial) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                made => made?,
            }
            let lock = File::open(&partial).ok();
            let locked = lock.as_ref().map(File::try_lock);
            // Whoever took it for a leftover, before it was locked, removes it.
            if matches!(locked, Some(Err(TryLockError::WouldBlock))) || !partial.exists() {
                continue;
            }
            return Ok(Self { partial, path: path.to_path_buf(), _lock: lock });
        }
    }

    /// Where its files are written.
    #[must_use]
    pub fn partial(&self) -> &Path {
        &self.partial
    }

    /// Puts the files in their place. What else is in a folder of that name stays.
    ///
    /// # Errors
    /// If they cannot be moved there.
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

impl Drop for WholeFolder {
    fn drop(&mut self) {
        // After success it is no longer there; after failure the error is already on its way.
        let _ = fs::remove_dir_all(&self.partial);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(unix)]
    fn a_leftover_is_removed_and_what_is_under_way_is_not() {
        let name = format!("edbatch-whole-folder-{}", std::process::id());
        let scratch = std::env::temp_dir().join(name);
        let left = scratch.join(".model.9-0123456789abcdef.partial");
        fs::create_dir_all(&left).unwrap();
        fs::write(left.join("weights"), "half").unwrap();
        let path = scratch.join("model");
        let first = WholeFolder::create(&path).unwrap();
        assert!(!left.exists());
        fs::write(first.partial().join("config"), "first").unwrap();
        let second = WholeFolder::create(&path).unwrap();
        assert!(first.partial().exists(), "it is under way");
        fs::write(second.partial().join("config"), "second").unwrap();
        fs::write(second.partial().join("weights"), "whole").unwrap();
        second.finish().unwrap();
        // Into a folder that is there: its other files stay.
        first.finish().unwrap();
        assert_eq!(fs::read_to_string(path.join("config")).unwrap(), "first");
        assert_eq!(fs::read_to_string(path.join("weights")).unwrap(), "whole");
        drop(WholeFolder::create(&path).unwrap());
        assert_eq!(fs::read_dir(&scratch).unwrap().count(), 1);
        fs::remove_dir_all(&scratch).unwrap();
    }
}
