//! `edbatch infer`: a model's outputs for every line of a file.

use std::path::{Path, PathBuf};
#[cfg(feature = "cuda")]
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::available_parallelism;

use clap::{Args, ValueEnum};
use edbatch::{
    Engine, EngineOptions, Loaded, Report, Statistics, interpret, interpret_finite, load,
};
#[cfg(feature = "cuda")]
use edbatch_layout::{CellStyle, Program};
#[cfg(feature = "cuda")]
use edbatch_models::Zoo;
use edbatch_models::{Folder, Model};
use edbatch_policy::{AnyPolicy, ChoiceError, PolicyChoice};
#[cfg(feature = "cuda")]
use edbatch_runtime::Parameters;
#[cfg(feature = "cuda")]
use edbatch_runtime::cuda::{self, EmulatedDevice};
use edbatch_runtime::kernels::Level;
use indicatif::ProgressBar;

use super::corpus::Corpus;
use super::failure::Failure;
use super::in_order::in_order;
use super::mini_batch::{Done, OnError, Work, mini_batches};
use super::output::Output;
use super::precision::Precision;
use super::runner::Runner;
use super::shard::Shard;
use super::statistics::statistics;
use super::trace::Trace;
use super::{at_least_one, progress, shard_run};

/// Writes a model's outputs for every line of a file, as JSON lines in the order of the input.
///
/// Each line is {"id": 0, "logits": [[…], …]}, where id counts the input's lines from 0, and
/// "tags" or "tokens" beside it where the outputs have names. Results do not depend on --threads,
/// bit by bit.
#[derive(Args)]
#[command(after_help = "\
Example:
  edbatch init tree_lstm model --hidden 64 --input trees.txt
  edbatch infer model --output logits.jsonl --stats stats.json --trace trace.json

A corpus in 64 shards, of which this is number 3, on as many machines as there are:
  edbatch infer model --input corpus/*.jsonl.gz --shard 3/64 --output-dir out --on-error record
  edbatch shards check out

Where a model reads many inputs, with up to 256 MB for tables that are folded into products:
  edbatch infer model --fold-tables 256000000")]
pub(crate) struct Infer {
    /// Folder with config.json, weights.safetensors and the vocabularies.
    dir: PathBuf,
    /// Files of inputs, plain or .gz, whose lines are numbered through; by default the one that
    /// config.json names.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    input: Vec<PathBuf>,
    /// File for the results; by default standard output.
    #[arg(long, value_name = "FILE", conflicts_with = "shard")]
    output: Option<PathBuf>,
    /// Run shard I of N, counted from 0: of N files or more every N-th, else every N-th line.
    #[arg(long, value_name = "I/N", requires = "output_dir")]
    shard: Option<Shard>,
    /// Folder for a shard's results, part-00003.jsonl, and its mark, part-00003.done. A shard whose
    /// mark is there and fits is not run again.
    #[arg(long, value_name = "DIR", requires = "shard")]
    output_dir: Option<PathBuf>,
    /// What decides which kind of node runs next: auto, depth, by-depth, agenda, sufficient,
    /// critical, critical:pair, critical:soft, beam:WIDTH[:SECONDS], portfolio[:SECONDS],
    /// exact[:SECONDS], or the file of a learned policy; SECONDS are for each mini-batch. With
    /// auto, kinds run one after the other where no two of them read each other, and by critical
    /// elsewhere; on cuda it is by-depth.
    #[arg(long, value_name = "P", default_value = "auto", value_parser = auto_or_policy)]
    policy: Auto<PolicyChoice>,
    /// Instances in a mini-batch.
    #[arg(long, value_name = "N", default_value = "64", value_parser = at_least_one)]
    batch: usize,
    /// Threads, each of which runs whole mini-batches; by default as many as there are cores.
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    threads: Option<usize>,
    /// Refuse mini-batches whose values take more bytes of memory, with the weights, before they
    /// run. Each thread has values of its own.
    #[arg(long, value_name = "BYTES")]
    memory: Option<u64>,
    /// Compute what follows from a row of a table alone, such as a word's embedding, for all rows
    /// when the model is loaded, in so many bytes for all threads together: worth it if there are
    /// many inputs. Of several tables the smallest go first.
    #[arg(long, value_name = "BYTES", default_value = "0")]
    fold_tables: u64,
    /// What computes.
    #[arg(long, value_name = "B", value_enum, default_value_t = Backend::Cpu)]
    backend: Backend,
    /// Devices of backend cuda, which threads take in turn: numbers from 0, divided by commas.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "0")]
    devices: Vec<usize>,
    /// How products are rounded.
    #[arg(long, value_name = "P", value_enum, default_value_t = Precision::Exact)]
    precision: Precision,
    /// What becomes of an input that cannot be read, does not fit the model or has no finite
    /// results. Where it is recorded the exit code is 0, and standard error says how many failed.
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = OnError::Stop)]
    on_error: OnError,
    /// Refuse an input of which a cell makes a NaN or an infinity, also where its results would be
    /// finite again: the error names the first such call, its value, and the weight at fault, if
    /// one is. To do so every value of a mini-batch is kept in memory, handed out, and read once
    /// more; other lines keep their bytes.
    #[arg(long)]
    check_finite: bool,
    /// File for one JSON object: instances, graphs, plans reused, nodes, batches, their lower
    /// bound, seconds by stage (summed over the threads), bytes gathered, peak bytes, how each kind
    /// batched and why not better, and the largest missed opportunity. A shard that was done before
    /// writes none.
    #[arg(long, value_name = "FILE")]
    stats: Option<PathBuf>,
    /// File for a Chrome trace, which ui.perfetto.dev shows as a timeline: on a track for each
    /// thread its mini-batches, their rounds, the stages of these and, on cpu, each batch, called
    /// by its cell. About 120 bytes a slice. A shard that was done before writes none.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
}

/// How many lines there were, and how many of them have no results.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) lines: u64,
    pub(crate) failed: u64,
}

/// What was chosen, or the word `auto`.
#[derive(Clone)]
struct Auto<T>(Option<T>);

fn auto_or_policy(text: &str) -> Result<Auto<PolicyChoice>, ChoiceError> {
    Ok(Auto(if text == "auto" { None } else { Some(text.parse()?) }))
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Backend {
    /// Batches on the CPU.
    Cpu,
    /// Batches on an NVIDIA GPU; in builds with the feature `cuda`.
    Cuda,
    /// The same kernels, compiled for this machine's processor: for tests; in builds with the
    /// feature `cuda`.
    CudaEmulated,
    /// Node by node, without batches: the reference.
    Interpret,
}

impl Infer {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        match self.backend {
            #[cfg(not(feature = "cuda"))]
            Backend::Cuda | Backend::CudaEmulated => {
                return Err(Failure::new(
                    "this build has no backend cuda: build it with `--features cuda`, or choose \
                     cpu or interpret",
                ));
            }
            #[cfg(feature = "cuda")]
            Backend::Cuda | Backend::CudaEmulated => {}
            Backend::Cpu | Backend::Interpret if self.precision != Precision::Exact => {
                return Err(Failure::Usage("--precision tf32 is for backend cuda".into()));
            }
            Backend::Cpu | Backend::Interpret if self.devices != [0] => {
                return Err(Failure::Usage("--devices is for backend cuda".into()));
            }
            Backend::Interpret if self.memory.is_some() || self.fold_tables > 0 => {
                let message = "--memory and --fold-tables are for backends that run plans, not for \
                               interpret";
                return Err(Failure::Usage(message.into()));
            }
            Backend::Interpret | Backend::Cpu => {}
        }
        if let Some(memory) = self.memory.filter(|&memory| memory < self.fold_tables) {
            let tables = self.fold_tables;
            let message = format!("--fold-tables {tables} is more than --memory {memory} allows");
            return Err(Failure::Usage(message));
        }
        if let (Some(shard), Some(dir)) = (self.shard, &self.output_dir) {
            return shard_run::run(self, shard, dir);
        }
        let loaded = load(&self.dir).map_err(Failure::new)?;
        let folder = loaded.folder.clone();
        let files = self.files(&folder);
        let mut output = Output::open(self.output.as_deref())?;
        let bar = progress::over_lines(&files, self.output.is_none());
        let mut corpus = Corpus::whole(&folder, &files);
        let Tally { lines, failed } =
            self.run_corpus(loaded, &mut corpus, Some(&bar), |text| output.write(text))?;
        bar.finish_and_clear();
        if failed > 0 {
            eprintln!("edbatch: {failed} of {lines} inputs have no results; their lines say why");
        }
        output.finish()
    }

    /// Runs a corpus, whose results `write` takes in order.
    pub(crate) fn run_corpus(
        &self,
        loaded: Loaded,
        corpus: &mut Corpus<'_>,
        bar: Option<&ProgressBar>,
        mut write: impl FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<Tally, Failure> {
        let Loaded { model, parameters, folder } = loaded;
        // Before any work: a policy that does not fit is found out at once.
        let kinds = model.network().kind_names();
        let weight = if self.check_finite { parameters.not_finite() } else { None };
        let policy = self.policy.0.as_ref().map(|choice| choice.open(&kinds)).transpose();
        let policy = policy.map_err(|error| Failure::policy(&error))?;
        let mut stats = self.stats.as_deref().map(|path| Output::open(Some(path))).transpose()?;
        let trace = self.trace.as_deref().map(Trace::begin).transpose()?;

        let engines = AtomicUsize::new(0);
        let runner = Mutex::new(match self.backend {
            Backend::Interpret => {
                let interpreter = if self.check_finite { interpret_finite } else { interpret };
                Runner::reference(interpreter, model, parameters)
            }
            #[cfg(feature = "cuda")]
            Backend::Cuda | Backend::CudaEmulated => {
                let engine = self.on_device(model, &parameters, self.options(policy))?;
                Runner::Engine(Box::new(engine))
            }
            _ => {
                let options = self.options(policy).fold_tables(self.fold_tables);
                let engine = Engine::with_options(model, parameters, options);
                Runner::Engine(Box::new(engine.map_err(Failure::new)?))
            }
        });
        let files = corpus.files();
        let worker = || {
            let runner = runner.lock().expect("nothing panics under this lock").fork();
            let number = engines.fetch_add(1, Ordering::Relaxed);
            let (lexicon, on_error) = (folder.lexicon(), self.on_error);
            let results = Vec::new();
            let mut work = Work { runner, lexicon, files, number, on_error, results };
            Ok(move |mini_batch| work.run(mini_batch))
        };
        let mut by_engine = vec![(Statistics::default(), Report::default()); self.threads()];
        let mut tally = Tally::default();
        let mini_batches = mini_batches(corpus, self.batch, self.on_error);
        in_order(self.threads(), mini_batches, worker, |done: Done| {
            by_engine[done.number] = (done.statistics, done.report);
            tally.lines += done.lines as u64;
            tally.failed += done.failed as u64;
            if let Some(bar) = bar {
                bar.inc(done.lines as u64);
            }
            write(&done.text)
        })?;
        if let Some(stats) = &mut stats {
            // The interpreter has no schedule that a bound could be compared with.
            let scheduled = self.backend != Backend::Interpret;
            stats.write(statistics(&by_engine, scheduled).as_bytes())?;
        }
        trace.map_or(Ok(()), Trace::finish)?;
        stats.map_or(Ok(()), Output::finish)?;
        // Perhaps no input reads it, or none shows it.
        if let Some(weight) = weight {
            eprintln!("edbatch: a weight is not finite: {weight}");
        }
        Ok(tally)
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The files of inputs, in the order of their numbers.
    pub(crate) fn files(&self, folder: &Folder) -> Vec<PathBuf> {
        if self.input.is_empty() { vec![folder.input()] } else { self.input.clone() }
    }

    /// How results are rounded, and whether they are checked: two runs with the same answer give
    /// the same lines.
    pub(crate) fn arithmetic(&self) -> String {
        let checked = if self.check_finite { ", finite" } else { "" };
        format!("{}{checked}", self.rounding())
    }

    fn rounding(&self) -> &'static str {
        match (self.backend, Level::detect()) {
            (Backend::Interpret, _) => "interpret",
            // A device adds up in an order of its own.
            (Backend::Cuda, _) if self.precision == Precision::Tf32 => "tf32",
            (Backend::CudaEmulated, _) if self.precision == Precision::Tf32 => "tf32-emulated",
            (Backend::Cuda | Backend::CudaEmulated, _) => "fused",
            (_, Level::Portable) => "portable",
            _ => "fused",
        }
    }

    /// Each thread runs whole mini-batches on an engine of its own.
    fn options(&self, policy: Option<AnyPolicy>) -> EngineOptions {
        let mut options = EngineOptions::new();
        if let Some(policy) = policy {
            options = options.policy(policy);
        }
        if self.stats.is_some() {
            options = options.counts();
        }
        if let Some(bytes) = self.memory {
            options = options.memory_limit(bytes);
        }
        options
    }

    /// An engine on a device, or on an emulated one.
    #[cfg(feature = "cuda")]
    fn on_device(
        &self,
        model: Zoo,
        parameters: &Parameters,
        options: EngineOptions,
    ) -> Result<Engine<Zoo>, Failure> {
        let program = Program::new(model.network().clone(), CellStyle::default());
        let program = Arc::new(program.map_err(Failure::new)?.fold_tables(self.fold_tables));
        let cuda_options = self.precision.options();
        let backend = match self.backend {
            Backend::Cuda => {
                cuda::nvidia(program.clone(), parameters, &cuda_options, &self.devices)
            }
            _ => EmulatedDevice::new(0).load(program.clone(), parameters, &cuda_options),
        };
        let backend = backend.map_err(Failure::new)?;
        Engine::with_backend(model, parameters, program, backend, options).map_err(Failure::new)
    }

    fn threads(&self) -> usize {
        self.threads.unwrap_or_else(|| available_parallelism().map_or(1, usize::from))
    }
}
