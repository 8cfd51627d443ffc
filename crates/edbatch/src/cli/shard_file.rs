//! The files of a shard: hashed while they are written, visible when they are complete.

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};

use edbatch_datasets::{AtomicFile, partial_files};

use super::failure::Failure;
use super::sha256::Hash;

/// A file that is hashed while it is written, and appears when it is complete.
pub(crate) struct ShardFile {
    file: AtomicFile,
    hash: Hash,
    path: PathBuf,
}

impl ShardFile {
    pub(crate) fn create(path: &Path) -> Result<Self, Failure> {
        let file = AtomicFile::create(path).map_err(|error| Failure::writing(path, &error))?;
        Ok(Self { file, hash: Hash::default(), path: path.to_path_buf() })
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.hash.update(bytes);
        self.file.write_all(bytes).map_err(|error| Failure::writing(&self.path, &error))
    }

    /// Puts the file in place and returns its hash.
    pub(crate) fn finish(self) -> Result<Hash, Failure> {
        self.file.finish().map_err(|error| Failure::writing(&self.path, &error))?;
        Ok(self.hash)
    }
}

/// Removes the leftovers of killed runs of any shard from a folder.
pub(crate) fn remove_leftovers(dir: &Path) -> Result<(), Failure> {
    let removed = edbatch_datasets::remove_leftovers(dir, is_shard_file);
    removed.map_err(|error| {
        Failure::at(dir, format_args!("cannot remove the leftovers of killed runs: {error}"))
    })
}

/// Lists the partial files of shards: those being written, and leftovers.
pub(crate) fn partials(dir: &Path) -> Result<Vec<PathBuf>, Failure> {
    let listed = partial_files(dir, is_shard_file);
    listed.map_err(|error| Failure::at(dir, format_args!("cannot list the folder: {error}")))
}

fn is_shard_file(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b"part-")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn leftovers_are_removed_and_running_processes_keep_their_files() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path();
        let left = dir.join(".part-00001.jsonl.0123456789abcdef.partial");
        fs::write(&left, "a line").unwrap();
        let others = [".hidden", "part-00001.jsonl", "x.partial"];
        others.iter().for_each(|name| fs::write(dir.join(name), "").unwrap());
        let path = dir.join("part-00002.jsonl");
        let mut file = ShardFile::create(&path).unwrap();
        file.write(b"two\n").unwrap();
        assert_eq!(partials(dir).unwrap().len(), 2);
        remove_leftovers(dir).unwrap();
        let under_way = partials(dir).unwrap();
        assert!(under_way.len() == 1 && under_way[0] != left, "{under_way:?}");
        assert!(others.iter().all(|name| dir.join(name).exists()) && !path.exists());
        assert_eq!(file.finish().unwrap().bytes, 4);
        assert_eq!(fs::read_to_string(&path).unwrap(), "two\n");
        drop(ShardFile::create(&path).unwrap());
        assert!(partials(dir).unwrap().is_empty(), "dropped, and removed");
    }
}
