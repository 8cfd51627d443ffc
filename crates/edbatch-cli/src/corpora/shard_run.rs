//! `infer --shard`: runs one shard of a corpus.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use edbatch::load;
use edbatch::models::Folder;
use edbatch_datasets::write_atomic;

use super::corpus::Corpus;
use super::shard::{Division, Shard, is_shard_file};
use super::shard_mark::Mark;
use crate::failure::Failure;
use crate::if_exists;
use crate::infer::Infer;
use crate::output::Output;
use crate::sha256::{Hash, of_model};

/// Everything that determines the results of a shard, except the contents of its inputs.
struct Job<'a> {
    shard: Shard,
    dir: &'a Path,
    files: &'a [PathBuf],
    model: String,
    arithmetic: String,
}

/// Runs a shard, unless it is already done, and reports on standard error.
pub(crate) fn run(infer: &Infer, shard: Shard, dir: &Path) -> Result<(), Failure> {
    let start = Instant::now();
    let folder = Folder::read(&infer.dir).map_err(Failure::new)?;
    let files = infer.files(&folder);
    files.iter().try_for_each(|file| check_file(file))?;
    let (part, mark) = (shard.part(dir), shard.mark(dir));
    infer.check_outputs(&folder, &files, &[("the part", &part), ("the mark", &mark)])?;
    let (model, arithmetic) = (of_model(&folder)?, infer.arithmetic());
    let job = Job { shard, dir, files: &files, model, arithmetic };
    fs::create_dir_all(dir).map_err(|error| Failure::writing(dir, &error))?;
    remove_leftovers(dir)?;
    let rerun = match job.valid_mark() {
        Ok(Some(mark)) => {
            eprintln!("edbatch: {shard}: already done: {}", counts(&mark));
            return Ok(());
        }
        Ok(None) => String::new(),
        Err(reason) => format!(" (run again: {reason})"),
    };
    let mark = job.run(infer)?;
    remove_leftovers(dir)?;
    let seconds = start.elapsed().as_secs_f64();
    eprintln!("edbatch: {shard}: done in {seconds:.1} s: {}{rerun}", counts(&mark));
    Ok(())
}

/// Removes the leftovers of killed runs of any shard from a folder.
fn remove_leftovers(dir: &Path) -> Result<(), Failure> {
    edbatch_datasets::remove_leftovers(dir, is_shard_file).map_err(|error| {
        Failure::at(dir, format_args!("cannot remove the leftovers of killed runs: {error}"))
    })
}

fn counts(mark: &Mark) -> String {
    format!("{} lines, {} without results", mark.lines, mark.failed)
}

/// Checks that an input is a regular file, because it may be read twice.
fn check_file(path: &Path) -> Result<(), Failure> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => Ok(()),
        Ok(_) => Err(Failure::at(path, "expected a file, got a folder, a pipe or a device")),
        Err(error) => Err(Failure::reading(path, &error)),
    }
}

impl Job<'_> {
    /// Returns the mark of an earlier run, or `None` if the shard has no mark. If the mark is
    /// invalid or outdated, the error says why the shard must run again.
    fn valid_mark(&self) -> Result<Option<Mark>, String> {
        let Some(mark) = Mark::read(self.dir, self.shard.number)? else { return Ok(None) };
        if mark.of != self.shard.of {
            return Err(format!("there were {} shards", mark.of));
        }
        if mark.model != self.model {
            return Err("the model has changed".into());
        }
        if mark.arithmetic != self.arithmetic {
            return Err(format!("the arithmetic was {}", mark.arithmetic));
        }
        if mark.inputs != self.files.len() as u64 || !self.has_inputs_of(&mark) {
            return Err("the inputs have changed".into());
        }
        verify_part(self.dir, &mark)?;
        Ok(Some(mark))
    }

    /// Returns true if the files in a mark still have the recorded bytes and input numbers.
    fn has_inputs_of(&self, mark: &Mark) -> bool {
        let mut all = Hash::default();
        for marked in &mark.files {
            let before = all.bytes;
            let path = &self.files[marked.index as usize];
            if all.file(path, |_| ()).is_err() || all.bytes - before != marked.bytes {
                return false;
            }
        }
        all.hex() == mark.input && self.numbers_fit(mark)
    }

    /// Returns true if the first input number of each file in the mark follows from the counts of
    /// the files before it. Files after an unknown count pass; only `shards check` can check them.
    fn numbers_fit(&self, mark: &Mark) -> bool {
        let mut known = self.counted();
        known.extend(mark.files.iter().map(|file| (file.index as usize, file.lines)));
        mark.files.iter().all(|file| {
            let mut before = (0..file.index as usize).map(|index| known.get(&index));
            let number = before.try_fold(0_u64, |number, lines| number.checked_add(*lines?));
            number.is_none_or(|number| number == file.first)
        })
    }

    /// Returns the number of inputs of each file that a shard has read, according to its mark.
    fn counted(&self) -> BTreeMap<usize, u64> {
        let mut counted = BTreeMap::new();
        if self.shard.division(self.files.len()) == Division::Lines {
            return counted;
        }
        for number in 0..self.shard.of {
            let Ok(Some(mark)) = Mark::read(self.dir, number) else { continue };
            if mark.of != self.shard.of || mark.inputs != self.files.len() as u64 {
                continue;
            }
            for file in &mark.files {
                let path = &self.files[file.index as usize];
                let size = fs::metadata(path).map(|metadata| metadata.len());
                if path.display().to_string() == file.name && size.is_ok_and(|s| s == file.bytes) {
                    counted.insert(file.index as usize, file.lines);
                }
            }
        }
        counted
    }

    fn run(&self, infer: &Infer) -> Result<Mark, Failure> {
        let (part, mark) = (self.shard.part(self.dir), self.shard.mark(self.dir));
        // Remove the old mark first, so that a shard with a mark is always complete.
        if_exists(fs::remove_file(&mark))
            .map_err(|error| Failure::at(&mark, format_args!("cannot remove the file: {error}")))?;
        let loaded = load(&infer.dir).map_err(Failure::new)?;
        if of_model(&loaded.folder)? != self.model {
            return Err(Failure::at(
                &infer.dir,
                "the model changed while it was loaded; run the shard again",
            ));
        }
        let folder = loaded.folder.clone();
        let mut corpus = Corpus::shard(&folder, self.files, self.shard, self.counted());
        let (mut output, mut hash) = (Output::open(Some(&part))?, Hash::default());
        let tally = infer.run_corpus(loaded, &mut corpus, None, |text| {
            hash.update(text);
            output.write(text)
        })?;
        output.finish()?;
        let (files, input) = corpus.into_read();
        let done = Mark {
            shard: self.shard.number,
            of: self.shard.of,
            lines: tally.lines,
            failed: tally.failed,
            model: self.model.clone(),
            input: input.hex(),
            bytes: hash.bytes,
            output: hash.hex(),
            arithmetic: self.arithmetic.clone(),
            division: self.shard.division(self.files.len()),
            inputs: self.files.len() as u64,
            files,
        };
        write_atomic(&mark, done.to_json().as_bytes())
            .map_err(|error| Failure::writing(&mark, &error))?;
        Ok(done)
    }
}

/// Checks that a shard's results have the size, checksum and number of lines in its mark.
pub(crate) fn verify_part(dir: &Path, mark: &Mark) -> Result<(), String> {
    let mut hash = Hash::default();
    let mut lines = 0_u64;
    let count = |piece: &[u8]| lines += piece.iter().filter(|&&byte| byte == b'\n').count() as u64;
    if let Err(error) = hash.file(&mark.shard().part(dir), count) {
        return Err(format!("cannot read the part: {error}"));
    }
    if hash.bytes != mark.bytes {
        return Err(format!("the part has {} bytes, expected {}", hash.bytes, mark.bytes));
    }
    if hash.hex() != mark.output || lines != mark.lines {
        return Err("the checksum of the part does not match the mark".into());
    }
    Ok(())
}
