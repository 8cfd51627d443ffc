//! `edbatch export`: any model's folder as a folder with `network.json`.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use edbatch::models::{CallList, Folder, FolderModel, Model, Targets, ZooInput, network_to_json};
use edbatch::{Loaded, load};
use edbatch_datasets::AtomicFolder;

use crate::failure::Failure;
use crate::progress;

/// Writes a model as a network: network.json, weights.safetensors, and calls.jsonl with the calls
/// of its inputs.
///
/// The new folder needs no Rust code of the model, and gives the same results, bit by bit. A model
/// that awaits computed values has no call lists: for lstm_nmt, only the network and the weights
/// are written.
#[derive(Args)]
#[command(after_help = "\
Example:
  edbatch export model network --input test.txt
  edbatch infer network --output outputs.jsonl")]
pub(crate) struct Export {
    /// Folder with config.json, weights.safetensors and the vocabularies; or with network.json and
    /// weights.safetensors.
    dir: PathBuf,
    /// Folder to create. If it exists, it must be empty.
    new: PathBuf,
    /// File of inputs, plain or .gz. By default the file that config.json names.
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
}

impl Export {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let Loaded { folder, model, .. } = load(&self.dir).map_err(Failure::new)?;
        let awaits = "the model awaits computed values, on which its later calls depend, so call \
                      lists cannot describe its inputs";
        if model.awaits() && self.input.is_some() {
            return Err(Failure::at(&self.dir, format_args!("{awaits}: leave out --input")));
        }
        let network = network_to_json(model.network());
        let network = network.map_err(|error| Failure::at(&self.dir, error))?;
        let writing = |error| Failure::writing(&self.new, &error);
        let new = std::path::absolute(&self.new).map_err(writing)?;
        check_new(&new)?;
        let parent = new.parent().map_or(Ok(()), fs::create_dir_all);
        let partial = parent.and_then(|()| AtomicFolder::create(&new)).map_err(writing)?;
        let path = |name| partial.partial().join(name);
        fs::write(path(Folder::NETWORK), network).map_err(writing)?;
        let weights = folder.weights();
        fs::copy(&weights, path(Folder::WEIGHTS)).map_err(|error| {
            Failure::at(&weights, format_args!("cannot be copied to the new folder: {error}"))
        })?;
        if !model.awaits() {
            let input = self.input.clone().unwrap_or_else(|| folder.input());
            let file = File::create(path(Folder::CALLS)).map_err(writing)?;
            write_calls(&folder, &model, &input, BufWriter::new(file), &self.new)?;
        }
        partial.finish().map_err(writing)?;
        if model.awaits() {
            eprintln!("edbatch: wrote network and weights without inputs: {awaits}");
        }
        Ok(())
    }
}

/// Checks that a folder does not exist or is empty.
fn check_new(new: &Path) -> Result<(), Failure> {
    let expected = "expected a new or empty folder";
    match fs::read_dir(new) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Failure::at(new, format_args!("{expected}, got: {error}"))),
        Ok(mut files) => match files.next() {
            None => Ok(()),
            Some(_) => Err(Failure::at(new, format_args!("{expected}, got one with files"))),
        },
    }
}

/// Writes the calls of each input, with its targets if it has any.
fn write_calls(
    folder: &Folder,
    model: &FolderModel,
    input: &Path,
    mut out: BufWriter<File>,
    new: &Path,
) -> Result<(), Failure> {
    let bar = progress::over_lines(&[input.to_path_buf()], false);
    let inputs = folder.inputs(input).map_err(Failure::new)?;
    // Targets are optional: a line without valid ones is written without them.
    let mut examples = folder.examples(input, None).map_err(Failure::new)?;
    for (index, read) in inputs.enumerate() {
        let read = read.map_err(Failure::new)?;
        let targets = examples.next().and_then(Result::ok).map(|(_, targets)| targets);
        let line = line(model, &read, targets).map_err(|error| {
            let (file, line) = (input.display(), index + 1);
            Failure::new(format_args!("{file}:{line}: {error}"))
        })?;
        writeln!(out, "{line}").map_err(|error| Failure::writing(new, &error))?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    out.flush().map_err(|error| Failure::writing(new, &error))
}

fn line(model: &FolderModel, input: &ZooInput, targets: Option<Targets>) -> Result<String, String> {
    let mut list = CallList::record(model, input).map_err(|error| error.to_string())?;
    let targets = targets.filter(|targets| targets.iter().any(Option::is_some));
    // Labels of other classes than the model's are no targets.
    let _ = list.set_targets(targets);
    list.to_json().map_err(|error| error.to_string())
}
