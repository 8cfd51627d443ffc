//! `edbatch gradients`: the loss of a file of examples and its gradients.

use std::path::PathBuf;
use std::thread::available_parallelism;
use std::time::Instant;

use clap::{Args, ValueEnum};
use edbatch::models::{Folder, FolderModel, Model, Targets, ZooInput, is_arc_file};
use edbatch::{Loaded, Loss, Times, TrainError, TrainerOptions, interpret_gradients, load};
use edbatch_policy::PolicyChoice;
use edbatch_runtime::{Parameters, try_memory};
use serde_json::json;

use crate::device::{self, Device};
use crate::failure::Failure;
use crate::infer::{Auto, auto_or_policy};
use crate::output::Output;
use crate::{at_least_one, number_of_threads, out_of_memory, progress, same_file};

/// Computes the loss of a file of examples and its gradients, as one mini-batch.
///
/// The loss is the sum of the cross-entropies of all rows with a target, divided by the number of
/// inputs. Targets are the labels of trees, the tags of sentences and the labels of lattices. A
/// translator is forced to write the lines of `--targets`. Dropout is not applied.
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
    /// Number of inputs that run together. The gradients do not depend on it.
    #[arg(long, value_name = "N", default_value = "64", value_parser = at_least_one)]
    batch: usize,
    /// Policy that chooses which kind of node runs next, as for `edbatch infer`.
    #[arg(long, value_name = "P", default_value = "auto", value_parser = auto_or_policy)]
    policy: Auto<PolicyChoice>,
    /// Number of threads that share each mini-batch. By default the number of cores.
    #[arg(long, value_name = "N", value_parser = number_of_threads)]
    threads: Option<usize>,
    /// Backend that computes the gradients. All but interpret give the same bits.
    #[arg(long, value_enum, value_name = "B", default_value_t = Backend::Cpu)]
    backend: Backend,
    /// Device of backend cuda, a number from 0.
    #[arg(long, value_name = "N")]
    device: Option<usize>,
    /// File for loss, number of terms, number of instances, and seconds per stage, as JSON.
    #[arg(long, value_name = "FILE")]
    stats: Option<PathBuf>,
}

/// A backend that computes gradients.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Backend {
    /// Batches on the CPU.
    Cpu,
    /// Batches on an NVIDIA GPU (in builds with the feature `cuda`).
    Cuda,
    /// The kernels of cuda, compiled for the CPU, for tests (in builds with the feature `cuda`).
    CudaEmulated,
    /// Node by node in float64, without batches: the reference.
    Interpret,
}

/// The loss of a file and its gradients.
struct Found {
    loss: Loss,
    gradients: Vec<Vec<f32>>,
    /// The seconds of each stage.
    seconds: serde_json::Value,
}

impl Gradients {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        if self.backend == Backend::Interpret && self.policy.0.is_some() {
            let message = "--policy is not used by backend interpret, which has no batches";
            return Err(Failure::Usage(message.into()));
        }
        let device = match self.backend {
            // The reference has no device either.
            Backend::Cpu | Backend::Interpret => device::Backend::Cpu,
            Backend::Cuda => device::Backend::Cuda,
            Backend::CudaEmulated => device::Backend::CudaEmulated,
        };
        let device = Device::new(device, self.device);
        device.check()?;
        let Loaded { folder, model, parameters } = load(&self.dir).map_err(Failure::new)?;
        self.check_files(&folder)?;
        let mut output = Output::open(Some(&self.output))?;
        let mut stats = self.stats.as_deref().map(|path| Output::open(Some(path))).transpose()?;
        let spinner = progress::spinner("gradients");
        let examples = folder.examples(&self.input, self.targets.as_deref());
        let (inputs, targets): (Vec<ZooInput>, Vec<Targets>) =
            examples.map_err(Failure::new)?.collect::<Result<_, _>>().map_err(Failure::new)?;
        let network = model.network().clone();
        let found = match self.backend {
            Backend::Interpret => self.interpreted(&model, &parameters, &inputs, &targets)?,
            _ => self.batched(&device, model, parameters, (&inputs, &targets))?,
        };
        let bytes = Parameters::from_values(&network, found.gradients)
            .and_then(|gradients| gradients.to_safetensors(&network))
            .map_err(Failure::new)?;
        output.write(&bytes)?;
        if let Some(stats) = &mut stats {
            let Loss { loss, terms } = found.loss;
            let (instances, seconds) = (inputs.len(), found.seconds);
            let report = json!({
                "loss": loss, "terms": terms, "instances": instances, "seconds": seconds,
            });
            stats.write(format!("{report}\n").as_bytes())?;
        }
        spinner.finish_and_clear();
        output.finish()?;
        stats.map_or(Ok(()), Output::finish)
    }

    fn batched(
        &self,
        device: &Device,
        model: FolderModel,
        parameters: Parameters,
        (inputs, targets): (&[ZooInput], &[Targets]),
    ) -> Result<Found, Failure> {
        let network = model.network().clone();
        let policy = self.policy.0.as_ref().map(|choice| choice.open(&network.kind_names()));
        let policy = policy.transpose().map_err(|error| Failure::policy(&error))?;
        let threads =
            self.threads.unwrap_or_else(|| available_parallelism().map_or(1, usize::from));
        let options = TrainerOptions::new().threads(threads).without_dropout();
        let options = policy.into_iter().fold(options, TrainerOptions::policy);
        let failed = |error| self.failed(error);
        let mut trainer = device.trainer(model, parameters, options).map_err(failed)?;
        let weight = 1.0 / inputs.len().max(1) as f32;
        let (mut sum, bar) = (Loss::default(), progress::over(inputs.len() as u64));
        for (index, inputs) in inputs.chunks(self.batch).enumerate() {
            out_of_memory::check()?;
            let targets = &targets[index * self.batch..][..inputs.len()];
            let accumulated = trainer.accumulate(inputs, targets, weight);
            let Loss { loss, terms } =
                accumulated.map_err(|error| failed(error.of_part(index * self.batch)))?;
            (sum.loss, sum.terms) = (sum.loss + loss, sum.terms + terms);
            bar.inc(inputs.len() as u64);
        }
        bar.finish_and_clear();
        let gradients = trainer.gradients().map_err(failed)?;
        let elements = network.parameters().iter().map(|parameter| parameter.elements());
        let bytes = elements.sum::<usize>() * size_of::<f32>();
        try_memory(bytes, "the gradients").map_err(Failure::new)?;
        let gradients = gradients.to_dense(&network);
        out_of_memory::check()?;
        let Times { decide, forward, back, sums, .. } = trainer.times();
        let [decide, forward, back, sums] =
            [decide, forward, back, sums].map(|time| time.as_secs_f64());
        let seconds = json!({"decide": decide, "forward": forward, "back": back, "sums": sums});
        Ok(Found { loss: sum, gradients, seconds })
    }

    fn interpreted(
        &self,
        model: &FolderModel,
        parameters: &Parameters,
        inputs: &[ZooInput],
        targets: &[Targets],
    ) -> Result<Found, Failure> {
        let started = Instant::now();
        let pairs = inputs.iter().zip(targets.iter().map(Vec::as_slice));
        let found = interpret_gradients(model, parameters, pairs);
        let found = found.map_err(|error| self.failed(error))?;
        let single = |gradients: &Vec<f64>| gradients.iter().map(|&g| g as f32).collect();
        let gradients = found.parameters.iter().map(single).collect();
        let seconds = json!({"interpret": started.elapsed().as_secs_f64()});
        let loss = Loss { loss: found.loss, terms: found.terms };
        Ok(Found { loss, gradients, seconds })
    }

    /// Returns the failure at the line of the input that caused it, if any.
    fn failed(&self, mut error: TrainError) -> Failure {
        let number = error.input_mut().map(|input| *input + 1);
        let Some(number) = number else { return Failure::at(&self.input, error) };
        let input = if is_arc_file(&self.input) { "input " } else { "" };
        Failure::new(format_args!("{}:{input}{number}: {error}", self.input.display()))
    }

    /// Checks that outputs do not replace inputs, each other or files of a model.
    fn check_files(&self, folder: &Folder) -> Result<(), Failure> {
        let inputs = [("the input", self.input.as_path())].into_iter();
        let targets = self.targets.iter().map(|path| ("--targets", path.as_path()));
        let inputs = inputs.chain(targets).chain(self.policy.file());
        let stats = self.stats.iter().map(|path| ("--stats", path.as_path()));
        let outputs = [("--output", self.output.as_path())].into_iter().chain(stats);
        same_file::check(Some(folder), inputs, outputs)
    }
}
