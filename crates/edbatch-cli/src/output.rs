//! Output to standard output, or to a file that appears complete or not at all.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use edbatch_datasets::AtomicFile;

use super::failure::Failure;

/// Standard output, or a file that appears when it is complete.
pub(crate) struct Output {
    /// `None` for standard output.
    file: Option<AtomicFile>,
    path: PathBuf,
}

impl Output {
    pub(crate) fn open(path: Option<&Path>) -> Result<Self, Failure> {
        let Some(path) = path else {
            return Ok(Self { file: None, path: "standard output".into() });
        };
        let file = AtomicFile::create(path).map_err(|error| Failure::writing(path, &error))?;
        Ok(Self { file: Some(file), path: path.to_path_buf() })
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let written = match &mut self.file {
            Some(file) => file.write_all(bytes),
            None => io::stdout().write_all(bytes),
        };
        written.map_err(|error| Failure::writing(&self.path, &error))
    }

    /// Flushes standard output, or puts the file in place.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        let finished = self.file.map_or_else(|| io::stdout().flush(), AtomicFile::finish);
        finished.map_err(|error| Failure::writing(&self.path, &error))
    }
}

/// Prints a text to standard output.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut output = Output::open(None)?;
    output.write(text.as_bytes())?;
    output.finish()
}
