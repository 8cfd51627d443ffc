//! The error of all readers: file, line and column, what was expected there, and what was found.

use std::fmt;
use std::io;

/// Why an input could not be read.
///
/// Displays as `file:line:column: expected X, got Y` wherever a place in a file is known.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The file could not be opened.
    Open {
        /// The file, as the caller named it.
        file: String,
        /// What the system says.
        source: io::Error,
    },
    /// The file could not be read on (a disk error, damaged gzip data).
    Read {
        /// How far reading came.
        at: Position,
        /// What the system or the decompressor says.
        source: io::Error,
    },
    /// The file was read, and says something that its format does not allow.
    Format {
        /// Where.
        at: Position,
        /// What the format asks for at this place.
        expected: String,
        /// What stands there.
        got: String,
    },
    /// The file breaks off, or goes on in a way that nothing behind it can be found.
    Cut {
        /// How far reading came.
        at: Position,
        /// What ought to follow.
        expected: String,
        /// What follows.
        got: String,
    },
}

/// A place in a file.
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
    /// The place that the error speaks of; none where the file could not be opened.
    pub fn position(&self) -> Option<&Position> {
        match self {
            Error::Open { .. } => None,
            Error::Read { at, .. } | Error::Format { at, .. } | Error::Cut { at, .. } => Some(at),
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
            Error::Format { at, expected, got } | Error::Cut { at, expected, got } => {
                write!(f, "{at}: expected {expected}, got {got}")
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Open { source, .. } | Error::Read { source, .. } => Some(source),
            Error::Format { .. } | Error::Cut { .. } => None,
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// A piece of the input in quotes, cut where it would flood the message.
pub(crate) fn quoted(text: &str) -> String {
    const SHOWN: usize = 40;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}
