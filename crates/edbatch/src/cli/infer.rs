//! `edbatch infer`: a model's outputs for every line of a file.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::available_parallelism;

use clap::{Args, ValueEnum};
use edbatch::{Engine, EngineOptions, KindReport, Loaded, Report, Statistics, load};
use edbatch_models::Model;
use edbatch_policy::{AnyPolicy, ChoiceError, PolicyChoice};
use serde_json::{Value, json};

use super::failure::Failure;
use super::in_order::in_order;
use super::mini_batch::{Done, OnError, Work, mini_batches};
use super::output::Output;
use super::runner::Runner;
use super::{at_least_one, progress};

/// Writes a model's outputs for every line of a file, as JSON lines in the order of the input.
///
/// Each line is {"id": 0, "logits": [[…], …]}, where id counts the input's lines from 0, and
/// "tags" or "tokens" beside it where the outputs have names. Results do not depend on --threads,
/// bit by bit.
#[derive(Args)]
#[command(after_help = "\
Example:
  edbatch init tree_lstm model --hidden 64 --input trees.txt
  edbatch infer model --output logits.jsonl --stats stats.json")]
pub(crate) struct Infer {
    /// Folder with config.json, weights.safetensors and the vocabularies.
    dir: PathBuf,
    /// File of inputs, plain or .gz; by default the one that config.json names.
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// File for the results; by default standard output.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// What decides which kind of node runs next: auto, depth, agenda, sufficient, critical,
    /// beam:WIDTH, or the file of a learned policy. With auto, kinds run one after the other where no
    /// two of them read each other, and by critical elsewhere.
    #[arg(long, value_name = "P", default_value = "auto", value_parser = auto_or_policy)]
    policy: Auto<PolicyChoice>,
    /// Instances in a mini-batch.
    #[arg(long, value_name = "N", default_value = "64", value_parser = at_least_one)]
    batch: usize,
    /// Threads, each of which runs whole mini-batches; by default as many as there are cores.
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    threads: Option<usize>,
    /// Refuse mini-batches whose values take more bytes of memory, with the weights, before they run.
    /// Each thread has values of its own.
    #[arg(long, value_name = "BYTES")]
    memory: Option<u64>,
    /// Keep schedules and plans, in so many bytes for each thread, for mini-batches of the same
    /// topology: worth it if inputs come again, and for decoders.
    #[arg(long, value_name = "BYTES", default_value = "0")]
    keep_plans: usize,
    /// What computes.
    #[arg(long, value_name = "B", value_enum, default_value_t = Backend::Cpu)]
    backend: Backend,
    /// What becomes of an input that cannot be read, does not fit the model or has no finite results.
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = OnError::Stop)]
    on_error: OnError,
    /// File for one JSON object: instances, graphs, plans reused, nodes, batches, their lower bound, seconds by phase
    /// (summed over the threads), bytes gathered, peak bytes, how each kind batched and why not
    /// better, and the largest missed opportunity.
    #[arg(long, value_name = "FILE")]
    stats: Option<PathBuf>,
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
    /// Batches on an NVIDIA GPU.
    Cuda,
    /// Node by node, without batches: the reference.
    Interpret,
}

impl Infer {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        match self.backend {
            Backend::Cuda => {
                return Err(Failure::new(
                    "this build has no backend cuda; choose cpu or interpret",
                ));
            }
            Backend::Interpret if self.memory.is_some() || self.keep_plans > 0 => {
                let message = "--memory and --keep-plans are for backends that run plans; interpret \
                               has none";
                return Err(Failure::Usage(message.into()));
            }
            Backend::Interpret | Backend::Cpu => {}
        }
        let Loaded { model, parameters, folder } = load(&self.dir).map_err(Failure::new)?;
        // Before any work: a policy that does not fit is found out at once.
        let kinds = model.network().kind_names();
        let policy = self.policy.0.as_ref().map(|choice| choice.open(&kinds)).transpose();
        let policy = policy.map_err(|error| Failure::policy(&error))?;
        let file = self.input.clone().unwrap_or_else(|| folder.input());
        let inputs = folder.inputs(&file).map_err(Failure::new)?;
        let mut output = Output::open(self.output.as_deref())?;
        let mut stats = self.stats.as_deref().map(|path| Output::open(Some(path))).transpose()?;

        let bar = progress::over_lines(&file, self.output.is_none());
        let engines = AtomicUsize::new(0);
        let runner = Mutex::new(match self.backend {
            Backend::Interpret => Runner::reference(model, parameters),
            _ => {
                let engine = Engine::with_options(model, parameters, self.options(policy));
                Runner::Engine(Box::new(engine.map_err(Failure::new)?))
            }
        });
        let worker = || {
            let another = runner.lock().expect("nothing panics under this lock").another();
            let number = engines.fetch_add(1, Ordering::Relaxed);
            let (lexicon, file, on_error) = (folder.lexicon(), &*file, self.on_error);
            let (runner, results) = (another, Vec::new());
            let mut work = Work { runner, lexicon, file, number, on_error, results };
            Ok(move |mini_batch| work.run(mini_batch))
        };
        let mut by_engine = vec![(Statistics::default(), Report::default()); self.threads()];
        let (mut lines, mut failed) = (0, 0);
        let mini_batches = mini_batches(inputs, self.batch, &file, self.on_error);
        in_order(self.threads(), mini_batches, worker, |done: Done| {
            by_engine[done.number] = (done.statistics, done.report);
            (lines, failed) = (lines + done.lines, failed + done.failed);
            bar.inc(done.lines as u64);
            output.write(&done.text)
        })?;
        bar.finish_and_clear();
        if failed > 0 {
            eprintln!("edbatch: {failed} of {lines} inputs have no results; their lines say why");
        }

        if let Some(stats) = &mut stats {
            stats.write(self.report(&by_engine).as_bytes())?;
        }
        output.finish()?;
        stats.map_or(Ok(()), Output::finish)
    }

    /// Each thread runs whole mini-batches on an engine of its own.
    fn options(&self, policy: Option<AnyPolicy>) -> EngineOptions {
        let mut options = EngineOptions::new().plan_cache(self.keep_plans);
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

    fn threads(&self) -> usize {
        self.threads.unwrap_or_else(|| available_parallelism().map_or(1, usize::from))
    }

    fn report(&self, engines: &[(Statistics, Report)]) -> String {
        let mut kinds = Report::default();
        engines.iter().for_each(|(_, report)| kinds.merge(report));
        let engines: Vec<Statistics> = engines.iter().map(|&(statistics, _)| statistics).collect();
        let sum = |count: fn(&Statistics) -> u64| engines.iter().map(count).sum::<u64>();
        let seconds = |phase: fn(&Statistics) -> std::time::Duration| {
            engines.iter().map(phase).sum::<std::time::Duration>().as_secs_f64()
        };
        // The interpreter has no schedule that a bound could be compared with.
        let scheduled = self.backend != Backend::Interpret;
        let weights = engines.iter().map(|s| s.weight_bytes).max().unwrap_or(0);
        let report = json!({
            "instances": sum(|s| s.instances),
            "graphs": sum(|s| s.graphs),
            "plans_reused": sum(|s| s.plans_reused),
            "nodes": sum(|s| s.nodes),
            "batches": sum(|s| s.batches),
            "bound": scheduled.then(|| sum(|s| s.counts.map_or(0, |counts| counts.bound))),
            "seconds": {
                "construct": seconds(|s| s.construct),
                "schedule": seconds(|s| s.schedule),
                "plan": seconds(|s| s.plan),
                "execute": seconds(|s| s.execute),
            },
            "gathered_bytes": sum(|s| s.counts.map_or(0, |counts| counts.gathered_bytes)),
            "peak_bytes": sum(|s| s.arena_bytes) + weights,
            "kinds": scheduled.then(|| kinds.kinds.iter().map(explained).collect::<Vec<_>>()),
            "missed": kinds.missed().map(|(kind, batches)| json!({"kind": kind.name, "batches": batches})),
        });
        format!("{report}\n")
    }
}

/// How a kind batched; `bound` is how many batches it needs at least, `sizes` counts batches of 1, of
/// 2 or 3, of 4 to 7 nodes and so on.
fn explained(kind: &KindReport) -> Value {
    json!({
        "kind": kind.name,
        "nodes": kind.nodes,
        "batches": kind.batches,
        "bound": kind.chain,
        "mean": kind.mean(),
        "largest": kind.largest,
        "sizes": kind.sizes,
        "advice": kind.advice(),
    })
}
