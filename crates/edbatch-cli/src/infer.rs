//! `edbatch infer`: runs a model on every line of a file.

mod finite;
mod mini_batch;
mod parallel_map;
mod runner;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::{Args, ValueEnum};
use edbatch::models::{Folder, Model};
use edbatch::{Engine, EngineOptions, Loaded, Report, Statistics, load};
use edbatch_policy::{AnyPolicy, ChoiceError, PolicyChoice};
use edbatch_runtime::kernels::Level;
use indicatif::ProgressBar;

use super::device::has_cuda;
#[cfg(feature = "cuda")]
use super::device::on_device;
use super::failure::Failure;
use super::output::Output;
use super::precision::Precision;
use super::statistics::statistics;
use super::trace::Trace;
use super::{at_least_one, number_of_threads, progress, same_file, threads_or_cores};
use crate::corpora::corpus::Corpus;
use crate::corpora::shard::Shard;
use finite::Reference;
use mini_batch::{Done, OnError, Worker, mini_batches};
use parallel_map::parallel_map;
use runner::{Results, Runner};

/// Runs a model on every line of a file and writes JSON lines in the order of the input.
///
/// Each line is {"id": 0, "logits": [[…], …]}, where id is the number of the input line from 0; in
/// a folder with network.json, "outputs" replaces "logits". If the outputs have names, a member
/// "tags" or "tokens" follows. Results are bit-identical for any number of threads. With --indices,
/// a line is {"id": 0, "tags": […]}.
#[derive(Args)]
#[command(after_help = "\
Example:
  edbatch init tree_lstm model --hidden 64 --input trees.txt
  edbatch infer model --output logits.jsonl --stats stats.json --trace trace.json

Shard 3 of a corpus in 64 shards, which any number of machines can run:
  edbatch infer model --input corpus/*.jsonl.gz --shard 3/64 --output-dir out --on-error record
  edbatch shards check out

With up to 256 MB for folded tables, for large inputs:
  edbatch infer model --fold-tables 256000000

Words, tags or classes without their scores:
  edbatch infer model --indices")]
pub(crate) struct Infer {
    /// Folder with config.json, weights.safetensors and the vocabularies; or with network.json and
    /// weights.safetensors.
    pub(crate) dir: PathBuf,
    /// Files of inputs, plain or .gz, with consecutive line numbers. By default the file that
    /// config.json names, or calls.jsonl for a network.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    input: Vec<PathBuf>,
    /// File for the results. By default standard output.
    #[arg(long, value_name = "FILE", conflicts_with = "shard")]
    output: Option<PathBuf>,
    /// Run shard I of N, counted from 0: every N-th file if there are at least N files, otherwise
    /// every N-th line.
    #[arg(long, value_name = "I/N", requires = "output_dir")]
    shard: Option<Shard>,
    /// Folder for the results of a shard, such as part-00003.jsonl, and its mark, part-00003.done.
    /// A shard with a valid mark is not run again.
    #[arg(long, value_name = "DIR", requires = "shard")]
    output_dir: Option<PathBuf>,
    /// Policy that chooses which kind of node runs next: auto, depth, by-depth, agenda, sufficient,
    /// critical, critical:pair, critical:soft, beam:WIDTH[:SECONDS], exact[:SECONDS], or the file
    /// of a learned policy. SECONDS is the limit per mini-batch. If no two kinds read each other,
    /// auto runs them in the order of their dependencies; otherwise auto is critical, but runs
    /// outputs as soon as 256 are ready. On cuda, auto is by-depth.
    #[arg(long, value_name = "P", default_value = "auto", value_parser = auto_or_policy)]
    policy: Auto<PolicyChoice>,
    /// Inputs in a mini-batch. With the policy auto, cpu runs more than 64 in several graphs, so
    /// that their values stay in the cache.
    #[arg(long, value_name = "N", default_value = "64", value_parser = at_least_one)]
    batch: usize,
    /// Number of threads; each runs whole mini-batches. By default the number of cores.
    #[arg(long, value_name = "N", value_parser = number_of_threads)]
    threads: Option<usize>,
    /// Memory limit for the weights and the values of one mini-batch. A larger mini-batch fails
    /// before it runs. Each thread has its own values.
    #[arg(long, value_name = "BYTES")]
    memory: Option<u64>,
    /// Maximum size of folded tables, which all threads share. They hold products that depend only
    /// on a row of a table, such as a word's embedding, computed at load time. Useful for many
    /// inputs. Smaller tables take precedence.
    #[arg(long, value_name = "BYTES", default_value = "0")]
    fold_tables: u64,
    /// Backend that runs the model.
    #[arg(long, value_name = "B", value_enum, default_value_t = Backend::Cpu)]
    backend: Backend,
    /// Devices of backend cuda: numbers from 0, separated by commas. Threads use them in turn.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "0")]
    devices: Vec<usize>,
    /// Precision of products of weights and vectors. With bf16 a translator may choose other words.
    #[arg(long, value_name = "P", value_enum, default_value_t = Precision::F32)]
    precision: Precision,
    /// Handling of an input that cannot be read, does not fit the model or has results that are not
    /// finite. With record, the exit code is 0, and standard error says how many inputs failed.
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = OnError::Stop)]
    on_error: OnError,
    /// Write the index of the largest score of each row instead of the scores. A line of output has
    /// the key "tokens" or "tags"; for trees and lattices "classes", with names if the folder has
    /// classes.txt and numbers otherwise; for a folder with network.json "indices". For large
    /// vocabularies, indices are much faster than scores.
    #[arg(long)]
    indices: bool,
    /// Check every input for NaNs and infinities in intermediate values, even if its results are
    /// finite. This is slow: every input also runs on backend interpret. The error names the first
    /// call of a cell that makes such a value, and the weight that causes it, if any. Without this
    /// option, only inputs whose results are not finite are checked.
    #[arg(long)]
    check_finite: bool,
    /// File for statistics, one JSON object: instances, graphs, nodes, batches and their lower
    /// bound, seconds per stage (summed over the threads), gathered bytes, peak bytes, how well
    /// each kind batched and why, and the largest missed opportunity. Not written for a shard that
    /// is already done.
    #[arg(long, value_name = "FILE")]
    stats: Option<PathBuf>,
    /// File for a Chrome trace, which ui.perfetto.dev shows as a timeline. Each thread has a track
    /// with its mini-batches, rounds, stages and, on cpu, batches, named after their cells. About
    /// 120 bytes per slice. Not written for a shard that is already done.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
}

/// The number of lines, and of lines without results.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) lines: u64,
    pub(crate) failed: u64,
}

/// A choice, or `None` for the word `auto`.
#[derive(Clone)]
pub(super) struct Auto<T>(pub(super) Option<T>);

impl Auto<PolicyChoice> {
    /// Returns the option and the file of a learned policy.
    pub(super) fn file(&self) -> Option<(&'static str, &Path)> {
        match &self.0 {
            Some(PolicyChoice::File(path)) => Some(("--policy", path)),
            _ => None,
        }
    }
}

pub(super) fn auto_or_policy(text: &str) -> Result<Auto<PolicyChoice>, ChoiceError> {
    Ok(Auto(if text == "auto" { None } else { Some(text.parse()?) }))
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Backend {
    /// Batches on the CPU.
    Cpu,
    /// Batches on an NVIDIA GPU (in builds with the feature `cuda`).
    Cuda,
    /// The kernels of cuda, compiled for the CPU, for tests (in builds with the feature `cuda`).
    CudaEmulated,
    /// Node by node, without batches: the reference.
    Interpret,
}

impl Infer {
    /// Checks that the options fit each other.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match self.backend {
            Backend::Cuda | Backend::CudaEmulated => {
                has_cuda("cpu or interpret")?;
            }
            Backend::Cpu | Backend::Interpret if self.devices != [0] => {
                return Err(Failure::Usage("--devices is for backend cuda".into()));
            }
            Backend::Interpret if self.policy.0.is_some() => {
                let message = "--policy is not used by backend interpret, which has no batches";
                return Err(Failure::Usage(message.into()));
            }
            Backend::Interpret if self.memory.is_some() || self.fold_tables > 0 => {
                let message = "--memory and --fold-tables are not supported by backend interpret";
                return Err(Failure::Usage(message.into()));
            }
            Backend::Interpret | Backend::Cpu => {
                self.precision.on_cpu()?;
            }
        }
        if let Some(memory) = self.memory.filter(|&memory| memory < self.fold_tables) {
            let tables = self.fold_tables;
            let message = format!("--fold-tables {tables} exceeds --memory {memory}");
            return Err(Failure::Usage(message));
        }
        Ok(())
    }

    /// Returns the shard to be run and the folder for its results, if it is not the whole corpus.
    pub(crate) fn shard(&self) -> Option<(Shard, &Path)> {
        self.shard.zip(self.output_dir.as_deref())
    }

    pub(crate) fn run(&self) -> Result<(), Failure> {
        let loaded = load(&self.dir).map_err(Failure::new)?;
        let folder = loaded.folder.clone();
        let files = self.files(&folder);
        let output = self.output.iter().map(|path| ("--output", path.as_path()));
        self.check_outputs(&folder, &files, &output.collect::<Vec<_>>())?;
        let mut output = Output::open(self.output.as_deref())?;
        let bar = progress::over_lines(&files, self.output.is_none());
        let mut corpus = Corpus::whole(&folder, &files);
        let Tally { lines, failed } =
            self.run_corpus(loaded, &mut corpus, Some(&bar), |text| output.write(text))?;
        bar.finish_and_clear();
        if failed > 0 {
            eprintln!("edbatch: {failed} of {lines} inputs failed; their lines contain the errors");
        }
        output.finish()
    }

    /// Runs a corpus and passes the results to `write`, in order.
    pub(crate) fn run_corpus(
        &self,
        loaded: Loaded,
        corpus: &mut Corpus<'_>,
        bar: Option<&ProgressBar>,
        mut write: impl FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<Tally, Failure> {
        let Loaded { model, parameters, folder } = loaded;
        // Open the policy first, so that an invalid one fails at once.
        let kinds = model.network().kind_names();
        let weight = if self.check_finite { parameters.not_finite() } else { None };
        let policy = self.policy.0.as_ref().map(|choice| choice.open(&kinds)).transpose();
        let policy = policy.map_err(|error| Failure::policy(&error))?;
        let mut stats = self.stats.as_deref().map(|path| Output::open(Some(path))).transpose()?;
        let trace = self.trace.as_deref().map(Trace::begin).transpose()?;

        let workers = AtomicUsize::new(0);
        let reference = Reference::new(&folder, self.precision);
        let runner = Mutex::new(match self.backend {
            Backend::Interpret => Runner::interpreter(model, parameters, self.precision.on_cpu()?),
            #[cfg(feature = "cuda")]
            Backend::Cuda | Backend::CudaEmulated => {
                let devices = match self.backend {
                    Backend::Cuda => on_device::Devices::Nvidia(self.devices.clone()),
                    _ => on_device::Devices::Emulated,
                };
                let (options, loading) = (self.options(policy), (self.precision, self.fold_tables));
                let engine = on_device::engine(model, &parameters, options, &devices, loading)?;
                Runner::Engine(Box::new(engine))
            }
            _ => {
                let options = self.options(policy).fold_tables(self.fold_tables);
                let options = options.precision(self.precision.on_cpu()?);
                let engine = Engine::with_options(model, parameters, options);
                Runner::Engine(Box::new(engine.map_err(Failure::new)?))
            }
        });
        let files = corpus.files;
        let worker = || {
            let mut worker = Worker {
                runner: runner.lock().expect("no thread panics with this lock").fork(),
                lexicon: folder.lexicon(),
                files,
                number: workers.fetch_add(1, Ordering::Relaxed),
                on_error: self.on_error,
                reference: &reference,
                check_finite: self.check_finite,
                results: match self.indices {
                    true => Results::Indices(Vec::new()),
                    false => Results::Rows(Vec::new()),
                },
            };
            Ok(move |mini_batch| worker.run(mini_batch))
        };
        let threads = threads_or_cores(self.threads);
        let mut by_worker = vec![(Statistics::default(), Report::default()); threads];
        let mut tally = Tally::default();
        let mini_batches = mini_batches(corpus, self.batch, self.on_error);
        parallel_map(threads, mini_batches, worker, |done: Done| {
            by_worker[done.number] = (done.statistics, done.report);
            tally.lines += done.lines as u64;
            tally.failed += done.failed as u64;
            if let Some(bar) = bar {
                bar.inc(done.lines as u64);
            }
            write(&done.text)
        })?;
        if let Some(stats) = &mut stats {
            // The interpreter has no schedule to compare with a bound.
            let scheduled = self.backend != Backend::Interpret;
            stats.write(statistics(&by_worker, scheduled).as_bytes())?;
        }
        trace.map_or(Ok(()), Trace::finish)?;
        stats.map_or(Ok(()), Output::finish)?;
        // Perhaps no input read this weight, or results are finite despite it.
        if let Some(weight) = weight {
            eprintln!("edbatch: a weight is not finite: {weight}");
        }
        Ok(tally)
    }

    /// Checks that `output`, the statistics and the trace are different files, and that none of
    /// them replaces a file that the command reads or a file of a model.
    pub(crate) fn check_outputs(
        &self,
        folder: &Folder,
        files: &[PathBuf],
        output: &[(&str, &Path)],
    ) -> Result<(), Failure> {
        let inputs = files.iter().map(|path| ("the input", path.as_path()));
        let optional = [("--stats", &self.stats), ("--trace", &self.trace)];
        let optional =
            optional.into_iter().filter_map(|(what, path)| Some((what, path.as_deref()?)));
        let inputs = inputs.chain(self.policy.file());
        same_file::check(Some(folder), inputs, output.iter().copied().chain(optional))
    }

    /// Returns the files of inputs, in order.
    pub(crate) fn files(&self, folder: &Folder) -> Vec<PathBuf> {
        if self.input.is_empty() { vec![folder.input()] } else { self.input.clone() }
    }

    /// Describes how results are rounded, checked and written. Two runs with the same description
    /// give the same lines for the same inputs.
    pub(crate) fn arithmetic(&self) -> String {
        let bf16 = self.precision == Precision::Bf16;
        let rounding = match (self.backend, Level::detect()) {
            (Backend::Interpret, _) if bf16 => "bf16, interpret",
            (Backend::Interpret, _) => "interpret",
            // On tensor cores, a device sums in a different order than the emulation.
            (Backend::Cuda, _) if bf16 => "bf16, cuda",
            (Backend::CudaEmulated, _) if bf16 => "bf16, cuda-emulated",
            (Backend::Cuda, _) if self.precision == Precision::Tf32 => "tf32",
            (Backend::CudaEmulated, _) if self.precision == Precision::Tf32 => "tf32-emulated",
            (Backend::Cuda | Backend::CudaEmulated, _) => "fused",
            (_, Level::Portable) if bf16 => "bf16, portable",
            (_, Level::Portable) => "portable",
            _ if bf16 => "bf16",
            _ => "fused",
        };
        let checked = if self.check_finite { ", finite" } else { "" };
        let written = if self.indices { ", indices" } else { "" };
        format!("{rounding}{checked}{written}")
    }

    /// Options for one engine; each thread has its own.
    fn options(&self, policy: Option<AnyPolicy>) -> EngineOptions {
        let options = policy.into_iter().fold(EngineOptions::new(), EngineOptions::policy);
        let options = self.memory.into_iter().fold(options, EngineOptions::memory_limit);
        if self.stats.is_some() { options.counts() } else { options }
    }
}
