//! Output that is there whole or not at all.

use std::fs::{self, File};
use std::io::{self, BufWriter, StdoutLock, Write};
use std::path::{Path, PathBuf};

use super::failure::Failure;

/// Standard output, or a file that appears under its name once it is complete.
pub(crate) enum Output {
    Stdout(StdoutLock<'static>),
    /// A pipe or a device: there is nothing to put in its place.
    Direct {
        file: File,
        path: PathBuf,
    },
    Whole {
        writer: BufWriter<File>,
        partial: Partial,
        path: PathBuf,
    },
}

/// A file or folder that is removed, unless it was renamed before.
pub(crate) struct Partial(pub(crate) PathBuf);

impl Output {
    pub(crate) fn open(path: Option<&Path>) -> Result<Self, Failure> {
        let Some(path) = path else { return Ok(Self::Stdout(io::stdout().lock())) };
        let failed = |error| Failure::writing(path, &error);
        let path = path.to_path_buf();
        match fs::metadata(&path) {
            Ok(metadata) if metadata.is_dir() => {
                Err(Failure::at(&path, "expected the name of a file, got a folder"))
            }
            Ok(metadata) if !metadata.is_file() => {
                let file = File::options().write(true).open(&path).map_err(failed)?;
                Ok(Self::Direct { file, path })
            }
            _ => {
                let partial = Partial(beside(&path));
                let writer = BufWriter::new(File::create(&partial.0).map_err(failed)?);
                Ok(Self::Whole { writer, partial, path })
            }
        }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        match self {
            Self::Stdout(stdout) => stdout.write_all(bytes).map_err(stdout_failed),
            Self::Direct { file, path } => {
                file.write_all(bytes).map_err(|error| Failure::writing(path, &error))
            }
            Self::Whole { writer, path, .. } => {
                writer.write_all(bytes).map_err(|error| Failure::writing(path, &error))
            }
        }
    }

    /// Gives the file its name.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        match self {
            Self::Stdout(mut stdout) => stdout.flush().map_err(stdout_failed),
            Self::Direct { .. } => Ok(()),
            Self::Whole { mut writer, partial, path } => writer
                .flush()
                .and_then(|()| fs::rename(&partial.0, &path))
                .map_err(|error| Failure::writing(&path, &error)),
        }
    }
}

/// A name in the same folder, so that renaming moves no data.
pub(crate) fn beside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}.partial", std::process::id()))
}

impl Drop for Partial {
    fn drop(&mut self) {
        // After success it is no longer there; after failure the error is already on its way.
        if self.0.is_dir() {
            let _ = fs::remove_dir_all(&self.0);
        } else {
            let _ = fs::remove_file(&self.0);
        }
    }
}

fn stdout_failed(error: io::Error) -> Failure {
    Failure::writing(Path::new("standard output"), &error)
}
