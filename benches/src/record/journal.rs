//! The file of records. Each step is written when it ends; an interrupted run loses the steps that
//! have not completed their last lap.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use edbatch_datasets::write_atomic;

use crate::Failure;
use crate::record::Record;
use crate::record::machine::Machine;

/// Records in memory and in a file.
pub struct Journal {
    path: PathBuf,
    /// Created with the first record.
    file: Option<File>,
    records: Vec<Record>,
}

impl Journal {
    /// An empty journal. The first record overwrites the file.
    pub fn new(path: &Path) -> Self {
        Self { path: path.into(), file: None, records: Vec::new() }
    }

    /// Continues the journal of an interrupted run. Records of another machine or of other sources
    /// are dropped, because they cannot be compared.
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
            eprintln!(
                "{path}: {count} records of another machine or commit will be measured again"
            );
        }
        // The new file is complete before it replaces the old one.
        let (lines, records): (Vec<String>, Vec<Record>) = kept.into_iter().unzip();
        let rewritten = write_atomic(path, lines.concat().as_bytes())
            .and_then(|()| OpenOptions::new().append(true).open(path));
        let file = rewritten.map_err(|error| format!("{}: {error}", path.display()))?;
        (journal.file, journal.records) = (Some(file), records);
        Ok(journal)
    }

    /// Returns true if a step has records.
    pub fn has(&self, step: &str) -> bool {
        self.records.iter().any(|record| record.step == step)
    }

    /// Writes the records of a step.
    pub fn add(&mut self, records: Vec<Record>) -> Result<(), Failure> {
        let lines = records.iter().map(|record| Ok(serde_json::to_string(record)? + "\n"));
        let lines: String = lines.collect::<Result<_, Failure>>()?;
        let failure = |error| format!("{}: {error}", self.path.display());
        if self.file.is_none() {
            fs::create_dir_all(self.path.parent().unwrap_or(Path::new(""))).map_err(failure)?;
            self.file = Some(File::create(&self.path).map_err(failure)?);
        }
        let file = self.file.as_mut().expect("it has been opened");
        // In one write, so that a step is never split.
        file.write_all(lines.as_bytes()).map_err(failure)?;
        self.records.extend(records);
        Ok(())
    }

    /// Returns all records so far.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Reads the records of a file. If the last line is incomplete, its whole step is dropped.
pub fn read(path: &Path) -> std::io::Result<Vec<Record>> {
    Ok(read_lines(path)?.into_iter().map(|(_, record)| record).collect())
}

/// Returns each record with its line, because formatting a record again may round its figures.
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
