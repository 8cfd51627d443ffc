//! A cache of compiled kernels on disk, which may be filled on another machine.
//!
//! A file contains the code and a hash of the key and the code. A file with a wrong hash is
//! ignored: the driver does not know the length of the code, so it would not notice damage.

use std::env;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use sha2::{Digest, Sha256};

use super::device::{HEADERS, Source};

/// The maximum size of a file, in bytes. No program is larger.
const MAX_BYTES: u64 = 64 << 20;

/// The length of a hash.
const HASH: usize = 32;

/// A hash of everything that a binary depends on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Key([u8; HASH]);

impl Key {
    /// The key of a source for a version of the compiler, its options and an architecture.
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
            // Without the lengths, different lists of texts could have the same hash.
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
        }
        Key(hash.finalize().into())
    }

    fn file(&self) -> String {
        let digits: String = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{digits}.cubin")
    }

    /// Returns the hash of this key and some code. The file of the code ends with this hash.
    fn seal(&self, code: &[u8]) -> [u8; HASH] {
        Sha256::new().chain_update(self.0).chain_update(code).finalize().into()
    }
}

/// A folder of compiled kernels.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    /// `None` if the user has no cache folder. Then nothing is stored.
    folder: Option<PathBuf>,
}

impl Store {
    /// The user's cache: `$XDG_CACHE_HOME/edbatch` or `~/.cache/edbatch`.
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

    /// Returns the path of the file for a key, or `None` if there is no cache folder.
    pub(crate) fn path(&self, key: &Key) -> Option<PathBuf> {
        self.folder.as_ref().map(|folder| folder.join(key.file()))
    }

    /// Returns the code of a key, or `None` if it is missing or damaged.
    pub(crate) fn get(&self, key: &Key) -> Option<Vec<u8>> {
        let path = self.folder.as_deref()?.join(key.file());
        let metadata = fs::metadata(&path).ok()?;
        if !metadata.is_file() || metadata.len() > MAX_BYTES {
            return None;
        }
        let mut code = fs::read(&path).ok()?;
        let seal = code.split_off(code.len().checked_sub(HASH)?);
        (seal == key.seal(&code)).then_some(code)
    }

    /// Returns the result of `load` for the first key whose code it accepts.
    ///
    /// # Errors
    /// The last error of `load`, or `None` if there is no code.
    pub(crate) fn first_usable<T, E>(
        &self,
        keys: impl Iterator<Item = Key>,
        load: impl Fn(&[u8]) -> Result<T, E>,
    ) -> Result<T, Option<E>> {
        let mut refused = None;
        for code in keys.filter_map(|key| self.get(&key)) {
            match load(&code) {
                Ok(loaded) => return Ok(loaded),
                Err(error) => refused = Some(error),
            }
        }
        Err(refused)
    }

    /// Stores code under a key, replacing any existing file atomically.
    ///
    /// # Errors
    /// If the folder cannot be written.
    pub(crate) fn put(&self, key: &Key, code: &[u8]) -> io::Result<()> {
        let Some(folder) = &self.folder else { return Ok(()) };
        fs::create_dir_all(folder)?;
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let beside = folder.join(format!("{}.{}.{number}", key.file(), std::process::id()));
        let written = write(&beside, code, &key.seal(code))
            .and_then(|()| fs::rename(&beside, folder.join(key.file())));
        if written.is_err() {
            // The file may not exist.
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
