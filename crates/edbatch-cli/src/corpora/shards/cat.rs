//! Merges the lines of all shards in the order of their numbers.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::corpora::shard::Division;
use crate::corpora::shard_mark::Mark;
use crate::failure::Failure;
use crate::output::Output;
use crate::sha256::Hash;

/// The number of bytes to read or write at once.
const PIECE: usize = 1 << 16;

/// Writes the lines of all shards to standard output. `marks[i]` is the mark of shard `i`. All
/// shards must be valid.
///
/// *Cost.* Reads every part once, 64 KiB at a time, with a single open file.
pub(super) fn cat(dir: &Path, marks: &[Mark]) -> Result<(), Failure> {
    let part = |mark: &Mark| Part { path: mark.shard().part(dir), hash: Hash::default() };
    let parts = marks.iter().map(|mark| BufReader::with_capacity(PIECE, part(mark)));
    let mut parts: Vec<_> = parts.collect();
    let mut output = Output::open(None)?;
    let mut text = Vec::with_capacity(2 * PIECE);
    let mut number = 0_u64;
    for (shard, lines) in runs(marks) {
        for _ in 0..lines {
            take_line(&mut parts[shard], number, &mut text)?;
            number += 1;
            if text.len() >= PIECE {
                output.write(&text)?;
                text.clear();
            }
        }
    }
    output.write(&text)?;
    output.finish()?;
    parts.into_iter().zip(marks).try_for_each(|(part, mark)| end(part, mark))
}

/// Iterates over runs of lines from one shard: the shard, and the number of lines.
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

/// A shard's file of results. It is closed between reads, because there may be more shards than
/// files that a process can open.
struct Part {
    path: PathBuf,
    hash: Hash,
}

impl Read for Part {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(self.hash.bytes))?;
        let read = file.read(out)?;
        self.hash.update(&out[..read]);
        Ok(read)
    }
}

impl Part {
    fn changed(&self) -> Failure {
        Failure::at(&self.path, "changed while it was read; discard the output")
    }
}

/// Appends the next line of a part to `text`. The id of the line must be `number`.
fn take_line(part: &mut BufReader<Part>, number: u64, text: &mut Vec<u8>) -> Result<(), Failure> {
    let begin = text.len();
    let read = part.read_until(b'\n', text);
    let part = part.get_ref();
    read.map_err(|error| Failure::reading(&part.path, &error))?;
    let line = &text[begin..];
    if !line.ends_with(b"\n") {
        return Err(part.changed());
    }
    if !line.starts_with(format!("{{\"id\": {number}, ").as_bytes()) {
        let what = format_args!("expected a line with id {number}, got another");
        return Err(Failure::at(&part.path, what));
    }
    Ok(())
}

/// Checks that a part has ended, and that it has not changed since it was verified.
fn end(mut part: BufReader<Part>, mark: &Mark) -> Result<(), Failure> {
    let ended = part.fill_buf().map(<[u8]>::is_empty);
    let part = part.into_inner();
    match ended {
        Ok(true) if part.hash.clone().hex() == mark.output => Ok(()),
        Ok(_) => Err(part.changed()),
        Err(error) => Err(Failure::reading(&part.path, &error)),
    }
}
