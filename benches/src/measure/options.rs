//! Command-line options: parts, models, sizes, systems and threads.

mod part;

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Parser, ValueEnum, value_parser};

use crate::measure::families::{FAMILIES, Family};
use crate::measure::policies::Effort;
use crate::measure::sets::Source;
use crate::measure::soak::HOUR;
use crate::measure::systems::System;
use crate::measure::throughput::Setting;

pub use part::Part;

/// Measures batches, throughput and where the time goes; see also docs/benchmarks.md.
#[derive(Clone, PartialEq, Debug, Parser)]
#[command(
    name = "cargo xtask bench",
    bin_name = "cargo xtask bench",
    after_help = "Examples:\n  cargo xtask bench --quick\n  cargo xtask bench --only throughput \
                  --models tree_lstm --hidden 128,256 --batch 1,64 --systems paper,edbatch \
                  --data datasets/full --json results.jsonl\n  cargo xtask gpu --only \
                  probe,verify,latencies --minutes 10\n  cargo xtask gpu --pack folder     # then, \
                  on another machine: folder/run"
)]
pub struct Options {
    /// All parts in two minutes instead of seven: few sizes, short measurements
    #[arg(long)]
    pub quick: bool,
    /// Parts [default: all except those measured only by name]
    #[arg(long, value_delimiter = ',', value_name = "PART,…")]
    pub only: Vec<Part>,
    /// Models [default: all]
    #[arg(long, value_delimiter = ',', value_name = "MODEL,…", value_parser = model)]
    pub models: Vec<String>,
    /// Elements of hidden vectors [default: 128,256; of mv_rnn 64,128]
    #[arg(long, value_delimiter = ',', value_name = "H,…", value_parser = positive)]
    pub hidden: Vec<usize>,
    /// Instances in a mini-batch; for peers, in the smallest mini-batch [default: 64; latency 1,8;
    /// counts 1,8,64,256]
    #[arg(long, value_delimiter = ',', value_name = "N,…", value_parser = positive)]
    pub batch: Vec<usize>,
    /// Threads that share a mini-batch; for the system across, number of engines [default: 1]
    #[arg(long, value_delimiter = ',', value_name = "N,…", value_parser = positive)]
    pub threads: Vec<usize>,
    /// Systems [default: unbatched up to edbatch]
    #[arg(long, value_delimiter = ',', value_name = "SYSTEM,…")]
    pub systems: Vec<System>,
    /// Further backends for our system, if there is a device: cuda
    #[arg(long, value_delimiter = ',', value_name = "BACKEND,…", value_parser = backend)]
    pub backends: Vec<String>,
    /// Also our system with one part removed or added: policy, layout, kernel, folded tables
    #[arg(long)]
    pub ablation: bool,
    /// Seconds for each figure of a system [default: 0.5, less if a run has a limit]; duration of
    /// soak [default: 3600]
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub seconds: Option<f64>,
    /// Ends the run after this many minutes; --resume continues it
    #[arg(long, value_name = "N", value_parser = minutes)]
    pub minutes: Option<f64>,
    /// Times all mini-batches of a set instead of a selection: half an hour
    #[arg(long)]
    pub whole: bool,
    /// Real sets from this folder, made by `cargo xtask data fetch`; otherwise generated ones
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Also other people's programs, if they are installed: PyTorch, DyNet
    #[arg(long)]
    pub peers: bool,
    /// File of records, one a line [default: target/bench/records.jsonl]
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Continues an interrupted run
    #[arg(long)]
    pub resume: bool,
    /// Shows what changed beyond the noise since the records of this file
    #[arg(long, value_name = "FILE")]
    pub against: Option<PathBuf>,
    /// Prints whole tables, not only a summary
    #[arg(long)]
    pub tables: bool,
    /// Writes the main tables into README.md, docs/benchmarks.md and docs/training.md
    #[arg(long)]
    pub docs: bool,
    /// Page with plots [default: target/bench/index.html]
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Verifies and measures a CUDA device; this is `cargo xtask gpu`
    #[arg(long)]
    pub gpu: bool,
    /// The CUDA device, or an emulated one for a rehearsal without times
    #[arg(long, value_name = "DEVICE", default_value = "cuda")]
    pub device: DeviceKind,
    /// Random networks that verify and verify-training compare [default: 200; emulated 2; pack 8]
    #[arg(long, value_name = "N")]
    pub networks: Option<u64>,
    /// Prints times of mini-batches by a model of a CUDA device, or of steps with --only training
    #[arg(long, requires = "gpu", conflicts_with_all = ["minutes", "json", "html", "pack"])]
    pub predict: bool,
    /// SMs of the device of --predict
    #[arg(long, value_name = "N", default_value = "132")]
    #[arg(value_parser = value_parser!(u32).range(1..=1024))]
    pub sms: u32,
    /// Makes a folder whose `run` verifies and measures the CUDA device of another machine, without
    /// a compiler, a network connection or the repository; the folder must not exist
    #[arg(long, value_name = "DIR", requires = "gpu")]
    #[arg(conflicts_with_all = ["only", "minutes", "json", "html", "data"])]
    pub pack: Option<PathBuf>,
    /// Architecture of the kernels of a pack
    #[arg(long, value_name = "ARCH", default_value = "sm_90")]
    pub arch: String,
    /// Seconds between lines about the current measurement, if the output is not a terminal
    #[arg(long, hide = true, default_value = "10", value_parser = seconds)]
    pub pulse: f64,
    /// Compiles the kernels of a pack into the user's cache
    #[arg(long, hide = true)]
    pub compile: bool,
}

/// A kind of device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum DeviceKind {
    /// NVIDIA's device number 0
    Cuda,
    /// The same kernels on this machine's processor; times are meaningless
    Emulated,
}

/// The workloads on a device, unless others are named.
const ON_DEVICE: [&str; 4] = ["tree_lstm", "lattice_lstm", "bilstm_tagger", "lstm_nmt"];

impl Options {
    /// Returns true if a part is to be measured.
    pub fn wants(&self, part: Part) -> bool {
        if !self.only.is_empty() {
            return self.only.contains(&part);
        }
        let for_device = Part::DEVICE.contains(&part);
        if self.gpu {
            return for_device || matches!(part, Part::Throughput | Part::Training);
        }
        !for_device && !matches!(part, Part::Paper | Part::Soak | Part::Peers)
    }

    /// Returns true if the run needs a device.
    pub fn requires_device(&self) -> bool {
        self.gpu
            || Part::DEVICE.iter().any(|&part| self.wants(part))
            || self.systems.iter().any(|system| system.on_cuda().is_some())
    }

    /// Returns true if our system also runs on a device.
    pub fn on_cuda(&self) -> bool {
        self.gpu || self.backends.iter().any(|backend| backend == "cuda")
    }

    /// Returns true if a model is to be measured.
    pub fn wants_model(&self, model: &str) -> bool {
        match (self.models.is_empty(), self.gpu) {
            (true, true) => ON_DEVICE.contains(&model),
            (true, false) => true,
            (false, _) => self.models.iter().any(|chosen| chosen == model),
        }
    }

    /// Returns full effort if a part other than `paper` is named without `--quick`.
    pub fn effort(&self) -> Effort {
        let named = self.only.iter().any(|&part| part != Part::Paper);
        if named && !self.quick { Effort::Full } else { Effort::Quick }
    }

    /// Returns the source of inputs.
    pub fn source(&self) -> Source {
        self.data.clone().map_or(Source::Generated, Source::Folder)
    }

    /// Returns the sizes of hidden vectors.
    pub fn hidden(&self, family: &Family) -> Vec<usize> {
        let default: &[usize] = match (self.quick, family.model) {
            _ if self.gpu && self.device == DeviceKind::Emulated => &[12],
            _ if self.gpu => &[256],
            (true, _) => &[64],
            (_, "mv_rnn") => &[64, 128],
            _ => &[128, 256],
        };
        let mut hidden = or(&self.hidden, default);
        hidden.retain(|&hidden| hidden <= family.largest);
        hidden
    }

    /// Returns the sizes of vectors and mini-batches at which the paper measures throughput.
    pub fn sizes_of_paper(&self, family: &Family) -> Vec<(usize, usize)> {
        // Larger matrices of mv_rnn's words, once for every system, would exceed the memory.
        let largest = if family.model == "mv_rnn" { 128 } else { family.largest };
        let mut hidden = or(&self.hidden, &[32, 64, 128, 256, 512]);
        hidden.retain(|&hidden| hidden <= largest);
        let batches = or(&self.batch, &[1, 8, 32, 64, 128, 256]);
        let of_size = |hidden| batches.iter().map(move |&batch| (hidden, batch));
        hidden.into_iter().flat_map(of_size).collect()
    }

    /// Returns the sizes of mini-batches for a part.
    pub fn batches(&self, part: Part) -> Vec<usize> {
        let default: &[usize] = match (part, self.gpu, self.quick) {
            (_, true, _) if self.device == DeviceKind::Emulated => &[4],
            (Part::Throughput | Part::Training, true, false) => &[64, 1024],
            (Part::Latency, ..) => &[1, 8],
            (Part::Counts, _, true) => &[1, 64],
            (Part::Counts, _, false) => &[1, 8, 64, 256],
            _ => &[64],
        };
        or(&self.batch, default)
    }

    /// Returns the systems of a part for mini-batches of a size.
    pub fn systems(&self, part: Part, batch: usize) -> Vec<System> {
        let default: &[System] = match part {
            // Slow systems would take all the time.
            Part::Latency => &[System::CellsAgenda, System::Paper, System::Edbatch],
            Part::Paper => &System::METHODS[1..],
            // Variants of the kernels are compared at one size.
            _ if self.gpu && batch != 64 => &System::DEVICE[..2],
            _ if self.gpu && self.quick => &System::DEVICE[..3],
            _ if self.gpu => &System::DEVICE,
            _ => &System::METHODS,
        };
        let mut systems = or(&self.systems, default);
        if part == Part::Throughput && !self.gpu {
            if self.ablation {
                systems.extend(System::ABLATION.iter().filter(|part| !self.systems.contains(part)));
            }
            if self.threads.iter().any(|&threads| threads > 1) && self.systems.is_empty() {
                systems.push(System::Across);
            }
        }
        if self.on_cuda() && !systems.iter().any(|system| system.on_cuda().is_some()) {
            systems.push(System::Cuda);
        }
        systems
    }

    /// Returns a setting of a throughput measurement, without a device.
    pub fn setting(&self, hidden: usize, batch: usize, systems: Vec<System>) -> Setting<'static> {
        let (threads, nominal) = (or(&self.threads, &[1]), self.nominal());
        Setting { hidden, batch, systems, seconds: 0.0, nominal, threads, device: None }
    }

    /// Returns our systems that peers are compared with in inference.
    pub fn rivals(&self) -> Vec<System> {
        match (self.peers && self.only != [Part::Training], self.gpu, self.on_cuda()) {
            (false, ..) => Vec::new(),
            (true, true, _) => vec![System::Cuda],
            (true, false, true) => vec![System::Edbatch, System::Cuda],
            (true, false, false) => vec![System::Edbatch],
        }
    }

    /// Returns the seconds for each figure of a system.
    pub fn seconds(&self) -> f64 {
        self.seconds.unwrap_or(if self.quick { 0.2 } else { 0.5 })
    }

    /// Returns the seconds that determine how many mini-batches are timed; `None` for all.
    pub fn nominal(&self) -> Option<f64> {
        (!self.whole).then_some(self.seconds())
    }

    /// Returns the duration of a soak.
    pub fn seconds_of_soak(&self) -> f64 {
        self.seconds.unwrap_or(HOUR)
    }

    /// Returns the number of random networks to verify.
    pub fn networks(&self) -> u64 {
        self.networks.unwrap_or(match self.device {
            DeviceKind::Emulated => 2,
            DeviceKind::Cuda if self.pack.is_some() || self.compile => 8,
            DeviceKind::Cuda => 200,
        })
    }

    /// Returns the limit of a run in seconds: the user's, or the default if no option chooses what
    /// to measure. A slow or busy machine may take 1.5 times as long.
    pub fn limit(&self) -> Option<f64> {
        let usual = self.only.is_empty()
            && self.models.is_empty()
            && self.systems.is_empty()
            && self.hidden.is_empty()
            && self.batch.is_empty()
            && self.threads.is_empty()
            && self.backends.is_empty()
            && self.seconds.is_none()
            && !self.ablation
            && !self.whole
            && !self.peers
            && !self.gpu;
        let usual = usual.then_some(if self.quick { 70.0 } else { 240.0 });
        self.minutes.map(|minutes| 60.0 * minutes).or(usual)
    }
}

fn or<T: Clone>(chosen: &[T], default: &[T]) -> Vec<T> {
    if chosen.is_empty() { default.into() } else { chosen.into() }
}

fn model(word: &str) -> Result<String, String> {
    if FAMILIES.iter().any(|(name, _)| *name == word) {
        return Ok(word.into());
    }
    let mut names: Vec<_> = FAMILIES.iter().map(|(name, _)| *name).collect();
    names.dedup();
    Err(format!("expected one of {}", names.join(", ")))
}

fn backend(word: &str) -> Result<String, String> {
    match word {
        "cpu" | "cuda" => Ok(word.into()),
        "cuda-emulated" => Err("cuda-emulated is for tests: its times are meaningless".into()),
        _ => Err("expected cpu or cuda".into()),
    }
}

/// Parses a number from `min` to `max`; otherwise the error says what was expected.
fn within<T: FromStr + PartialOrd>(
    word: &str,
    min: T,
    max: T,
    expected: &str,
) -> Result<T, String> {
    let number = word.parse().ok().filter(|number| (min..=max).contains(number));
    number.ok_or_else(|| format!("expected {expected}"))
}

fn positive(word: &str) -> Result<usize, String> {
    within(word, 1, 1 << 20, "a whole number from 1 to 1048576")
}

fn seconds(word: &str) -> Result<f64, String> {
    within(word, 0.001, 3600.0, "seconds from 0.001 to 3600")
}

fn minutes(word: &str) -> Result<f64, String> {
    within(word, 1e-9, 1440.0, "a number of minutes, more than 0 and at most 1440")
}
