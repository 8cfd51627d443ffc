//! The error of a command.

use std::fmt::Display;
use std::io;
use std::path::Path;

use edbatch_policy::{OpenError, OpenErrorKind};

/// The error of a command.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A failure, exit code 1, with one line for standard error.
    Message(String),
    /// Wrong usage, exit code 2, with one line for standard error.
    Usage(String),
    /// Standard output was closed by its reader, which is not an error.
    BrokenPipe,
}

impl Failure {
    /// A failure with the text of an error that already names the file and the line.
    pub(crate) fn new(error: impl Display) -> Self {
        Self::Message(error.to_string())
    }

    /// A failure at a file that the error does not name.
    pub(crate) fn at(file: &Path, error: impl Display) -> Self {
        Self::Message(format!("{}: {error}", file.display()))
    }

    /// A policy that cannot be opened. A word that is not the name of a policy is treated as a file
    /// name.
    pub(crate) fn policy(error: &OpenError) -> Self {
        match &error.kind {
            OpenErrorKind::Read(got) => Self::at(
                &error.path,
                format_args!(
                    "expected auto, depth, by-depth, agenda, sufficient, critical, critical:pair, \
                     critical:soft, beam:WIDTH[:SECONDS], exact[:SECONDS] or a learned policy's \
                     file, got: {got}"
                ),
            ),
            kind => Self::at(&error.path, kind),
        }
    }

    /// A file that cannot be read.
    pub(crate) fn reading(file: &Path, error: &io::Error) -> Self {
        Self::at(file, format_args!("expected a readable file, got: {error}"))
    }

    /// A file that cannot be written.
    pub(crate) fn writing(file: &Path, error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::BrokenPipe,
            _ => Self::at(file, format_args!("cannot be written: {error}")),
        }
    }
}
