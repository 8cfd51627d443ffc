//! Machine code on disk, so that a program is compiled once per machine, or on another one.
//!
//! A file is the code, as the compiler made it, and a hash of its key and the code behind it. What
//! does not have that is treated as if it were not there: the driver reads code without knowing
//! where it ends.

use std::env;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use sha2::{Digest, Sha256};

use super::device::{HEADERS, Source};

/// More than any program has.
const MOST_BYTES: u64 = 64 << 20;

/// Bytes of a hash.
const HASH: usize = 32;

/// What a binary depends on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Key([u8; HASH]);

impl Key {
    /// The key of a source, compiled with options by a version of the compiler for an architecture.
    pub(crate) fn new(
        source: &Source,
        options: &[&str],
        version: (u32, u32),
        architecture: &str,
    ) -> Key {
        let version = format!("{}.{}", version.0, version.1);
        let headers = HEADERS.iter().flat_map(|&(name, text)| [name, text]);
        let own = [source.text.as_str(), &version, architecture];
        let mut hash = Sha256::new();
        for text in headers.chain(own).chain(options.iter().copied()) {
            // With its length, so that no text can pass for the end of the one before.
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
        }
        Key(hash.finalize().into())
    }

    fn file(&self) -> String {
        let digits: String = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{digits}.cubin")
    }

    /// What stands behind the code in a file.
    fn seal(&self, code: &[u8]) -> [u8; HASH] {
        Sha256::new().chain_update(self.0).chain_update(code).finalize().into()
    }
}

/// A folder of binaries.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    /// `None` where the user has no folder for such things: then nothing is stored.
    folder: Option<PathBuf>,
}

impl Store {
    /// The user's: `$XDG_CACHE_HOME/edbatch`, or `~/.cache/edbatch`.
    pub(crate) fn of_user() -> Self {
        let folder = |variable: &str| {
            env::var_os(variable).map(PathBuf::from).filter(|folder| folder.is_absolute())
        };
        let home = || folder("HOME").map(|home| home.join(".cache"));
        Self { folder: folder("XDG_CACHE_HOME").or_else(home).map(|cache| cache.join("edbatch")) }
    }

    /// A store in a folder, which need not exist.
    #[cfg(test)]
    pub(crate) fn at(folder: impl Into<PathBuf>) -> Self {
        Self { folder: Some(folder.into()) }
    }

    /// Where the code under a key lies, if anything is stored.
    pub(crate) fn path(&self, key: &Key) -> Option<PathBuf> {
        self.folder.as_ref().map(|folder| folder.join(key.file()))
    }

    /// The code under a key, if it is there, whole and unchanged.
    pub(crate) fn get(&self, key: &Key) -> Option<Vec<u8>> {
        let path = self.folder.as_deref()?.join(key.file());
        let metadata = fs::metadata(&path).ok()?;
        if !metadata.is_file() || metadata.len() > MOST_BYTES {
            return None;
        }
        let mut code = fs::read(&path).ok()?;
        let seal = code.split_off(code.len().checked_sub(HASH)?);
        (seal == key.seal(&code)).then_some(code)
    }

    /// Stores code under a key, in place of what is there. A reader finds either whole.
    ///
    /// # Errors
    /// If the folder cannot be written to, which costs no more than the time to compile again.
    pub(crate) fn put(&self, key: &Key, code: &[u8]) -> io::Result<()> {
        let Some(folder) = &self.folder else { return Ok(()) };
        fs::create_dir_all(folder)?;
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let beside = folder.join(format!("{}.{}.{number}", key.file(), std::process::id()));
        let written = write(&beside, code, &key.seal(code))
            .and_then(|()| fs::rename(&beside, folder.join(key.file())));
        if written.is_err() {
            // It may not even be there.
            let _ = fs::remove_file(&beside);
        }
        written
    }
}

/// Writes a new file.
fn write(path: &Path, code: &[u8], seal: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(code)?;
    file.write_all(seal)?;
    file.sync_all()
}
