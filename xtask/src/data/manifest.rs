//! The manifest of the full data sets: description, licence, source and checksums.
//!
//! The sets are not part of the repository. `cargo xtask data list` prints the manifest, `fetch`
//! downloads the sets that have a download address, and `check` compares a folder with the
//! manifest. A file may be compressed: `sst/train.txt.gz` counts as `sst/train.txt`, and checksums
//! refer to the uncompressed contents.

#[cfg(test)]
mod tests;

use std::io::BufRead;
use std::path::{Path, PathBuf};

use edbatch_datasets::{Error, open};
use serde::Deserialize;
use sha2::{Digest, Sha256};

/// All data sets.
#[derive(Deserialize)]
pub(crate) struct Manifest {
    /// The sets, trees first.
    pub(crate) sets: Vec<Set>,
}

/// A set of files from one source.
#[derive(Deserialize)]
pub(crate) struct Set {
    /// The name of the set and of its folder.
    pub(crate) name: String,
    /// A description with the number of instances and the size.
    pub(crate) description: String,
    /// The format, in the terms of this crate's readers.
    pub(crate) format: String,
    /// The licence that the authors state.
    pub(crate) licence: String,
    /// The web page of the set.
    pub(crate) source: String,
    /// The way to obtain the files.
    pub(crate) fetch: Fetch,
    /// The files.
    pub(crate) files: Vec<File>,
}

/// The way to obtain the files of a set.
#[derive(Deserialize)]
#[serde(tag = "from", rename_all = "lowercase")]
pub(crate) enum Fetch {
    /// Each file is a separate download, `base/member`.
    Files {
        /// The common beginning of the addresses.
        base: String,
    },
    /// All files are members of one zip archive.
    Zip {
        /// The address of the archive.
        url: String,
    },
    /// All files are members of one tar archive, compressed or not.
    Tar {
        /// The address of the archive.
        url: String,
    },
    /// The files must be prepared by hand.
    Manual {
        /// Instructions.
        steps: String,
    },
}

/// A file of a set.
#[derive(Deserialize)]
pub(crate) struct File {
    /// The path in the folder of all sets, such as `sst/train.txt`.
    pub(crate) path: String,
    /// The name at the source, if the file can be downloaded.
    pub(crate) member: Option<String>,
    /// The uncompressed size.
    pub(crate) bytes: u64,
    /// The SHA-256 of the uncompressed contents, in hexadecimal.
    pub(crate) sha256: String,
}

/// The result of comparing a file with the manifest.
#[derive(Debug)]
pub(crate) enum State {
    /// The file matches the manifest.
    Matches,
    /// The file does not exist, neither plain nor as `.gz`.
    Missing,
    /// The file has other contents.
    Differs {
        /// The uncompressed size.
        bytes: u64,
        /// The SHA-256 of the uncompressed contents.
        sha256: String,
    },
    /// The file cannot be read.
    Unreadable(Error),
}

/// Returns the manifest.
pub(crate) fn manifest() -> Manifest {
    serde_json::from_str(include_str!("manifest.json")).expect("the manifest is tested")
}

impl Manifest {
    /// Returns the set called `name`.
    pub(crate) fn set(&self, name: &str) -> Option<&Set> {
        self.sets.iter().find(|set| set.name == name)
    }
}

impl File {
    /// Compares this file in `dir`, plain or as `.gz`, with the manifest.
    pub(crate) fn check(&self, dir: &Path) -> State {
        let plain = dir.join(&self.path);
        let compressed = PathBuf::from(format!("{}.gz", plain.display()));
        match [plain, compressed].into_iter().find(|path| path.exists()) {
            Some(path) => self.check_at(&path),
            None => State::Missing,
        }
    }

    /// Compares the file at `path`, whatever its name, with the manifest.
    pub(crate) fn check_at(&self, path: &Path) -> State {
        match digest(path) {
            Ok((bytes, sha256)) if (bytes, &sha256) == (self.bytes, &self.sha256) => State::Matches,
            Ok((bytes, sha256)) => State::Differs { bytes, sha256 },
            Err(error) => State::Unreadable(error),
        }
    }
}

/// Returns the size and the SHA-256 of a file's uncompressed contents, read in pieces.
fn digest(path: &Path) -> Result<(u64, String), Error> {
    let unreadable = |source| Error::Open { file: path.display().to_string(), source };
    let mut reader = open(path)?;
    let mut hash = Sha256::new();
    let mut bytes = 0;
    loop {
        let piece = reader.fill_buf().map_err(unreadable)?;
        if piece.is_empty() {
            break;
        }
        hash.update(piece);
        let read = piece.len();
        bytes += read as u64;
        reader.consume(read);
    }
    Ok((bytes, hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()))
}
