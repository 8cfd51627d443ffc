//! Files of a shard that appear whole, and what killed runs leave of them.
//!
//! A file is written beside its place under a name of its own, and locked meanwhile. The system
//! drops the lock of a process that ends, however it ends, so that a partial file without a lock is
//! a leftover; this holds over a network too, where its file system has locks.

use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::failure::Failure;
use super::output::Partial;
use super::sha256::Hash;

/// A file that is written and hashed, and is not there until it is complete.
pub(crate) struct ShardFile {
    writer: BufWriter<File>,
    hash: Hash,
    partial: Partial,
    path: PathBuf,
}

impl ShardFile {
    pub(crate) fn create(path: &Path) -> Result<Self, Failure> {
        let (file, partial) =
            create_locked(path).map_err(|error| Failure::writing(path, &error))?;
        let writer = BufWriter::with_capacity(1 << 16, file);
        Ok(Self { writer, hash: Hash::default(), partial, path: path.to_path_buf() })
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.hash.update(bytes);
        self.writer.write_all(bytes).map_err(|error| Failure::writing(&self.path, &error))
    }

    /// Gives the file its name, once its bytes are on the disk; its hash.
    pub(crate) fn finish(mut self) -> Result<Hash, Failure> {
        self.writer
            .flush()
            // Some systems find out only here that a disk is full.
            .and_then(|()| self.writer.get_ref().sync_all())
            .and_then(|()| fs::rename(&self.partial.0, &self.path))
            .map_err(|error| Failure::writing(&self.path, &error))?;
        Ok(self.hash)
    }
}

fn create_locked(path: &Path) -> io::Result<(File, Partial)> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    loop {
        // Other machines have processes of the same number.
        let unique = RandomState::new().hash_one(std::process::id());
        let partial = path.with_file_name(format!(".{name}.{unique:016x}.partial"));
        let file = match File::create_new(&partial) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            file => file?,
        };
        let locked = file.try_lock();
        // Whoever took it for a leftover, before it was locked, has removed it.
        if matches!(locked, Err(TryLockError::WouldBlock)) || !partial.exists() {
            continue;
        }
        return Ok((file, Partial(partial)));
    }
}

/// Removes what killed runs have left in a folder.
pub(crate) fn remove_leftovers(dir: &Path) -> Result<(), Failure> {
    for path in partials(dir)? {
        let Ok(file) = File::options().write(true).open(&path) else { continue };
        // Its name is no other file's, ever: had it been completed since, it would not be found.
        if file.try_lock().is_ok() {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(Failure::at(&path, format_args!("cannot be removed: {error}")));
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// Files that are being written, and leftovers.
pub(crate) fn partials(dir: &Path) -> Result<Vec<PathBuf>, Failure> {
    let failed = |error: &io::Error| Failure::at(dir, format_args!("cannot be listed: {error}"));
    let mut paths = Vec::new();
    for entry in fs::read_dir(dir).map_err(|error| failed(&error))? {
        let path = entry.map_err(|error| failed(&error))?.path();
        let name = path.file_name().map(OsStr::to_string_lossy).unwrap_or_default();
        if name.starts_with(".part-") && name.ends_with(".partial") {
            paths.push(path);
        }
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leftovers_are_removed_and_files_in_work_are_not() {
        let dir = std::env::temp_dir().join(format!("edbatch-leftovers-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let left = dir.join(".part-00001.jsonl.0123456789abcdef.partial");
        fs::write(&left, "a line").unwrap();
        let others = [".hidden", "part-00001.jsonl", "x.partial"];
        others.iter().for_each(|name| fs::write(dir.join(name), "").unwrap());
        let path = dir.join("part-00002.jsonl");
        let mut file = ShardFile::create(&path).unwrap();
        file.write(b"two\n").unwrap();
        remove_leftovers(&dir).unwrap();
        assert_eq!(partials(&dir).unwrap(), [file.partial.0.clone()]);
        assert!(others.iter().all(|name| dir.join(name).exists()) && !path.exists());
        assert_eq!(file.finish().unwrap().bytes, 4);
        assert_eq!(fs::read_to_string(&path).unwrap(), "two\n");
        drop(ShardFile::create(&path).unwrap());
        assert!(partials(&dir).unwrap().is_empty(), "given up, and removed");
        fs::remove_dir_all(&dir).unwrap();
    }
}
