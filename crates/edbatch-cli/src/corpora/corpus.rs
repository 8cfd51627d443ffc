//! The numbered inputs of one or more files, or of one shard of them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard};

use edbatch::models::{Folder, Inputs, ZooInput, is_arc_file};
use edbatch_datasets::{Error, open, open_with};

use super::every_nth_line::{EveryNthLine, count_lines};
use super::shard::{Division, Shard};
use super::shard_mark::MarkedFile;
use crate::sha256::{Hash, Hashing, SharedHash};

/// An iterator over inputs, which reads them lazily.
///
/// It continues after a malformed line ([`Error::Format`]), except in arc files. Do not call `next`
/// after any other error.
pub(crate) struct Corpus<'a> {
    folder: &'a Folder,
    pub(crate) files: &'a [PathBuf],
    shard: Shard,
    division: Division,
    /// The known numbers of inputs of files, by the index of the file.
    counted: BTreeMap<usize, u64>,
    /// The hash of the bytes that were read, if a mark needs it.
    hash: Option<SharedHash>,
    /// The files that were read completely.
    read: Vec<MarkedFile>,
    /// The index of the next file.
    file: usize,
    /// The number of the first input of the next file.
    first: u64,
    open: Option<OpenFile>,
}

/// The file that is being read.
struct OpenFile {
    file: usize,
    first: u64,
    inputs: Inputs,
    /// The number of the next of `inputs` in the file, and the difference of successive numbers.
    index: u64,
    step: u64,
    /// The number of lines that were read, skipped ones included, if `inputs` has only some lines.
    lines: Option<Arc<AtomicU64>>,
    /// The number of bytes hashed before this file.
    hashed: u64,
}

/// An input or the error of its line, with its place.
pub(crate) struct Numbered {
    pub(crate) place: Place,
    pub(crate) input: Result<ZooInput, Error>,
}

/// The place of an input.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    /// The number of the input in the corpus, from 0.
    pub(crate) number: u64,
    /// The index of the file.
    pub(crate) file: usize,
    /// The number of the input in the file, from 0.
    pub(crate) index: u64,
}

impl<'a> Corpus<'a> {
    /// Iterates over all inputs of the files.
    pub(crate) fn whole(folder: &'a Folder, files: &'a [PathBuf]) -> Self {
        let all = Self::shard(folder, files, Shard { number: 0, of: 1 }, BTreeMap::new());
        Self { hash: None, ..all }
    }

    /// Iterates over the inputs of a shard. `counted` has the number of inputs of some files, so
    /// that they are not counted again.
    pub(crate) fn shard(
        folder: &'a Folder,
        files: &'a [PathBuf],
        shard: Shard,
        counted: BTreeMap<usize, u64>,
    ) -> Self {
        let (division, hash) = (shard.division(files.len()), Some(SharedHash::default()));
        let read = Vec::new();
        Self { folder, files, shard, division, counted, hash, read, file: 0, first: 0, open: None }
    }

    /// Returns the files that a shard has read completely, and the hash of their bytes.
    pub(crate) fn into_read(self) -> (Vec<MarkedFile>, Hash) {
        let hash = self.hash.as_ref().map(|hash| lock(hash).clone());
        (self.read, hash.expect("only shards have marks"))
    }

    /// Opens the next file that the corpus includes. Returns false at the end.
    fn open_next(&mut self) -> Result<bool, Error> {
        let next = match self.division {
            Division::Lines => self.file as u64,
            Division::Files => self.shard.first_from(self.file as u64),
        };
        if next >= self.files.len() as u64 {
            return Ok(false);
        }
        while (self.file as u64) < next {
            let inputs = match self.counted.get(&self.file) {
                Some(&inputs) => inputs,
                None => count_inputs(self.folder, &self.files[self.file])?,
            };
            self.first = self.first.saturating_add(inputs);
            self.file += 1;
        }
        self.open = Some(self.open_file()?);
        self.file += 1;
        Ok(true)
    }

    fn open_file(&self) -> Result<OpenFile, Error> {
        let (file, first, hashed) = (self.file, self.first, self.hashed());
        let path = &self.files[file];
        let mut reader = match self.hash.clone() {
            Some(hash) => open_with(path, |reader| Hashing { reader, hash })?,
            None => open(path)?,
        };
        let (mut index, mut step, mut lines) = (0, 1, None);
        if self.division == Division::Lines && !is_arc_file(path) {
            (index, step) = (self.shard.first_from(first) - first, u64::from(self.shard.of));
            let (chosen, counter) = EveryNthLine::new(reader, index, step);
            (reader, lines) = (Box::new(chosen), Some(counter));
        }
        let inputs = self.folder.inputs_from(reader, path);
        Ok(OpenFile { file, first, inputs, index, step, lines, hashed })
    }

    /// Records that the open file has been read completely.
    fn close(&mut self) {
        let open = self.open.take().expect("a file is open");
        let lines = open.lines.map_or(open.index, |lines| lines.load(Ordering::Relaxed));
        self.first = open.first + lines;
        self.read.push(MarkedFile {
            index: open.file as u64,
            name: self.files[open.file].display().to_string(),
            first: open.first,
            lines,
            bytes: self.hashed() - open.hashed,
        });
    }

    /// Returns the number of bytes hashed so far.
    fn hashed(&self) -> u64 {
        self.hash.as_ref().map_or(0, |hash| lock(hash).bytes)
    }

    /// Returns true for an input that another shard takes. Only arc files give such inputs, because
    /// an input of several lines can only be skipped after it has been read.
    fn skips(&self, Numbered { place, input }: &Numbered) -> bool {
        self.division == Division::Lines && input.is_ok() && !self.shard.takes(place.number)
    }
}

fn lock(hash: &SharedHash) -> MutexGuard<'_, Hash> {
    hash.lock().expect("no thread panics with this lock")
}

impl Iterator for Corpus<'_> {
    type Item = Numbered;

    fn next(&mut self) -> Option<Numbered> {
        loop {
            let Some(open) = &mut self.open else {
                match self.open_next() {
                    Ok(true) => continue,
                    Ok(false) => return None,
                    Err(error) => {
                        let place = Place { number: self.first, file: self.file, index: 0 };
                        return Some(Numbered { place, input: Err(error) });
                    }
                }
            };
            match open.next() {
                Some(numbered) if self.skips(&numbered) => {}
                Some(numbered) => return Some(numbered),
                None => self.close(),
            }
        }
    }
}

impl OpenFile {
    fn next(&mut self) -> Option<Numbered> {
        let input = self.inputs.next()?;
        let index = self.index;
        self.index += self.step;
        let place = Place { number: self.first + index, file: self.file, index };
        let input = match input {
            Ok(ZooInput::Tree(mut tree)) => {
                // One model uses the number, as 32 bits.
                tree.index = u32::try_from(place.number).unwrap_or(u32::MAX);
                Ok(ZooInput::Tree(tree))
            }
            Err(error) if self.lines.is_some() => Err(at_line(error, index + 1)),
            other => other,
        };
        Some(Numbered { place, input })
    }
}

fn count_inputs(folder: &Folder, path: &Path) -> Result<u64, Error> {
    if !is_arc_file(path) {
        let unreadable = |source| Error::Open { file: path.display().to_string(), source };
        return count_lines(open(path)?).map_err(unreadable);
    }
    folder.inputs(path)?.try_fold(0, |count, input| input.map(|_| count + 1))
}

/// Sets the line number of an error.
fn at_line(mut error: Error, line: u64) -> Error {
    if let Error::Read { at, .. } | Error::Format { at, .. } | Error::Truncated { at, .. } =
        &mut error
    {
        at.line = line;
    }
    error
}
