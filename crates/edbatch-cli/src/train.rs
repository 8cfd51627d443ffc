//! `edbatch train`: trains a model on files of examples.

mod checkpoint;
pub(crate) mod evaluate;
pub(super) mod folder;
mod metric;
mod run;
mod word_dropout;

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, value_parser};
use edbatch::models::{Folder, Model, ModelConfig};
use edbatch::{Group, Loaded, Optimizer, Rate, TrainError, TrainerOptions, load};
use edbatch_datasets::AtomicFile;
use edbatch_graph::{Network, Parameter};
use edbatch_policy::PolicyChoice;

use super::device::Device;
use super::failure::Failure;
use super::infer::{Auto, auto_or_policy};
use super::precision::Precision;
use super::sha256::Hash;
use super::{at_least_one, name_of, number_of_threads, probability, same_file, threads_or_cores};
use crate::model::examples::Examples;
use checkpoint::{Checkpoint, Earlier, Identity};
use folder::Lock;
use metric::Metric;
use run::Run;

/// Trains a model on files of examples.
///
/// The loss of a mini-batch is the sum of the cross-entropies of all rows with a target, divided by
/// the number of inputs. Targets are the labels of trees, the tags of sentences and the labels of
/// lattices. A translator is forced to write the lines of `--targets`.
///
/// After each epoch the metric is computed on `--valid`, and a line is printed. The weights of the
/// best epoch replace weights.safetensors: of --output, or without it of the model, from which the
/// next run then starts. A run that was interrupted at any moment goes on with `--resume`, and
/// gives the same weights, bit by bit, as an uninterrupted run. The weights do not depend on
/// `--threads`, `--policy` and `--backend`. Only one run at a time can train a folder.
#[derive(Args)]
#[command(after_help = "\
Example:
  edbatch init tree_lstm model --hidden 128 --input train.txt
  edbatch train model --input train.txt --valid dev.txt --test test.txt \\
      --optimizer adagrad --rate 0.05 --group embed=0.1 --metric root --output trained
  edbatch evaluate trained --input test.txt --metric accuracy")]
pub(crate) struct Train {
    /// Folder of the model.
    dir: PathBuf,
    /// Files of inputs with targets, plain or .gz.
    #[arg(long, value_name = "FILE", num_args = 1.., required = true)]
    input: Vec<PathBuf>,
    /// File that decides which epoch is the best.
    #[arg(long, value_name = "FILE")]
    valid: PathBuf,
    /// File that the best weights are evaluated on at the end.
    #[arg(long, value_name = "FILE")]
    test: Option<PathBuf>,
    /// Files of translations, one for each --input [default: "target" of config.json].
    #[arg(long, value_name = "FILE", num_args = 1..)]
    targets: Vec<PathBuf>,
    /// File of translations of --valid.
    #[arg(long, value_name = "FILE")]
    valid_targets: Option<PathBuf>,
    /// File of translations of --test.
    #[arg(long, value_name = "FILE", requires = "test")]
    test_targets: Option<PathBuf>,
    /// Folder for the trained model, created as a copy of the model. By default the model's folder.
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Optimizer, with options by the names of PyTorch, for example sgd:momentum=0.9,nesterov=true.
    /// sgd: momentum, dampening, nesterov; adagrad: lr_decay, initial_accumulator_value, eps;
    /// rmsprop: alpha, eps, momentum, centered; adam and adam_w: beta1, beta2, eps.
    #[arg(long, value_name = "O", default_value = "adam")]
    optimizer: String,
    /// Learning rate. By default the one of PyTorch's optimizer.
    #[arg(long, value_name = "R")]
    rate: Option<f64>,
    /// Change of the rate from epoch to epoch: constant, step:EVERY:FACTOR, exponential:FACTOR,
    /// cosine (to 0 after all epochs) or plateau:FACTOR:PATIENCE (of the metric on --valid).
    #[arg(long, value_name = "S", default_value = "constant")]
    schedule: String,
    /// Updates in which the rate rises linearly from 0.
    #[arg(long, value_name = "N", default_value_t = 0)]
    warmup: u64,
    /// Inputs in a mini-batch.
    #[arg(long, value_name = "N", default_value = "25", value_parser = at_least_one)]
    batch: usize,
    /// Number of epochs.
    #[arg(long, value_name = "N", default_value_t = 10)]
    #[arg(value_parser = value_parser!(u64).range(1..))]
    epochs: u64,
    /// Limit of gradients, above 0: 5 or norm:5 for the norm of all, value:1 for each element.
    #[arg(long, value_name = "C", value_parser = clip)]
    clip: Option<Clip>,
    /// Weight decay; not for tables. By default the one of PyTorch's optimizer.
    #[arg(long, value_name = "D")]
    decay: Option<f64>,
    /// Factor of the rate for parameters whose names begin with PREFIX; 0 freezes them. The longest
    /// prefix applies. Some parameter must be left to train.
    #[arg(long, value_name = "PREFIX=FACTOR", value_parser = group)]
    group: Vec<(String, f64)>,
    /// Probability that a word is replaced by `<unk>`, drawn again in each epoch. For dropout of
    /// embeddings and states, see --dropout of `edbatch init`.
    #[arg(long, value_name = "P", default_value_t = 0.0, value_parser = probability::<f64>)]
    word_dropout: f64,
    /// Stops after this number of epochs without a better metric.
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    patience: Option<usize>,
    /// Metric on --valid and --test.
    #[arg(long, value_enum, value_name = "M", default_value_t = Metric::Loss)]
    metric: Metric,
    /// Policy that chooses which kind of node runs next, as for `edbatch infer`.
    #[arg(long, value_name = "P", default_value = "auto", value_parser = auto_or_policy)]
    policy: Auto<PolicyChoice>,
    /// Number of threads that share each mini-batch, or prepare mini-batches for a device. By
    /// default the number of cores; 1 with --memory.
    #[arg(long, value_name = "N", value_parser = number_of_threads)]
    threads: Option<usize>,
    /// Memory limit for weights and for the values of a part of a mini-batch. Larger mini-batches
    /// are divided. Needs one thread.
    #[arg(long, value_name = "BYTES")]
    memory: Option<u64>,
    #[command(flatten)]
    device: Device,
    /// Precision of products of weights and vectors: f32, the only one for training.
    #[arg(long, value_name = "P", value_enum, default_value_t = Precision::F32)]
    precision: Precision,
    /// Seed of the order of examples and of dropped values.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Writes the checkpoint also after every STEPS updates, not only after each epoch and every
    /// ten minutes.
    #[arg(long, value_name = "STEPS", value_parser = at_least_one)]
    checkpoint_every: Option<usize>,
    /// Goes on from the checkpoint in --output, or without it in the model's folder, if there is
    /// one. --epochs (except with cosine), --patience, --test, --log, --threads, --policy,
    /// --memory, --backend, --device and --checkpoint-every may change.
    #[arg(long)]
    resume: bool,
    /// File for a JSON line after each epoch: loss, metric, rate at its start, gradient norm,
    /// instances per second, and seconds by part. It may lie in the folder of --output.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
}

/// A limit of gradients.
#[derive(Clone, Copy, Debug)]
enum Clip {
    Norm(f64),
    Value(f64),
}

impl fmt::Display for Clip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Norm(norm) => write!(f, "norm:{norm}"),
            Self::Value(value) => write!(f, "value:{value}"),
        }
    }
}

fn clip(text: &str) -> Result<Clip, String> {
    let (kind, number) = text.split_once(':').unwrap_or(("norm", text));
    let number =
        number.parse().ok().filter(|&number: &f64| number > 0.0 && (number as f32).is_normal());
    match (kind, number) {
        ("norm", Some(number)) => Ok(Clip::Norm(number)),
        ("value", Some(number)) => Ok(Clip::Value(number)),
        _ => Err("expected norm:NUMBER, value:NUMBER or a number, above 0".into()),
    }
}

fn group(text: &str) -> Result<(String, f64), String> {
    let expected = || "expected PREFIX=FACTOR, for example embed=0.1".to_string();
    let parts = text.split_once('=').filter(|(prefix, _)| !prefix.is_empty());
    let (prefix, factor) = parts.ok_or_else(expected)?;
    Ok((prefix.into(), factor.parse().map_err(|_| expected())?))
}

impl Train {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        self.device.check_training(self.precision)?;
        let options = self.options()?;
        let resumed = self.output.as_ref().filter(|_| self.resume).filter(|dir| dir.exists());
        let dir = resumed.unwrap_or(&self.dir);
        let new = self.output.as_deref().filter(|_| resumed.is_none());
        let lock = if new.is_none() { Some(Lock::new(dir)?) } else { None };
        let Loaded { folder, model, parameters } = load(dir).map_err(Failure::new)?;
        self.metric.check(&folder)?;
        self.check_files(&folder)?;
        self.check_groups(model.network(), &options)?;
        let begins_here = new.is_none() && !self.resume;
        let _earlier = if begins_here { Earlier::set_aside(dir)? } else { None };
        let (identity, files_of_run) = self.identity(&folder)?;
        let files = |file: &PathBuf, targets: &Option<PathBuf>| {
            Examples::read(&folder, std::slice::from_ref(file), targets.as_slice())
        };
        let train = Examples::read(&folder, &self.input, &self.targets)?;
        Metric::Loss.check_targets(&folder, &train)?;
        let valid = files(&self.valid, &self.valid_targets)?;
        let test = self.test.as_ref().map(|test| files(test, &self.test_targets)).transpose()?;
        for examples in [&valid].into_iter().chain(&test) {
            self.metric.check_targets(&folder, examples)?;
        }
        word_dropout::check(&folder, self.word_dropout)?;

        let policy =
            self.policy.0.as_ref().map(|choice| choice.open(&model.network().kind_names()));
        let policy = policy.transpose().map_err(|error| Failure::policy(&error))?;
        let options = policy.into_iter().fold(options, TrainerOptions::policy);
        let trainer = self.device.trainer(model, parameters, options);
        let trainer = trainer.map_err(|error| match error {
            TrainError::Option { .. } | TrainError::Group { .. } => {
                Failure::Usage(error.to_string())
            }
            _ => Failure::at(&self.dir, error),
        })?;
        // A log in the new folder is written after the copy.
        let is_new = |log: &&PathBuf| self.output.iter().any(|new| same_file::is_in(log, new));
        if let Some(log) = self.log.as_ref().filter(|log| !is_new(log)) {
            AtomicFile::create(log).map_err(|error| Failure::writing(log, &error))?;
        }
        let (folder, _lock) = match new {
            Some(new) => folder::copy(&folder, new).map(|(folder, lock)| (folder, Some(lock)))?,
            None => (folder, lock),
        };
        let path = folder.path().join(Folder::CHECKPOINT);
        let checkpoint = Checkpoint { path, identity, files: files_of_run };
        let mut run = Run {
            options: self,
            folder,
            train,
            valid,
            trainer,
            checkpoint,
            threads: self.threads(),
            log: String::new(),
        };
        run.train()?;
        test.map_or(Ok(()), |test| run.test(&test))
    }

    fn threads(&self) -> usize {
        threads_or_cores(self.threads.or(self.memory.map(|_| 1)))
    }

    fn optimizer(&self) -> Result<Optimizer, Failure> {
        let usage = |error| Failure::Usage(format!("--optimizer {}: {error}", self.optimizer));
        let mut optimizer: Optimizer = self.optimizer.parse().map_err(usage)?;
        optimizer.rate = self.rate.unwrap_or(optimizer.rate);
        optimizer.decay = self.decay.unwrap_or(optimizer.decay);
        Ok(optimizer)
    }

    fn schedule(&self) -> Result<Rate, Failure> {
        let usage = |error| Failure::Usage(format!("--schedule {}: {error}", self.schedule));
        match self.schedule.as_str() {
            "cosine" => Ok(Rate::Cosine { epochs: self.epochs.max(1) }),
            text => text.parse().map_err(usage),
        }
    }

    fn options(&self) -> Result<TrainerOptions, Failure> {
        if self.memory.is_some() && self.threads.is_some_and(|threads| threads > 1) {
            return Err(Failure::Usage("--memory needs --threads 1".into()));
        }
        let mut options = TrainerOptions::new()
            .threads(self.threads())
            .optimizer(self.optimizer()?)
            .rate(self.schedule()?)
            .warm_up(self.warmup)
            .seed(self.seed);
        options = match self.clip {
            None => options,
            Some(Clip::Norm(norm)) => options.clip_norm(norm),
            Some(Clip::Value(value)) => options.clip_value(value),
        };
        for (index, (prefix, factor)) in self.group.iter().enumerate() {
            if self.group[..index].iter().any(|(other, _)| other == prefix) {
                return Err(Failure::Usage(format!("--group: `{prefix}` is given twice")));
            }
            let group = Group { factor: *factor, frozen: *factor == 0.0, ..Group::default() };
            options = options.group(prefix, group);
        }
        Ok(self.memory.into_iter().fold(options, TrainerOptions::memory_limit))
    }

    /// Returns everything that the weights depend on. The number of epochs may grow, except where
    /// the rate depends on it. Also returns the options with a file, by the names of their hashes.
    fn identity(&self, folder: &Folder) -> Result<(Identity, HashMap<String, String>), Failure> {
        let optimizer = self.optimizer()?;
        let groups = self.group.iter().map(|(prefix, factor)| format!("{prefix}={factor}"));
        let mut identity: Identity = [
            ("--optimizer", optimizer.to_string()),
            ("--rate", optimizer.rate.to_string()),
            ("--decay", optimizer.decay.to_string()),
            ("--schedule", self.schedule()?.to_string()),
            ("--warmup", self.warmup.to_string()),
            ("--batch", self.batch.to_string()),
            ("--clip", self.clip.map_or("none".into(), |clip| clip.to_string())),
            ("--group", groups.collect::<Vec<_>>().join(" ")),
            ("--word-dropout", self.word_dropout.to_string()),
            ("--metric", name_of(&self.metric)),
            ("--seed", self.seed.to_string()),
        ]
        .map(|(name, value)| (name.to_string(), value))
        .into();
        match folder.config() {
            Some(config) => {
                // A copy has other paths to the same files.
                let sizes = ModelConfig { input: String::new(), target: None, ..config.clone() };
                let mut hash = Hash::default();
                hash.update(sizes.to_json().as_bytes());
                identity.insert(Folder::CONFIG.into(), hash.hex());
            }
            None => drop(identity.insert(Folder::NETWORK.into(), hash(&folder.description())?)),
        }
        for (name, _) in folder.lexicon().files() {
            identity.insert(name.into(), hash(&folder.path().join(name))?);
        }
        let (mut counts, mut shown) = (HashMap::new(), HashMap::new());
        for (what, path) in self.files() {
            let count: &mut usize = counts.entry(what).or_default();
            *count += 1;
            let name = format!("{what} {count}");
            shown.insert(name.clone(), format!("{what} {}", path.display()));
            identity.insert(name, hash(path)?);
        }
        Ok((identity, shown))
    }

    /// Returns the files that the weights depend on, with their options.
    fn files(&self) -> impl Iterator<Item = (&str, &Path)> + Clone {
        let files = self.input.iter().map(named("--input"));
        let files = files.chain(self.targets.iter().map(named("--targets")));
        let files = files.chain([("--valid", self.valid.as_path())]);
        files.chain(self.valid_targets.iter().map(named("--valid-targets")))
    }

    /// Checks that the log replaces neither inputs nor files of a model, also of the new one.
    fn check_files(&self, folder: &Folder) -> Result<(), Failure> {
        let new: Vec<PathBuf> = self.output.iter().flat_map(|new| Folder::files(new)).collect();
        let inputs = self.files().chain(self.test.iter().map(named("--test")));
        let inputs = inputs.chain(self.test_targets.iter().map(named("--test-targets")));
        let inputs = inputs.chain(self.output.iter().map(named("--output")));
        let inputs = inputs.chain(new.iter().map(named("the trained model's")));
        let log = self.log.iter().map(named("--log"));
        same_file::check(Some(folder), inputs.chain(self.policy.file()), log)
    }

    /// Rejects groups that together leave nothing to train.
    fn check_groups(&self, network: &Network, options: &TrainerOptions) -> Result<(), Failure> {
        let is_frozen = |parameter: &Parameter| options.group_of(&parameter.name).frozen;
        match !self.group.is_empty() && network.parameters().iter().all(is_frozen) {
            true => Err(Failure::Usage(
                "--group: these groups freeze all parameters, so nothing would be trained: leave \
                 one out, or give it a factor above 0"
                    .into(),
            )),
            false => Ok(()),
        }
    }
}

fn named<'a>(option: &'a str) -> impl Fn(&'a PathBuf) -> (&'a str, &'a Path) + Clone {
    move |path| (option, path)
}

/// Returns the SHA-256 of a file.
fn hash(path: &Path) -> Result<String, Failure> {
    // The file is read again for the examples.
    let metadata = fs::metadata(path).map_err(|error| Failure::reading(path, &error))?;
    if !metadata.is_file() {
        return Err(Failure::at(path, "expected a file that can be read twice"));
    }
    let mut hash = Hash::default();
    hash.file(path, |_| ()).map_err(|error| Failure::reading(path, &error))?;
    Ok(hash.hex())
}
