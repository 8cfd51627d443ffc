//! Lines of a plain or gzip file, one at a time, in bounded memory.
//!
//! Every reader of this crate reads through [`Lines`]. It counts lines, keeps the file name for
//! errors, rejects lines over [`MAX_LINE`], invalid UTF-8 and carriage returns within a line, and
//! distinguishes a truncated gzip file from a short one. *Cost.* One reused buffer: a reader holds
//! only one line and its item.

use std::io::{self, BufRead, Read};
use std::path::Path;

use crate::error::{Error, Position, quoted};
use crate::open::open;

/// The maximum length of a line, and of a tree over several lines, in bytes: 64 MiB.
///
/// A sentence has a few hundred bytes. The limit protects against hostile files, such as a few
/// kilobytes of gzip that unpack to gigabytes without a line end.
pub const MAX_LINE: usize = 64 << 20;

/// Opens a file, plain or `.gz`, and iterates over its lines: [`open`] followed by [`Lines::new`].
pub fn lines(path: impl AsRef<Path>) -> Result<Lines<Box<dyn BufRead + Send>>, Error> {
    let name = path.as_ref().display().to_string();
    Ok(Lines::new(open(path)?, &name))
}

/// An iterator over lines, without their `\n` and the carriage returns before it. It continues
/// after a line that is not UTF-8 or has other carriage returns, and ends after any other error.
pub struct Lines<R> {
    reader: R,
    file: String,
    number: u64,
    buffer: Vec<u8>,
    limit: usize,
    ended: bool,
}

impl<R: BufRead> Lines<R> {
    /// Iterates over the lines of `reader`. `name` is the file name in error messages.
    pub fn new(reader: R, name: &str) -> Self {
        let (file, buffer) = (name.to_string(), Vec::new());
        Lines { reader, file, number: 0, buffer, limit: MAX_LINE, ended: false }
    }

    /// Reads the next line into a reused buffer. Returns `None` after the last line or an error.
    pub fn next_line(&mut self) -> Result<Option<&str>, Error> {
        match self.read() {
            Ok(more) => Ok(more.then(|| self.current())),
            Err(error) => {
                self.ended = !matches!(error, Error::Format { .. });
                Err(error)
            }
        }
    }

    /// Returns the number of lines read so far, which is the number of the current line, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the line that was read last.
    pub(crate) fn current(&self) -> &str {
        std::str::from_utf8(&self.buffer).expect("checked when it was read")
    }

    /// Returns an error at byte `byte` of the current line, or at its end if the line is shorter.
    pub(crate) fn error(
        &self,
        byte: usize,
        expected: impl Into<String>,
        got: impl Into<String>,
    ) -> Error {
        Error::Format { at: self.position(byte), expected: expected.into(), got: got.into() }
    }

    /// Returns an error at `part`, a part of the current line.
    pub(crate) fn error_at(&self, part: &str, expected: impl Into<String>) -> Error {
        let byte = part.as_ptr() as usize - self.buffer.as_ptr() as usize;
        self.error(byte, expected, quoted(part))
    }

    /// Returns an error after the last line.
    pub(crate) fn error_at_end(&self, expected: impl Into<String>) -> Error {
        let at = Position { file: self.file.clone(), line: self.number + 1, column: 1 };
        Error::Format { at, expected: expected.into(), got: "the end of the file".to_string() }
    }

    /// Returns the file name for error messages.
    pub(crate) fn file(&self) -> &str {
        &self.file
    }

    /// Reads one line into the buffer and checks it. Returns false at the end of the file.
    fn read(&mut self) -> Result<bool, Error> {
        self.buffer.clear();
        if self.ended {
            return Ok(false);
        }
        self.number += 1;
        // One byte over the limit shows that a line is too long.
        let mut bounded = (&mut self.reader).take(self.limit as u64 + 1);
        if let Err(source) = bounded.read_until(b'\n', &mut self.buffer) {
            return Err(self.broken(source));
        }
        if self.buffer.is_empty() {
            self.number -= 1;
            self.ended = true;
            return Ok(false);
        }
        if self.buffer.len() > self.limit && self.buffer.last() != Some(&b'\n') {
            let limit = self.limit;
            let expected = format!("a line of at most {limit} bytes");
            return Err(self.truncated(limit, expected, "a longer one"));
        }
        self.buffer.pop_if(|last| *last == b'\n');
        // A file whose line ends were converted twice has two.
        while self.buffer.pop_if(|last| *last == b'\r').is_some() {}
        if self.buffer.contains(&b'\r') {
            let before = self.buffer.iter().take_while(|&&byte| byte != b'\r').count();
            let expected = "\"\\n\" at the end of a line";
            return Err(self.error(before, expected, "a carriage return, \"\\r\""));
        }
        match std::str::from_utf8(&self.buffer) {
            Ok(_) => Ok(true),
            Err(invalid) => {
                let byte = invalid.valid_up_to();
                Err(self.error(byte, "UTF-8", format!("the byte 0x{:02x}", self.buffer[byte])))
            }
        }
    }

    fn broken(&self, source: io::Error) -> Error {
        // Only the decompressor reports this error; a plain file just ends.
        if source.kind() == io::ErrorKind::UnexpectedEof {
            let expected = "the rest of the compressed data".to_string();
            self.truncated(self.buffer.len(), expected, "the end of the file")
        } else {
            Error::Read { at: self.position(self.buffer.len()), source }
        }
    }

    fn truncated(&self, byte: usize, expected: String, got: &str) -> Error {
        Error::Truncated { at: self.position(byte), expected, got: got.to_string() }
    }

    fn position(&self, byte: usize) -> Position {
        let before = &self.buffer[..byte.min(self.buffer.len())];
        // Count all but continuation bytes: this also works before invalid bytes.
        let column = before.iter().filter(|&&b| b & 0xC0 != 0x80).count() + 1;
        Position { file: self.file.clone(), line: self.number, column }
    }
}

impl<R: BufRead> Iterator for Lines<R> {
    type Item = Result<String, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_line().map(|line| line.map(str::to_string)).transpose()
    }
}

/// Iterates over the items of `reader`, one per line. `item` converts the current line. Continues
/// after a malformed line and ends after any other error.
pub(crate) fn each_line<R: BufRead, T, F: FnMut(&Lines<R>) -> Result<T, Error>>(
    reader: R,
    name: &str,
    mut item: F,
) -> impl Iterator<Item = Result<T, Error>> + use<R, T, F> {
    let mut lines = Lines::new(reader, name);
    std::iter::from_fn(move || match lines.next_line() {
        Ok(None) => None,
        Ok(Some(_)) => Some(item(&lines)),
        Err(error) => Some(Err(error)),
    })
}

/// Iterates over the items that `next` returns, up to the first error.
pub(crate) fn until_error<T>(
    mut next: impl FnMut() -> Result<Option<T>, Error>,
) -> impl Iterator<Item = Result<T, Error>> {
    let mut ended = false;
    std::iter::from_fn(move || {
        let item = if ended { None } else { next().transpose() };
        ended = !matches!(item, Some(Ok(_)));
        item
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(input: &[u8], limit: usize, expected: &[&str]) {
        let mut lines = Lines::new(input, "in");
        lines.limit = limit;
        let got: Vec<String> =
            lines.map(|line| line.unwrap_or_else(|error| error.to_string())).collect();
        assert_eq!(got, expected);
    }

    #[test]
    fn lines_end_at_line_feeds() {
        check(b"", 9, &[]);
        check(b"\n", 9, &[""]);
        check("a\n\nb\u{a0}c\u{2028}d\r\ne".as_bytes(), 99, &["a", "", "b\u{a0}c\u{2028}d", "e"]);
    }

    #[test]
    fn carriage_returns_end_lines_or_are_errors() {
        check(b"a\r\r\nb\r\n\r\nc\r", 9, &["a", "b", "", "c"]);
        let error = "expected \"\\n\" at the end of a line, got a carriage return, \"\\r\"";
        check("ü\rb\rc\nd".as_bytes(), 9, &[&format!("in:1:2: {error}"), "d"]);
    }

    #[test]
    fn a_line_over_the_limit_is_an_error() {
        check(b"abc\nabcd\n", 4, &["abc", "abcd"]);
        check(
            b"abc\nabcde\n",
            4,
            &["abc", "in:2:5: expected a line of at most 4 bytes, got a longer one"],
        );
    }

    #[test]
    fn columns_of_invalid_utf8_count_characters() {
        check("ok\nüü\u{fffd}".as_bytes(), 99, &["ok", "üü\u{fffd}"]);
        check(
            b"ok\n\xc3\xbc\xc3\xbc\xff\nafter",
            99,
            &["ok", "in:2:3: expected UTF-8, got the byte 0xff", "after"],
        );
    }
}
