//! Examples in memory: inputs with their targets, and their places in files.

use std::ops::Range;
use std::path::{Path, PathBuf};

use edbatch::models::{Folder, Targets, ZooInput, is_arc_file};
use edbatch::{RunError, TrainError};

use crate::failure::Failure;
use crate::{out_of_memory, progress};

/// The examples of some files.
pub(crate) struct Examples {
    pub(crate) inputs: Vec<ZooInput>,
    pub(crate) targets: Vec<Targets>,
    pub(crate) files: Vec<PathBuf>,
    /// For each file, the number of examples up to its end.
    ends: Vec<usize>,
}

impl Examples {
    /// Reads all files. `targets` are the files of translations, one for each file of inputs; if
    /// the list is empty, the file that the configuration names is read.
    pub(crate) fn read(
        folder: &Folder,
        files: &[PathBuf],
        targets: &[PathBuf],
    ) -> Result<Self, Failure> {
        if !targets.is_empty() && targets.len() != files.len() {
            let (files, targets) = (files.len(), targets.len());
            let message =
                format!("expected a file of targets for each of {files} inputs, got {targets}");
            return Err(Failure::Usage(message));
        }
        let bar = progress::over_lines(files, false);
        let (inputs, all, files) = (Vec::new(), Vec::new(), files.to_vec());
        let mut read = Self { inputs, targets: all, files, ends: Vec::new() };
        for (index, file) in read.files.iter().enumerate() {
            let examples = folder.examples(file, targets.get(index).map(PathBuf::as_path));
            for example in examples.map_err(Failure::new)? {
                let (input, targets) = example.map_err(Failure::new)?;
                out_of_memory::check()?;
                read.inputs.push(input);
                read.targets.push(targets);
                bar.inc(1);
            }
            read.ends.push(read.inputs.len());
        }
        bar.finish_and_clear();
        match read.inputs.is_empty() {
            true => Err(Failure::at(&read.files[0], "expected examples, got an empty file")),
            false => Ok(read),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.inputs.len()
    }

    /// Returns the file of an example, and the example's number there, from 1. This is the number
    /// of its line, except in arc files.
    pub(crate) fn place(&self, example: usize) -> (&Path, usize) {
        let file = self.ends.partition_point(|&end| end <= example);
        let first = file.checked_sub(1).map_or(0, |before| self.ends[before]);
        (&self.files[file], example - first + 1)
    }

    fn at(&self, example: usize, error: impl std::fmt::Display) -> Failure {
        let (file, number) = self.place(example);
        let input = if is_arc_file(file) { "input " } else { "" };
        Failure::new(format_args!("{}:{input}{number}: {error}", file.display()))
    }

    /// The error of a mini-batch of consecutive examples.
    pub(crate) fn failed(&self, part: &Range<usize>, error: RunError) -> Failure {
        match error {
            RunError::Input { instance, error } => self.at(part.start + instance, error),
            error => self.at(part.start, format_args!("the mini-batch that begins here: {error}")),
        }
    }

    /// The error of a mini-batch of the examples with these indices.
    pub(crate) fn failed_training(&self, indices: &[usize], mut error: TrainError) -> Failure {
        let Some(input) = error.input_mut() else { return Failure::new(error) };
        let example = indices[*input];
        // The text of the error has the number of the input in its file.
        *input = self.place(example).1 - 1;
        self.at(example, error)
    }
}
