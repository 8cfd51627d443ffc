//! The manifest of the full sets: what they are, under which licence, where they come from, and
//! their checksums.
//!
//! None of them lies in the repository. `cargo xtask data list` prints this, `fetch` downloads what
//! is a plain download, and `check` compares a folder with it. A file may be kept compressed:
//! `sst/train.txt.gz` counts as `sst/train.txt`, and checksums are of the uncompressed contents.
//! Needs the feature `manifest`.

use std::io::{self, BufRead};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::Error;
use crate::lines::open;

/// All sets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The sets, trees first.
    pub sets: Vec<Set>,
}

/// A set of files from one source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Set {
    /// Its name, which is also its folder.
    pub name: String,
    /// What it is, how many, how large.
    pub what: String,
    /// Its format, in the words of this crate's readers.
    pub format: String,
    /// The licence that its makers state.
    pub licence: String,
    /// Where it lives.
    pub source: String,
    /// How its files come from there.
    pub fetch: Fetch,
    /// Its files.
    pub files: Vec<File>,
}

/// How the files of a set come from its source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "from", rename_all = "lowercase")]
pub enum Fetch {
    /// Each is a download of its own, `base/member`.
    Files {
        /// What all the addresses begin with.
        base: String,
    },
    /// All are members of one zip archive.
    Zip {
        /// The archive's address.
        url: String,
    },
    /// All are members of one tar archive, compressed or not.
    Tar {
        /// The archive's address.
        url: String,
    },
    /// They are made by hand.
    Hand {
        /// What to do.
        steps: String,
    },
}

/// A file of a set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct File {
    /// Its path in the folder of all sets, such as `sst/train.txt`.
    pub path: String,
    /// Its name at the source, where it can be fetched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<String>,
    /// Its size, uncompressed.
    pub bytes: u64,
    /// The SHA-256 of its uncompressed contents, in hexadecimal digits.
    pub sha256: String,
}

/// How a file on disk compares with the manifest.
#[derive(Debug)]
pub enum State {
    /// As the manifest says.
    Good,
    /// Not there, neither plain nor as `.gz`.
    Missing,
    /// There, with other contents.
    Differs {
        /// Its size, uncompressed.
        bytes: u64,
        /// The SHA-256 of its contents.
        sha256: String,
    },
    /// There, and not to be read.
    Unreadable(Error),
}

/// The manifest that belongs to this version of the crate.
///
/// ```
/// let manifest = edbatch_datasets::manifest::manifest();
/// assert_eq!(manifest.set("sst").unwrap().files[0].path, "sst/train.txt");
/// ```
pub fn manifest() -> Manifest {
    serde_json::from_str(include_str!("../manifest.json")).expect("the manifest is tested")
}

/// Compares the folder `dir`, which holds a folder per set, with the manifest: every file's path
/// and state.
pub fn check(dir: &Path) -> Vec<(String, State)> {
    let files = manifest().sets.into_iter().flat_map(|set| set.files);
    files.map(|file| (file.path.clone(), file.check(dir))).collect()
}

impl Manifest {
    /// The set called `name`.
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

    /// Compares the file at `path`, which may have another name, with the manifest.
    pub fn check_at(&self, path: &Path) -> State {
        match digest(path) {
            Ok((bytes, sha256)) if (bytes, &sha256) == (self.bytes, &self.sha256) => State::Good,
            Ok((bytes, sha256)) => State::Differs { bytes, sha256 },
            Err(error) => State::Unreadable(error),
        }
    }
}

/// Size and SHA-256 of a file's uncompressed contents, read in pieces.
fn digest(path: &Path) -> Result<(u64, String), Error> {
    let mut reader = open(path)?;
    let mut hash = Sha256::new();
    let mut bytes = 0;
    loop {
        let piece = reader.fill_buf().map_err(|source| unreadable(path, source))?;
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

fn unreadable(path: &Path, source: io::Error) -> Error {
    Error::Open { file: path.display().to_string(), source }
}
