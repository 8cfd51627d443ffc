//! `edbatch gradients`: the loss of a file of examples and its gradients.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, ValueEnum};
use edbatch::{Loaded, interpret_gradients, load};
use edbatch_models::{Folder, Model, Targets, ZooInput};
use edbatch_runtime::Parameters;
use serde_json::json;

use super::failure::Failure;
use super::output::Output;
use super::{progress, same_file};

/// Computes the loss of a file of examples and its gradients, as one mini-batch.
///
/// The loss is the sum of the cross-entropies of all rows with a target, divided by the number of
/// inputs. Targets are the labels of trees, the tags of sentences and the labels of lattices. A
/// translator is forced along the lines of `--targets`.
#[derive(Args)]
#[command(after_help = "\
Example:
  edbatch gradients model --input dev.txt --output gradients.safetensors --stats loss.json")]
pub(crate) struct Gradients {
    /// Folder with config.json, weights.safetensors and the vocabularies.
    dir: PathBuf,
    /// File of inputs with targets, plain or .gz.
    #[arg(long, value_name = "FILE")]
    input: PathBuf,
    /// File for the gradients: a tensor for each parameter, with its name and shape.
    #[arg(long, value_name = "FILE.safetensors")]
    output: PathBuf,
    /// File of translations, one for each line of the input [default: "target" of config.json].
    #[arg(long, value_name = "FILE")]
    targets: Option<PathBuf>,
    /// Backend that computes the gradients.
    #[arg(long, value_enum, value_name = "NAME")]
    backend: Backend,
    /// File for loss, number of terms, number of instances, and seconds, as JSON.
    #[arg(long, value_name = "FILE")]
    stats: Option<PathBuf>,
}

/// A backend that computes gradients.
#[derive(Clone, Copy, ValueEnum)]
enum Backend {
    /// Node by node in float64, without batches: the reference.
    Interpret,
}

impl Gradients {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let Backend::Interpret = self.backend;
        let Loaded { folder, model, parameters } = load(&self.dir).map_err(Failure::new)?;
        self.check_files(&folder)?;
        let mut output = Output::open(Some(&self.output))?;
        let mut stats = self.stats.as_deref().map(|path| Output::open(Some(path))).transpose()?;
        let spinner = progress::spinner("gradients");
        let examples = folder.examples(&self.input, self.targets.as_deref());
        let examples: Vec<(ZooInput, Targets)> =
            examples.map_err(Failure::new)?.collect::<Result<_, _>>().map_err(Failure::new)?;
        let started = Instant::now();
        let pairs = examples.iter().map(|(input, targets)| (input, targets.as_slice()));
        let found = interpret_gradients(&model, &parameters, pairs);
        let found = found.map_err(|error| Failure::at(&self.input, error))?;
        let seconds = started.elapsed().as_secs_f64();
        let single = |gradients: &Vec<f64>| gradients.iter().map(|&g| g as f32).collect();
        let gradients = found.parameters.iter().map(single).collect();
        let bytes = Parameters::from_values(model.network(), gradients)
            .and_then(|gradients| gradients.to_safetensors(model.network()))
            .map_err(Failure::new)?;
        output.write(&bytes)?;
        if let Some(stats) = &mut stats {
            let report = json!({
                "loss": found.loss,
                "terms": found.terms,
                "instances": found.instances,
                "seconds": {"interpret": seconds},
            });
            stats.write(format!("{report}\n").as_bytes())?;
        }
        spinner.finish_and_clear();
        output.finish()?;
        stats.map_or(Ok(()), Output::finish)
    }

    /// Checks that outputs do not replace inputs or each other.
    fn check_files(&self, folder: &Folder) -> Result<(), Failure> {
        let (config, weights) = (folder.path().join(Folder::CONFIG), folder.weights());
        let of_model = [config.as_path(), &weights].map(|path| ("the model's", path));
        let inputs = [("the input", self.input.as_path())].into_iter().chain(of_model);
        let targets = self.targets.iter().map(|path| ("--targets", path.as_path()));
        let stats = self.stats.iter().map(|path| ("--stats", path.as_path()));
        let outputs = [("--output", self.output.as_path() as &Path)].into_iter().chain(stats);
        same_file::check(inputs.chain(targets), outputs)
    }
}
