//! The error of all readers, with file, line and column, what was expected and what was found.

use std::fmt;
use std::io;

/// An error while reading an input.
///
/// Displays as `file:line:column: expected X, got Y` if the position is known.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The file could not be opened.
    Open {
        /// The file, as the caller named it.
        file: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Reading failed, for example because of a disk error or damaged gzip data.
    Read {
        /// The position at which reading stopped.
        at: Position,
        /// The error of the operating system or the decompressor.
        source: io::Error,
    },
    /// The contents do not match the format.
    Format {
        /// The position of the mismatch.
        at: Position,
        /// The expected syntax.
        expected: String,
        /// The text found there.
        got: String,
    },
    /// The file is truncated, or a line has more than [`MAX_LINE`](crate::MAX_LINE) bytes.
    Truncated {
        /// The position at which reading stopped.
        at: Position,
        /// The expected text.
        expected: String,
        /// The text found there.
        got: String,
    },
}

/// A position in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// The file, as the caller named it.
    pub file: String,
    /// The line, from 1.
    pub line: u64,
    /// The column, from 1, in characters (Unicode scalar values).
    pub column: usize,
}

impl Error {
    /// Returns the position of the error, or `None` if the file could not be opened.
    pub fn position(&self) -> Option<&Position> {
        match self {
            Error::Open { .. } => None,
            Error::Read { at, .. } | Error::Format { at, .. } | Error::Truncated { at, .. } => {
                Some(at)
            }
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Open { file, source } => {
                write!(f, "{file}: expected a readable file, got: {source}")
            }
            Error::Read { at, source } => write!(f, "{at}: expected more data, got: {source}"),
            Error::Format { at, expected, got } | Error::Truncated { at, expected, got } => {
                write!(f, "{at}: expected {expected}, got {got}")
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Open { source, .. } | Error::Read { source, .. } => Some(source),
            Error::Format { .. } | Error::Truncated { .. } => None,
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// Quotes a part of the input and truncates it to 40 characters.
pub(crate) fn quoted(text: &str) -> String {
    const SHOWN: usize = 40;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}
