//! The folder that a run trains: the model's own, or a copy of it.

use std::fs::{self, File, TryLockError};
use std::io::{Error, ErrorKind};
use std::path::Path;

use edbatch::models::{Folder, ModelConfig};
use edbatch_datasets::AtomicFolder;

use crate::failure::Failure;

/// A lock on a folder, which lasts until it is dropped or the process ends, for whatever reason.
pub(crate) struct Lock {
    /// `None` if the system cannot open or lock folders.
    _folder: Option<File>,
}

impl Lock {
    /// Locks a folder. Fails if another run trains it.
    pub(crate) fn new(path: &Path) -> Result<Self, Failure> {
        let folder = File::open(path).ok();
        match folder.as_ref().map(File::try_lock) {
            Some(Err(TryLockError::WouldBlock)) => Err(Failure::at(
                path,
                "another run of edbatch train is training this folder: wait until it ends, or \
                 choose another folder by --output",
            )),
            _ => Ok(Self { _folder: folder }),
        }
    }
}

/// Copies the model to a new folder, which refers to the same files of inputs, and locks it.
pub(super) fn copy(folder: &Folder, output: &Path) -> Result<(Folder, Lock), Failure> {
    let writing = |error: Error| match error.kind() {
        ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists => Failure::at(output, NEW),
        _ => Failure::writing(output, &error),
    };
    // An existing folder is locked first, so that two runs cannot fill it.
    let lock = if output.exists() { Some(Lock::new(output)?) } else { None };
    let is_empty = match fs::read_dir(output) {
        Ok(mut files) => files.next().is_none(),
        Err(error) => error.kind() == ErrorKind::NotFound,
    };
    if !is_empty {
        return Err(Failure::at(output, NEW));
    }
    let path = std::path::absolute(output).map_err(writing)?;
    path.parent().map_or(Ok(()), fs::create_dir_all).map_err(writing)?;
    let new = AtomicFolder::create(&path).map_err(writing)?;
    let copy = |name| fs::copy(folder.path().join(name), new.partial().join(name));
    let copied = match folder.config() {
        None => copy(Folder::NETWORK).map(drop),
        Some(config) => {
            let absolute = |file: &String| {
                let path = std::path::absolute(folder.path().join(file)).ok();
                path.and_then(|path| path.to_str().map(String::from)).unwrap_or(file.clone())
            };
            let (input, target) = (absolute(&config.input), config.target.as_ref());
            let target = target.map(absolute);
            let config = ModelConfig { input, target, ..config.clone() };
            Folder::write(&config, folder.lexicon(), new.partial())
        }
    };
    copied.and_then(|()| copy(Folder::WEIGHTS)).map_err(writing)?;
    let lock = match lock {
        Some(lock) => new.finish().map(|()| lock).map_err(writing)?,
        // Fails if another run has filled the folder in the meantime.
        None => {
            fs::rename(new.partial(), &path).map_err(writing)?;
            drop(new);
            Lock::new(output)?
        }
    };
    Ok((Folder::read(output).map_err(Failure::new)?, lock))
}

const NEW: &str = "expected a new or empty folder: go on with --resume, or choose another";
