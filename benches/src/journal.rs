//! The file of records, written as they come: an interrupted run loses what had not had its last
//! lap.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use edbatch_datasets::write_atomic;

use crate::machine::Machine;
use crate::record::Record;
use crate::workload::Failure;

/// Records, in memory and in a file.
pub struct Journal {
    path: PathBuf,
    /// It is made when there is something to write.
    file: Option<File>,
    records: Vec<Record>,
}

impl Journal {
    /// An empty one. What the file held is lost once the first record comes.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        Self { path: path.into(), file: None, records: Vec::new() }
    }

    /// The one that an interrupted run left, without what it measured on another machine or with
    /// other sources: that would be compared with what cannot stand beside it.
    ///
    /// # Errors
    /// If the file cannot be read, or a line that is whole is no record.
    pub fn resume(path: &Path, machine: &Machine) -> Result<Self, Failure> {
        let mut journal = Self::new(path);
        let lines = match read_lines(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(journal),
            lines => lines.map_err(|error| format!("{}: {error}", path.display()))?,
        };
        let (kept, others): (Vec<_>, Vec<_>) =
            lines.into_iter().partition(|(_, record)| record.machine.agrees(machine));
        if !others.is_empty() {
            let (count, path) = (others.len(), path.display());
            eprintln!("{path}: {count} records of another machine or commit are measured anew");
        }
        // Whole before it takes the old one's place: an interruption here loses nothing.
        let (lines, records): (Vec<String>, Vec<Record>) = kept.into_iter().unzip();
        let rewritten = write_atomic(path, lines.concat().as_bytes())
            .and_then(|()| OpenOptions::new().append(true).open(path));
        let file = rewritten.map_err(|error| format!("{}: {error}", path.display()))?;
        (journal.file, journal.records) = (Some(file), records);
        Ok(journal)
    }

    /// Whether a step has been measured.
    #[must_use]
    pub fn has(&self, step: &str) -> bool {
        self.records.iter().any(|record| record.step == step)
    }

    /// Writes the records of a step.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn add(&mut self, records: Vec<Record>) -> Result<(), Failure> {
        let lines = records.iter().map(|record| Ok(serde_json::to_string(record)? + "\n"));
        let lines: String = lines.collect::<Result<_, Failure>>()?;
        // At once, so that a step is there wholly or not at all.
        self.write(&lines)?;
        self.records.extend(records);
        Ok(())
    }

    fn write(&mut self, lines: &str) -> Result<(), Failure> {
        let failure = |error| format!("{}: {error}", self.path.display());
        if self.file.is_none() {
            if let Some(folder) = self.path.parent() {
                fs::create_dir_all(folder).map_err(failure)?;
            }
            let mut options = OpenOptions::new();
            let file = options.write(true).create(true).truncate(true).open(&self.path);
            self.file = Some(file.map_err(failure)?);
        }
        let file = self.file.as_mut().expect("it has been opened");
        file.write_all(lines.as_bytes()).map_err(failure)?;
        Ok(())
    }

    /// All records so far.
    #[must_use]
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Where they are written.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// The records of a file. If its last line is broken off, its whole last step is left out.
///
/// # Errors
/// If it cannot be read, or another line is no record.
pub fn read(path: &Path) -> std::io::Result<Vec<Record>> {
    Ok(read_lines(path)?.into_iter().map(|(_, record)| record).collect())
}

/// The same with the lines as they are: a figure that is read and written again may lose a bit.
fn read_lines(path: &Path) -> std::io::Result<Vec<(String, Record)>> {
    let text = fs::read_to_string(path)?;
    let whole = text.rfind('\n').map_or(0, |end| end + 1);
    let mut records = Vec::new();
    for (number, line) in (1..).zip(text[..whole].lines()) {
        let record: Record = serde_json::from_str(line).map_err(|error| {
            std::io::Error::new(ErrorKind::InvalidData, format!("line {number}: {error}"))
        })?;
        records.push((format!("{line}\n"), record));
    }
    if whole < text.len() {
        let last = records.last().map(|(_, record)| record.step.clone());
        records.retain(|(_, record)| Some(&record.step) != last.as_ref());
    }
    Ok(records)
}
