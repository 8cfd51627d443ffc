//! Merges the lines of all shards in the order of their numbers.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::cli::failure::Failure;
use crate::cli::output::Output;
use crate::cli::sha256::Hash;
use crate::cli::shard::Division;
use crate::cli::shard_mark::Mark;

/// The number of bytes to read or write at once.
const PIECE: usize = 1 << 16;

/// Writes the lines of all shards to standard output. `marks[i]` is the mark of shard `i`. All
/// shards must be valid.
///
/// *Cost.* Reads every part once, 64 KiB at a time, with a single open file.
pub(super) fn cat(dir: &Path, marks: &[Mark]) -> Result<(), Failure> {
    let mut parts: Vec<Part> = marks.iter().map(|mark| Part::new(mark.shard().part(dir))).collect();
    let mut output = Output::open(None)?;
    let mut text = Vec::with_capacity(2 * PIECE);
    let mut number = 0_u64;
    for (shard, lines) in runs(marks) {
        for _ in 0..lines {
            parts[shard].take_line(number, &mut text)?;
            number += 1;
            if text.len() >= PIECE {
                output.write(&text)?;
                text.clear();
            }
        }
    }
    output.write(&text)?;
    output.finish()?;
    parts.into_iter().zip(marks).try_for_each(|(part, mark)| part.end(mark))
}

/// Iterates over runs of lines: the shard that they come from, and their number.
fn runs(marks: &[Mark]) -> Box<dyn Iterator<Item = (usize, u64)> + '_> {
    if marks[0].division == Division::Lines {
        let all = marks[0].inputs_read();
        return Box::new((0..all).map(|number| ((number % marks.len() as u64) as usize, 1)));
    }
    let files = marks.iter().flat_map(|mark| mark.files.iter().map(|file| (mark.shard, file)));
    let mut files: Vec<_> = files.collect();
    files.sort_by_key(|(_, file)| file.index);
    Box::new(files.into_iter().map(|(shard, file)| (shard as usize, file.lines)))
}

/// A shard's file of results, read line by line. It is closed between reads, because there may be
/// more shards than files that a process can open.
struct Part {
    path: PathBuf,
    hash: Hash,
    buffer: Vec<u8>,
    /// The number of consumed bytes in `buffer`.
    taken: usize,
}

impl Part {
    fn new(path: PathBuf) -> Self {
        Self { path, hash: Hash::default(), buffer: Vec::new(), taken: 0 }
    }

    /// Appends the next line to `text`. The id of the line must be `number`.
    fn take_line(&mut self, number: u64, text: &mut Vec<u8>) -> Result<(), Failure> {
        let mut searched = self.taken;
        let end = loop {
            let rest = &self.buffer[searched..];
            if let Some(at) = rest.iter().position(|&byte| byte == b'\n') {
                break searched + at + 1;
            }
            searched = self.buffer.len() - self.taken;
            if !self.read_on()? {
                return Err(self.changed());
            }
        };
        let line = &self.buffer[self.taken..end];
        if !line.starts_with(format!("{{\"id\": {number}, ").as_bytes()) {
            let what = format_args!("expected a line with id {number}, got another");
            return Err(Failure::at(&self.path, what));
        }
        text.extend_from_slice(line);
        self.taken = end;
        Ok(())
    }

    /// Drops consumed bytes and reads another piece. Returns false at the end.
    fn read_on(&mut self) -> Result<bool, Failure> {
        self.buffer.drain(..self.taken);
        self.taken = 0;
        let before = self.buffer.len();
        let read = self.read_piece().map_err(|error| Failure::reading(&self.path, &error))?;
        self.hash.update(&self.buffer[before..]);
        Ok(read > 0)
    }

    fn read_piece(&mut self) -> io::Result<usize> {
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(self.hash.bytes))?;
        file.take(PIECE as u64).read_to_end(&mut self.buffer)
    }

    /// Checks that the file has not changed since it was verified.
    fn end(mut self, mark: &Mark) -> Result<(), Failure> {
        let rest = self.taken < self.buffer.len() || self.read_on()?;
        if rest || self.hash.clone().hex() != mark.output {
            return Err(self.changed());
        }
        Ok(())
    }

    fn changed(&self) -> Failure {
        Failure::at(&self.path, "changed while it was read; discard the output")
    }
}
