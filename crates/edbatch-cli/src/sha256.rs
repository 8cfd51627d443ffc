//! SHA-256 of files, and of data while it is read or written.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::{Arc, Mutex};

use edbatch::models::Folder;
use sha2::Digest;

use super::failure::Failure;

/// An incremental hash and the number of hashed bytes.
#[derive(Clone, Default)]
pub(crate) struct Hash {
    hash: sha2::Sha256,
    pub(crate) bytes: u64,
}

impl Hash {
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
    }

    /// Returns the hash of all bytes so far, in hexadecimal.
    pub(crate) fn hex(self) -> String {
        self.hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Hashes a file, and calls `piece` on each piece of it.
    pub(crate) fn file(&mut self, path: &Path, mut piece: impl FnMut(&[u8])) -> io::Result<()> {
        let mut file = File::open(path)?;
        let mut buffer = vec![0; 1 << 16];
        loop {
            match file.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(read) => {
                    self.update(&buffer[..read]);
                    piece(&buffer[..read]);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// A hash shared with a [`Hashing`] reader.
pub(crate) type SharedHash = Arc<Mutex<Hash>>;

/// A reader that hashes the bytes that it returns.
pub(crate) struct Hashing<R> {
    pub(crate) reader: R,
    pub(crate) hash: SharedHash,
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(out)?;
        self.hash.lock().expect("no thread panics with this lock").update(&out[..read]);
        Ok(read)
    }
}

/// Hashes all files that determine the results of a model: configuration or network, vocabularies
/// and weights, each with its name and its length.
pub(crate) fn of_model(folder: &Folder) -> Result<String, Failure> {
    let vocabularies = folder.lexicon().files().into_iter().map(|(name, _)| name);
    let description = if folder.config().is_some() { Folder::CONFIG } else { Folder::NETWORK };
    let mut all = Hash::default();
    for name in [description].into_iter().chain(vocabularies).chain([Folder::WEIGHTS]) {
        let path = folder.path().join(name);
        let mut one = Hash::default();
        one.file(&path, |_| ()).map_err(|error| Failure::reading(&path, &error))?;
        let bytes = one.bytes;
        all.update(format!("{name} {bytes} {}\n", one.hex()).as_bytes());
    }
    Ok(all.hex())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_equal_the_standards_example() {
        // FIPS 180-4, example B.1.
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let hash = SharedHash::default();
        let mut reader = Hashing { reader: &b"abc"[..], hash: hash.clone() };
        io::copy(&mut reader, &mut io::sink()).unwrap();
        let hash = hash.lock().unwrap().clone();
        assert_eq!((hash.bytes, hash.hex()), (3, expected.into()));
    }
}
