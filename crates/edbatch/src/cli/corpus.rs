//! The numbered inputs of one or more files, or of one shard of them.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use edbatch_datasets::{Error, open, open_with};
use edbatch_models::{Folder, Inputs, ZooInput, is_arc_file};

use super::every_nth_line::{EveryNthLine, count_lines};
use super::sha256::{Hash, Hashing, SharedHash};
use super::shard::{Division, Shard};
use super::shard_mark::MarkedFile;

/// An iterator over inputs, which reads them lazily.
///
/// It continues after a malformed line ([`Error::Format`]), except in arc files. Do not call `next`
/// after any other error.
pub(crate) struct Corpus<'a> {
    folder: &'a Folder,
    files: &'a [PathBuf],
    share: Option<Share>,
    /// The index of the next file.
    file: usize,
    /// The number of the first input of the next file.
    first: u64,
    open: Option<OpenFile>,
}

/// A shard's share of the corpus, and the files that it has read so far.
struct Share {
    shard: Shard,
    division: Division,
    /// The known numbers of inputs of files, by the index of the file.
    counted: BTreeMap<usize, u64>,
    hash: SharedHash,
    read: Vec<MarkedFile>,
}

/// The file that is being read.
struct OpenFile {
    file: usize,
    first: u64,
    inputs: Inputs,
    /// The number of inputs taken from `inputs`.
    taken: u64,
    /// The lines that `inputs` contains, or `None` for all lines.
    some: Option<SomeLines>,
    /// The number of bytes hashed before this file.
    hashed: u64,
}

/// Lines `first`, `first + step`, … of a file.
struct SomeLines {
    first: u64,
    step: u64,
    /// The number of lines of the file that were read, skipped ones included.
    lines: Arc<AtomicU64>,
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
        Self { folder, files, share: None, file: 0, first: 0, open: None }
    }

    /// Iterates over the inputs of a shard. `counted` has the number of inputs of some files, so
    /// that they are not counted again.
    pub(crate) fn shard(
        folder: &'a Folder,
        files: &'a [PathBuf],
        shard: Shard,
        counted: BTreeMap<usize, u64>,
    ) -> Self {
        let (hash, read) = (SharedHash::default(), Vec::new());
        let division = shard.division(files.len());
        let share = Share { shard, division, counted, hash, read };
        Self { share: Some(share), ..Self::whole(folder, files) }
    }

    pub(crate) fn files(&self) -> &'a [PathBuf] {
        self.files
    }

    pub(crate) fn file(&self, place: Place) -> &'a Path {
        &self.files[place.file]
    }

    /// Returns the files that a shard has read completely, and the hash of their bytes.
    pub(crate) fn into_read(self) -> (Vec<MarkedFile>, Hash) {
        let share = self.share.expect("only shards have marks");
        let hash = share.hash.lock().expect("no thread panics with this lock").clone();
        (share.read, hash)
    }

    /// Opens the next file that the corpus includes. Returns false at the end.
    fn open_next(&mut self) -> Result<bool, Error> {
        while self.file < self.files.len() {
            let (file, first) = (self.file, self.first);
            match &self.share {
                Some(share) if !share.takes_file(file) => {
                    // Count inputs only if the shard takes a later file.
                    let more = share.shard.count_below(self.files.len() as u64)
                        > share.shard.count_below(file as u64);
                    if more {
                        let inputs = share.inputs_of(file, self.folder, self.files)?;
                        self.first = self.first.saturating_add(inputs);
                    }
                }
                _ => self.open = Some(self.open_file(file, first)?),
            }
            self.file += 1;
            if self.open.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn open_file(&self, file: usize, first: u64) -> Result<OpenFile, Error> {
        let path = &self.files[file];
        let Some(share) = &self.share else {
            let inputs = self.folder.inputs(path)?;
            return Ok(OpenFile { file, first, inputs, taken: 0, some: None, hashed: 0 });
        };
        let hash = share.hash.clone();
        let hashed = hash.lock().expect("no thread panics with this lock").bytes;
        let mut reader = open_with(path, |reader| Hashing { reader, hash })?;
        let mut some = None;
        if share.division == Division::Lines && !is_arc_file(path) {
            let (begin, step) = (share.first_from(first) - first, u64::from(share.shard.of));
            let (chosen, lines) = EveryNthLine::new(reader, begin, step);
            reader = Box::new(chosen);
            some = Some(SomeLines { first: begin, step, lines });
        }
        let inputs = self.folder.inputs_from(reader, path);
        Ok(OpenFile { file, first, inputs, taken: 0, some, hashed })
    }

    /// Records a file that has been read completely.
    fn close(&mut self, open: &OpenFile) {
        let lines =
            open.some.as_ref().map_or(open.taken, |some| some.lines.load(Ordering::Relaxed));
        self.first = open.first + lines;
        if let Some(share) = &mut self.share {
            let hashed = share.hash.lock().expect("no thread panics with this lock").bytes;
            share.read.push(MarkedFile {
                index: open.file as u64,
                name: self.files[open.file].display().to_string(),
                first: open.first,
                lines,
                bytes: hashed - open.hashed,
            });
        }
    }
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
                Some(numbered) => {
                    let arcs = is_arc_file(&self.files[numbered.place.file]);
                    match &self.share {
                        // An input of an arc file can only be skipped after it has been read.
                        Some(share)
                            if arcs
                                && numbered.input.is_ok()
                                && share.division == Division::Lines
                                && !share.shard.takes(numbered.place.number) => {}
                        _ => return Some(numbered),
                    }
                }
                None => {
                    let open = self.open.take().expect("a file is open");
                    self.close(&open);
                }
            }
        }
    }
}

impl OpenFile {
    fn next(&mut self) -> Option<Numbered> {
        let input = self.inputs.next()?;
        let index = match &self.some {
            None => self.taken,
            Some(some) => some.first + self.taken * some.step,
        };
        self.taken += 1;
        let place = Place { number: self.first + index, file: self.file, index };
        let input = match input {
            Ok(ZooInput::Tree(mut tree)) => {
                // One model uses the number, as 32 bits.
                tree.index = u32::try_from(place.number).unwrap_or(u32::MAX);
                Ok(ZooInput::Tree(tree))
            }
            Err(error) if self.some.is_some() => Err(at_line(error, index + 1)),
            other => other,
        };
        Some(Numbered { place, input })
    }
}

impl Share {
    fn takes_file(&self, file: usize) -> bool {
        self.division == Division::Lines || self.shard.takes(file as u64)
    }

    /// Returns the lowest number of an input of the shard that is at least `number`.
    fn first_from(&self, number: u64) -> u64 {
        let (own, of) = (u64::from(self.shard.number), u64::from(self.shard.of));
        number + (own + of - number % of) % of
    }

    /// Returns the number of inputs of a file that another shard reads.
    fn inputs_of(&self, file: usize, folder: &Folder, files: &[PathBuf]) -> Result<u64, Error> {
        match self.counted.get(&file) {
            Some(&inputs) => Ok(inputs),
            None => count_inputs(folder, &files[file]),
        }
    }
}

fn count_inputs(folder: &Folder, path: &Path) -> Result<u64, Error> {
    if !is_arc_file(path) {
        let reader: Box<dyn BufRead + Send> = open(path)?;
        let unreadable = |source| Error::Open { file: path.display().to_string(), source };
        return count_lines(reader).map_err(unreadable);
    }
    let mut count = 0;
    for input in folder.inputs(path)? {
        input?;
        count += 1;
    }
    Ok(count)
}

/// Sets the line number of an error.
fn at_line(mut error: Error, line: u64) -> Error {
    match &mut error {
        Error::Read { at, .. } | Error::Format { at, .. } | Error::Truncated { at, .. } => {
            at.line = line
        }
        _ => {}
    }
    error
}
