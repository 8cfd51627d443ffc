//! A mini-batch of `infer`: lines that are read, run, and written as text.

use std::fmt;
use std::path::PathBuf;

use clap::ValueEnum;
use edbatch::{InputError, Report, Rows, Statistics};
use edbatch_datasets::Error;
use edbatch_models::{Lexicon, ZooInput, is_arc_file};

use super::corpus::{Corpus, Numbered, Place};
use super::failure::Failure;
use super::runner::Runner;

/// What becomes of an input without results.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnError {
    /// It ends the run.
    Stop,
    /// Its line says why, {"id": 0, "error": "…"}; the others are as they would have been.
    Record,
}

/// Lines that follow each other in what is run.
pub(crate) struct MiniBatch {
    /// Where each line stands, and what is wrong with it, if something is.
    lines: Vec<(Place, Result<(), String>)>,
    /// Those of the lines with which nothing is wrong.
    inputs: Vec<ZooInput>,
}

/// The results of a mini-batch as text, and what its engine has done so far.
pub(crate) struct Done {
    pub(crate) text: Vec<u8>,
    pub(crate) lines: usize,
    pub(crate) failed: usize,
    /// The engine's number.
    pub(crate) number: usize,
    pub(crate) statistics: Statistics,
    pub(crate) report: Report,
}

/// What one thread needs to run mini-batches.
pub(crate) struct Work<'a> {
    pub(crate) runner: Runner,
    pub(crate) lexicon: &'a Lexicon,
    pub(crate) files: &'a [PathBuf],
    pub(crate) number: usize,
    pub(crate) on_error: OnError,
    /// Of the mini-batch that ran last, for their memory.
    pub(crate) results: Vec<Result<Rows, InputError>>,
}

/// The lines in groups of `size`, the last one perhaps smaller.
pub(crate) fn mini_batches(
    corpus: &mut Corpus<'_>,
    size: usize,
    on_error: OnError,
) -> impl Iterator<Item = Result<MiniBatch, Failure>> {
    std::iter::from_fn(move || {
        let mut mini_batch = MiniBatch { lines: Vec::new(), inputs: Vec::new() };
        while mini_batch.lines.len() < size
            && let Some(Numbered { place, input }) = corpus.next()
        {
            if mini_batch.inputs.try_reserve(1).is_err() {
                let what = "out of memory: the inputs of a mini-batch: make mini-batches smaller";
                return Some(Err(Failure::new(what)));
            }
            let wrong = match input {
                Ok(input) => {
                    mini_batch.inputs.push(input);
                    Ok(())
                }
                // Only a line can be passed over, and in an arc file an input takes several.
                Err(error @ Error::Format { .. })
                    if on_error == OnError::Record && !is_arc_file(corpus.file(place)) =>
                {
                    Err(error.to_string())
                }
                Err(error) => return Some(Err(Failure::new(error))),
            };
            mini_batch.lines.push((place, wrong));
        }
        (!mini_batch.lines.is_empty()).then_some(Ok(mini_batch))
    })
}

impl Work<'_> {
    /// Runs a mini-batch and writes its results.
    pub(crate) fn run(&mut self, mini_batch: MiniBatch) -> Result<Done, Failure> {
        let MiniBatch { lines, inputs } = mini_batch;
        let failed = match self.runner.run_each(&inputs, &mut self.results) {
            Ok(()) => None,
            Err(error) => {
                let what = format_args!("the mini-batch from here on: {error}");
                Some(self.at_line(lines[0].0, what))
            }
        };
        let mut results = self.results.iter();
        let (mut text, mut count) = (Vec::new(), 0);
        for (place, line) in &lines {
            let before = text.len();
            let written = line.clone().and_then(|()| {
                let at = |error: &dyn fmt::Display| self.at_line(*place, error);
                failed.clone().map_or(Ok(()), Err)?;
                let rows = results.next().expect("a result for each input");
                let rows = rows.as_ref().map_err(|error| match error {
                    // What is looked for in a corpus is known by its number there.
                    InputError::NotFinite(_) => at(&format_args!("id {}: {error}", place.number)),
                    _ => at(error),
                })?;
                write_line(self.lexicon, place.number, rows, &mut text).map_err(|error| at(&error))
            });
            if let Err(error) = written {
                if self.on_error == OnError::Stop {
                    return Err(Failure::new(error));
                }
                text.truncate(before);
                let error = serde_json::to_string(&error).expect("text becomes JSON");
                let number = place.number;
                let line = format!("{{\"id\": {number}, \"error\": {error}}}\n");
                text.extend_from_slice(line.as_bytes());
                count += 1;
            }
        }
        let (statistics, report) = self.runner.took();
        let (lines, number) = (lines.len(), self.number);
        Ok(Done { text, lines, failed: count, number, statistics, report })
    }

    /// What is wrong at an input's line, which is its number for all formats but arc files.
    fn at_line(&self, place: Place, error: impl fmt::Display) -> String {
        let (path, index) = (&self.files[place.file], place.index);
        let file = path.display();
        match is_arc_file(path) {
            true => format!("{file}: instance {index}: {error}"),
            false => format!("{file}:{}: {error}", index + 1),
        }
    }
}

/// Appends an input's results. The shortest form of a number that reads back to the same bits makes
/// equal results equal bytes.
fn write_line(lexicon: &Lexicon, id: u64, rows: &Rows, out: &mut Vec<u8>) -> Result<(), String> {
    out.extend_from_slice(format!("{{\"id\": {id}, \"logits\": [").as_bytes());
    for (index, row) in rows.iter().enumerate() {
        out.extend_from_slice(if index == 0 { b"[" } else { b", [" });
        for (column, value) in row.iter().enumerate() {
            if !value.is_finite() {
                return Err(format!(
                    "expected finite results, got {value} in row {index}; --check-finite says \
                     which call makes it"
                ));
            }
            if column > 0 {
                out.extend_from_slice(b", ");
            }
            serde_json::to_writer(&mut *out, value).expect("memory takes every write");
        }
        out.push(b']');
    }
    out.push(b']');
    if let Some(named) = lexicon.decode(rows.iter()) {
        let names = serde_json::to_string(&named.names).expect("names become JSON");
        out.extend_from_slice(format!(", \"{}\": {names}", named.what).as_bytes());
    }
    out.extend_from_slice(b"}\n");
    Ok(())
}
