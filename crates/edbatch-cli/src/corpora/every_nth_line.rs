//! A reader that returns every n-th line of another reader, for the shards of a corpus.

use std::io::{self, BufRead, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Reads the lines `first`, `first + step`, `first + 2 step`, … of a reader, counted from 0.
///
/// *Cost.* One search for the end of each line. Skipped lines are neither checked nor stored.
pub(crate) struct EveryNthLine<R> {
    reader: R,
    /// The number of the next line to return.
    next: u64,
    step: u64,
    /// The number of lines begun so far, skipped ones included.
    lines: u64,
    /// True if the beginning of a line has been returned, but not its end.
    within: bool,
    /// A copy of `lines` for the owner of the reader.
    count: Arc<AtomicU64>,
}

impl<R: BufRead> EveryNthLine<R> {
    /// Returns the reader, and a counter of all lines, which is complete when the end is reached.
    pub(crate) fn new(reader: R, first: u64, step: u64) -> (Self, Arc<AtomicU64>) {
        let count = Arc::new(AtomicU64::new(0));
        let lines =
            Self { reader, next: first, step, lines: 0, within: false, count: count.clone() };
        (lines, count)
    }

    /// Skips to the next line to return, or to the end.
    fn skip_lines(&mut self) -> io::Result<()> {
        while !self.within && self.lines < self.next {
            if self.reader.skip_until(b'\n')? == 0 {
                break;
            }
            self.lines += 1;
            self.count.store(self.lines, Ordering::Relaxed);
        }
        Ok(())
    }
}

impl<R: BufRead> BufRead for EveryNthLine<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.skip_lines()?;
        let buffer = self.reader.fill_buf()?;
        if !buffer.is_empty() && !self.within {
            self.within = true;
            self.lines += 1;
            self.count.store(self.lines, Ordering::Relaxed);
        }
        let end = buffer.iter().position(|&byte| byte == b'\n');
        Ok(&buffer[..end.map_or(buffer.len(), |end| end + 1)])
    }

    fn consume(&mut self, bytes: usize) {
        let Some(last) = bytes.checked_sub(1) else { return };
        // The returned bytes are still in the buffer.
        if self.reader.fill_buf().is_ok_and(|buffer| buffer.get(last) == Some(&b'\n')) {
            self.within = false;
            self.next = self.next.saturating_add(self.step);
        }
        self.reader.consume(bytes);
    }
}

impl<R: BufRead> Read for EveryNthLine<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.fill_buf()?.read(out)?;
        self.consume(read);
        Ok(read)
    }
}

/// Counts the lines of a reader.
pub(crate) fn count_lines(mut reader: impl BufRead) -> io::Result<u64> {
    let mut lines = 0;
    while reader.skip_until(b'\n')? > 0 {
        lines += 1;
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// For any buffer sizes of the inner and the outer reader.
        #[test]
        fn every_nth_line_is_returned(
            text in "[ab\r\n]{0,60}",
            step in 1_u64..6,
            first in 0_u64..6,
            below in 1_usize..9,
            above in 1_usize..9,
        ) {
            let first = first % step;
            let reader = io::BufReader::with_capacity(below, text.as_bytes());
            let (lines, count) = EveryNthLine::new(reader, first, step);
            let mut got = String::new();
            io::BufReader::with_capacity(above, lines).read_to_string(&mut got).unwrap();
            let all: Vec<&str> = text.split_inclusive('\n').collect();
            let chosen = all.iter().skip(first as usize).step_by(step as usize);
            prop_assert_eq!(got, chosen.copied().collect::<String>());
            prop_assert_eq!(count.load(Ordering::Relaxed), all.len() as u64);
            prop_assert_eq!(count_lines(text.as_bytes()).unwrap(), all.len() as u64);
        }
    }
}
