//! The inputs of one or several files, numbered through, and the share of them that a shard takes.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use edbatch_datasets::{Error, open, open_through};
use edbatch_models::{Folder, Inputs, ZooInput, is_arc_file};

use super::every_nth_line::{EveryNthLine, count_lines};
use super::sha256::{Hash, Hashing, SharedHash};
use super::shard::{Division, Shard};
use super::shard_mark::MarkedFile;

/// Inputs one after the other, read as they are asked for.
///
/// It goes on after a malformed line ([`Error::Format`]) of a file that is no arc file; after any
/// other error it must not be asked again.
pub(crate) struct Corpus<'a> {
    folder: &'a Folder,
    files: &'a [PathBuf],
    share: Option<Share>,
    /// The next file.
    file: usize,
    /// The number of that file's first input.
    first: u64,
    open: Option<OpenFile>,
}

/// What a shard takes of the files, and what it has read of them.
struct Share {
    shard: Shard,
    division: Division,
    /// Inputs in files that were counted before.
    counted: BTreeMap<usize, u64>,
    hash: SharedHash,
    read: Vec<MarkedFile>,
}

/// The file that is being read.
struct OpenFile {
    file: usize,
    first: u64,
    inputs: Inputs,
    /// Inputs taken from `inputs`.
    taken: u64,
    /// The file's lines, where `inputs` has only some of them.
    some: Option<SomeLines>,
    /// Bytes hashed before this file.
    hashed: u64,
}

struct SomeLines {
    first: u64,
    step: u64,
    lines: Arc<AtomicU64>,
}

/// An input, or what is wrong with its line, and where it stands.
pub(crate) struct Numbered {
    pub(crate) place: Place,
    pub(crate) input: Result<ZooInput, Error>,
}

/// Where an input stands.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    /// Its number in the corpus.
    pub(crate) number: u64,
    /// Which of the files has it.
    pub(crate) file: usize,
    /// Its number in that file.
    pub(crate) index: u64,
}

impl<'a> Corpus<'a> {
    /// All inputs of the files.
    pub(crate) fn whole(folder: &'a Folder, files: &'a [PathBuf]) -> Self {
        Self { folder, files, share: None, file: 0, first: 0, open: None }
    }

    /// Those of a shard; `counted` has the inputs of files that need not be counted again.
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

    /// The files that a shard has read to their ends, and the hash of their bytes.
    pub(crate) fn into_read(self) -> (Vec<MarkedFile>, Hash) {
        let share = self.share.expect("only shards are marked");
        let hash = share.hash.lock().expect("nothing panics under this lock").clone();
        (share.read, hash)
    }

    /// Opens the next file that has inputs to take; false if there is none.
    fn open_next(&mut self) -> Result<bool, Error> {
        while self.file < self.files.len() {
            let (file, first) = (self.file, self.first);
            match &self.share {
                Some(share) if !share.takes_file(file) => {
                    // Numbers of files behind the last one that is taken are not needed.
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
        let hashed = hash.lock().expect("nothing panics under this lock").bytes;
        let mut reader = open_through(path, |reader| Hashing { reader, hash })?;
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

    /// Notes the end of a file.
    fn close(&mut self, open: &OpenFile) {
        let lines =
            open.some.as_ref().map_or(open.taken, |some| some.lines.load(Ordering::Relaxed));
        self.first = open.first + lines;
        if let Some(share) = &mut self.share {
            let hashed = share.hash.lock().expect("nothing panics under this lock").bytes;
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
                        // Instances of an arc file are known as such only once they are read.
                        Some(share)
                            if arcs
                                && numbered.input.is_ok()
                                && share.division == Division::Lines
                                && !share.shard.takes(numbered.place.number) => {}
                        _ => return Some(numbered),
                    }
                }
                None => {
                    let open = self.open.take().expect("it was open");
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
                // Only one model asks for the number, and not for more than 32 bits of it.
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

    /// The shard's first number that is at least `number`.
    fn first_from(&self, number: u64) -> u64 {
        let (own, of) = (u64::from(self.shard.number), u64::from(self.shard.of));
        number + (own + of - number % of) % of
    }

    /// How many inputs are in a file of another shard.
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

/// An error at another line of the same file.
fn at_line(mut error: Error, line: u64) -> Error {
    match &mut error {
        Error::Read { at, .. } | Error::Format { at, .. } | Error::Cut { at, .. } => at.line = line,
        _ => {}
    }
    error
}
