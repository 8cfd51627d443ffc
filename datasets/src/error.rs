//! The error of all readers, with file, line and column, what was expected and what was found.

use std::fmt;
use std::io;

/// An error while reading an input.
///
/// Displays as `file:line:column: expected X, got Y` if the position is known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
// `r#source` is not returned by `source()`: the message includes its text.
pub enum Error {
    /// The file could not be opened.
    #[error("{file}: expected a readable file, got: {source}")]
    Open {
        /// The file, as the caller named it.
        file: String,
        /// The error of the operating system.
        r#source: io::Error,
    },
    /// Reading failed, for example because of a disk error or damaged gzip data.
    #[error("{at}: expected more data, got: {source}")]
    Read {
        /// The position at which reading stopped.
        at: Position,
        /// The error of the operating system or the decompressor.
        r#source: io::Error,
    },
    /// The contents do not match the format.
    #[error("{at}: expected {expected}, got {got}")]
    Format {
        /// The position of the mismatch.
        at: Position,
        /// The expected syntax.
        expected: String,
        /// The text found there.
        got: String,
    },
    /// The file is truncated, or a line has more than [`MAX_LINE`](crate::MAX_LINE) bytes.
    #[error("{at}: expected {expected}, got {got}")]
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

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn messages_are_complete_without_a_source() {
        let at = || Position { file: "trees".into(), line: 2, column: 3 };
        let damaged = || io::Error::other("damaged");
        let (expected, got) = ("a node".to_string(), "`)`".to_string());
        let cases = [
            (
                Error::Open { file: "trees".into(), source: damaged() },
                "trees: expected a readable file, got: damaged",
            ),
            (
                Error::Read { at: at(), source: damaged() },
                "trees:2:3: expected more data, got: damaged",
            ),
            (
                Error::Format { at: at(), expected: expected.clone(), got: got.clone() },
                "trees:2:3: expected a node, got `)`",
            ),
            (Error::Truncated { at: at(), expected, got }, "trees:2:3: expected a node, got `)`"),
        ];
        for (error, message) in cases {
            assert_eq!(error.to_string(), message);
            assert!(error.source().is_none(), "{message}");
        }
    }
}
