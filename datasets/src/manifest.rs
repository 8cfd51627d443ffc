//! The manifest of the full data sets: description, licence, source and checksums.
//!
//! The sets are not part of the repository. `cargo xtask data list` prints the manifest, `fetch`
//! downloads the sets that have a download address, and `check` compares a folder with the
//! manifest. A file may be compressed: `sst/train.txt.gz` counts as `sst/train.txt`, and checksums
//! refer to the uncompressed contents. Requires the feature `manifest`.

use std::io::BufRead;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::Error;
use crate::open::open;

/// All data sets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The sets, trees first.
    pub sets: Vec<Set>,
}

/// A set of files from one source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Set {
    /// The name of the set and of its folder.
    pub name: String,
    /// A description with the number of instances and the size.
    pub description: String,
    /// The format, in the terms of this crate's readers.
    pub format: String,
    /// The licence that the authors state.
    pub licence: String,
    /// The web page of the set.
    pub source: String,
    /// The way to obtain the files.
    pub fetch: Fetch,
    /// The files.
    pub files: Vec<File>,
}

/// The way to obtain the files of a set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "from", rename_all = "lowercase")]
pub enum Fetch {
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct File {
    /// The path in the folder of all sets, such as `sst/train.txt`.
    pub path: String,
    /// The name at the source, if the file can be downloaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<String>,
    /// The uncompressed size.
    pub bytes: u64,
    /// The SHA-256 of the uncompressed contents, in hexadecimal.
    pub sha256: String,
}

/// The result of comparing a file with the manifest.
#[derive(Debug)]
pub enum State {
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

/// Returns the manifest of this version of the crate.
///
/// ```
/// let manifest = edbatch_datasets::manifest::manifest();
/// assert_eq!(manifest.set("sst").unwrap().files[0].path, "sst/train.txt");
/// ```
pub fn manifest() -> Manifest {
    serde_json::from_str(include_str!("../manifest.json")).expect("the manifest is tested")
}

/// Compares the folder `dir`, which contains a folder per set, with the manifest. Returns the path
/// and the state of every file.
pub fn check(dir: &Path) -> Vec<(String, State)> {
    let files = manifest().sets.into_iter().flat_map(|set| set.files);
    files.map(|file| (file.path.clone(), file.check(dir))).collect()
}

impl Manifest {
    /// Returns the set called `name`.
    pub fn set(&self, name: &str) -> Option<&Set> {
        self.sets.iter().find(|set| set.name == name)
    }
}

impl File {
    /// Compares this file in `dir`, plain or as `.gz`, with the manifest.
    pub fn check(&self, dir: &Path) -> State {
        let plain = dir.join(&self.path);
        let compressed = PathBuf::from(format!("{}.gz", plain.display()));
        match [plain, compressed].into_iter().find(|path| path.exists()) {
            Some(path) => self.check_at(&path),
            None => State::Missing,
        }
    }

    /// Compares the file at `path`, whatever its name, with the manifest.
    pub fn check_at(&self, path: &Path) -> State {
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
