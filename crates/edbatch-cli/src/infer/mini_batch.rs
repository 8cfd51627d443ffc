//! A mini-batch of `infer`: reads lines, runs them, and writes the results as text.

use std::fmt;
use std::path::PathBuf;

use clap::ValueEnum;
use edbatch::models::{Lexicon, ZooInput, is_arc_file};
use edbatch::{InputError, Report, Rows, Statistics};
use edbatch_datasets::Error;
use serde::Serialize;

use super::finite::Reference;
use super::runner::{Results, Runner};
use crate::corpora::corpus::{Corpus, Numbered, Place};
use crate::failure::Failure;
use crate::out_of_memory;

/// The handling of an input that fails.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnError {
    /// End the run.
    Stop,
    /// Write the error instead of results, {"id": 0, "error": "…"}; other lines do not change.
    Record,
}

/// The lines of one mini-batch.
pub(crate) struct MiniBatch {
    /// The place of each line, and the error if it could not be read.
    lines: Vec<(Place, Result<(), String>)>,
    /// The inputs of the lines without errors.
    inputs: Vec<ZooInput>,
}

/// The results of a mini-batch as text, and the statistics of its worker so far.
pub(crate) struct Done {
    pub(crate) text: Vec<u8>,
    pub(crate) lines: usize,
    pub(crate) failed: usize,
    /// The number of the worker.
    pub(crate) number: usize,
    pub(crate) statistics: Statistics,
    pub(crate) report: Report,
}

/// A worker that runs mini-batches on one thread.
pub(crate) struct Worker<'a> {
    pub(crate) runner: Runner,
    pub(crate) lexicon: &'a Lexicon,
    pub(crate) files: &'a [PathBuf],
    pub(crate) number: usize,
    pub(crate) on_error: OnError,
    pub(crate) reference: &'a Reference<'a>,
    /// Checks every input with the reference interpreter, even if its results are finite.
    pub(crate) check_finite: bool,
    /// The results of the previous mini-batch, to reuse their memory.
    pub(crate) results: Results,
}

/// Groups the lines of a corpus into mini-batches of `size`; the last may be smaller.
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
            if let Err(failure) = out_of_memory::check() {
                return Some(Err(failure));
            }
            let read = match input {
                Ok(input) => {
                    mini_batch.inputs.push(input);
                    Ok(())
                }
                // Only single lines can be skipped; in an arc file, an input takes several.
                Err(error @ Error::Format { .. })
                    if on_error == OnError::Record && !is_arc_file(&corpus.files[place.file]) =>
                {
                    Err(error.to_string())
                }
                Err(error) => return Some(Err(Failure::new(error))),
            };
            mini_batch.lines.push((place, read));
        }
        (!mini_batch.lines.is_empty()).then_some(Ok(mini_batch))
    })
}

impl Worker<'_> {
    /// Runs a mini-batch and returns its results as text.
    pub(crate) fn run(&mut self, mini_batch: MiniBatch) -> Result<Done, Failure> {
        let MiniBatch { lines, inputs } = mini_batch;
        let failed = match self.runner.run_each(&inputs, &mut self.results) {
            Ok(()) => None,
            Err(error) => {
                let what = format_args!("the mini-batch that begins here: {error}");
                Some(self.at_line(lines[0].0, what))
            }
        };
        let mut inputs = inputs.iter().enumerate();
        let (mut text, mut count) = (Vec::new(), 0);
        for (place, line) in &lines {
            let before = text.len();
            let written = line.clone().and_then(|()| {
                failed.clone().map_or(Ok(()), Err)?;
                let (index, input) = inputs.next().expect("an input for each line without error");
                self.write(*place, input, index, &mut text)
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
        let (statistics, report) = self.runner.statistics();
        let (lines, number) = (lines.len(), self.number);
        Ok(Done { text, lines, failed: count, number, statistics, report })
    }

    /// Writes the line of the input with this index in the mini-batch.
    fn write(
        &self,
        place: Place,
        input: &ZooInput,
        index: usize,
        text: &mut Vec<u8>,
    ) -> Result<(), String> {
        let failed = |error: &InputError| self.at_line(place, error);
        // A number has at most 16 bytes with its comma; other members are short.
        let mut reserve = |bytes: usize| {
            text.try_reserve(bytes).map_err(|_| {
                self.at_line(place, "out of memory for the results: make mini-batches smaller")
            })
        };
        match &self.results {
            Results::Rows(results) => {
                let rows = results[index].as_ref().map_err(failed)?;
                let of_row = |(row, values): (usize, &[f32])| {
                    let value = values.iter().find(|value| !value.is_finite())?;
                    Some((row, value.to_string()))
                };
                self.check_finite(place, input, rows.iter().enumerate().find_map(of_row))?;
                let elements: usize = rows.iter().map(<[f32]>::len).sum();
                reserve(64 * (rows.len() + 1) + 16 * elements)?;
                write_rows(self.lexicon, place.number, rows, text);
            }
            Results::Indices(results) => {
                let (indices, not_finite) = match &results[index] {
                    Ok(indices) => (indices.as_slice(), None),
                    Err(InputError::NotFiniteOutput { row }) => {
                        (&[][..], Some((*row, "a NaN or an infinity".to_string())))
                    }
                    Err(error) => return Err(failed(error)),
                };
                self.check_finite(place, input, not_finite)?;
                reserve(64 * (indices.len() + 1))?;
                write_indices(self.lexicon, place.number, indices, text);
            }
        }
        Ok(())
    }

    /// Fails if a row of the results has this value that is not finite, or with
    /// `self.check_finite` if any call makes a NaN or an infinity. The error names the input's
    /// first such call.
    fn check_finite(
        &self,
        place: Place,
        input: &ZooInput,
        not_finite: Option<(usize, String)>,
    ) -> Result<(), String> {
        if !self.check_finite && not_finite.is_none() {
            return Ok(());
        }
        let number = place.number;
        let checked = self.reference.check(input);
        checked.map_err(|call| self.at_line(place, format_args!("id {number}: {call}")))?;
        let Some((row, value)) = not_finite else { return Ok(()) };
        let what = format_args!(
            "id {number}: expected finite results, got {value} in row {row}; those of the \
             reference, --backend interpret, are finite"
        );
        Err(self.at_line(place, what))
    }

    /// Prefixes an error with the file and the line of an input. In arc files, the number of the
    /// input replaces the line.
    fn at_line(&self, place: Place, error: impl fmt::Display) -> String {
        let (path, index) = (&self.files[place.file], place.index);
        let file = path.display();
        match is_arc_file(path) {
            true => format!("{file}: instance {index}: {error}"),
            false => format!("{file}:{}: {error}", index + 1),
        }
    }
}

/// Appends the results of an input. Numbers have the shortest form that parses to the same bits,
/// so equal results are equal bytes.
fn write_rows(lexicon: &Lexicon, id: u64, rows: &Rows, out: &mut Vec<u8>) {
    let rows_name = if matches!(lexicon, Lexicon::CallLists(_)) { "outputs" } else { "logits" };
    out.extend_from_slice(format!("{{\"id\": {id}, \"{rows_name}\": [").as_bytes());
    for (index, row) in rows.iter().enumerate() {
        out.extend_from_slice(if index == 0 { b"[" } else { b", [" });
        for (column, value) in row.iter().enumerate() {
            if column > 0 {
                out.extend_from_slice(b", ");
            }
            serde_json::to_writer(&mut *out, value).expect("writing to memory succeeds");
        }
        out.push(b']');
    }
    out.push(b']');
    if let Some(named) = lexicon.decode(rows.iter()) {
        out.extend_from_slice(format!(", \"{}\": {}", named.key, json(&named.names)).as_bytes());
    }
    out.extend_from_slice(b"}\n");
}

/// Appends the indices of the largest scores of an input, or their names.
fn write_indices(lexicon: &Lexicon, id: u64, indices: &[u32], out: &mut Vec<u8>) {
    let spaced = |item: &dyn Fn(u32) -> String| {
        let items: Vec<String> = indices.iter().map(|&index| item(index)).collect();
        format!("[{}]", items.join(", "))
    };
    let (key, list) = match (lexicon.names(indices.iter().copied()), lexicon.classes(), lexicon) {
        (Some(named), ..) => (named.key, json(&named.names)),
        (None, Some(classes), _) => ("classes", spaced(&|class| json(&classes[class as usize]))),
        (None, None, Lexicon::CallLists(_)) => ("indices", spaced(&|index| index.to_string())),
        (None, None, _) => ("classes", spaced(&|class| class.to_string())),
    };
    out.extend_from_slice(format!("{{\"id\": {id}, \"{key}\": {list}}}\n").as_bytes());
}

fn json(list: &(impl Serialize + ?Sized)) -> String {
    serde_json::to_string(list).expect("names and numbers become JSON")
}
