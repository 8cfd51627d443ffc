//! Output to standard output, or to a file that appears complete or not at all.

use std::io::{self, StdoutLock, Write};
use std::path::{Path, PathBuf};

use edbatch_datasets::AtomicFile;

use super::failure::Failure;

/// Standard output, or a file that appears when it is complete.
pub(crate) enum Output {
    Stdout(StdoutLock<'static>),
    File { file: AtomicFile, path: PathBuf },
}

impl Output {
    pub(crate) fn open(path: Option<&Path>) -> Result<Self, Failure> {
        let Some(path) = path else { return Ok(Self::Stdout(io::stdout().lock())) };
        if path.is_dir() {
            return Err(Failure::at(path, "expected the name of a file, got a folder"));
        }
        let file = AtomicFile::create(path).map_err(|error| Failure::writing(path, &error))?;
        Ok(Self::File { file, path: path.to_path_buf() })
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        match self {
            Self::Stdout(stdout) => stdout.write_all(bytes).map_err(stdout_failed),
            Self::File { file, path } => {
                file.write_all(bytes).map_err(|error| Failure::writing(path, &error))
            }
        }
    }

    /// Flushes standard output, or puts the file in place.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        match self {
            Self::Stdout(mut stdout) => stdout.flush().map_err(stdout_failed),
            Self::File { file, path } => {
                file.finish().map_err(|error| Failure::writing(&path, &error))
            }
        }
    }
}

/// Prints a text to standard output.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut output = Output::open(None)?;
    output.write(text.as_bytes())?;
    output.finish()
}

fn stdout_failed(error: io::Error) -> Failure {
    Failure::writing(Path::new("standard output"), &error)
}
