//! Why a command failed, as its user is told.

use std::fmt::Display;
use std::io;
use std::path::Path;

use edbatch_policy::{OpenError, OpenErrorKind};

/// The end of a command that did not do what was asked.
#[derive(Debug)]
pub(crate) enum Failure {
    /// One line for standard error.
    Message(String),
    /// As well, for words that do not go together.
    Usage(String),
    /// Standard output is closed.
    BrokenPipe,
}

impl Failure {
    /// With what the error says; it names file and line itself.
    pub(crate) fn new(error: impl Display) -> Self {
        Self::Message(error.to_string())
    }

    /// An error about a file that does not name it.
    pub(crate) fn at(file: &Path, error: impl Display) -> Self {
        Self::Message(format!("{}: {error}", file.display()))
    }

    /// A policy that cannot be used. A word that names none is taken for a file.
    pub(crate) fn policy(error: &OpenError) -> Self {
        match &error.kind {
            OpenErrorKind::Read(got) => Self::at(
                &error.path,
                format_args!(
                    "expected auto, depth, by-depth, agenda, sufficient, critical, critical:pair, \
                     critical:soft, beam:WIDTH[:SECONDS], portfolio[:SECONDS], exact[:SECONDS] or \
                     a learned policy's file, got: {got}"
                ),
            ),
            OpenErrorKind::File(what) => Self::at(&error.path, what),
            OpenErrorKind::Kinds(what) => Self::at(&error.path, what),
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
