//! Command-line options: which parts, models, sizes, systems and threads are measured.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

use crate::backends::BackendName;
use crate::families::{FAMILIES, Family};
use crate::policies::Effort;
use crate::sets::Source;
use crate::soak::HOUR;
use crate::systems::System;

/// Measures batches, throughput and where the time goes; see also docs/ARCHITECTURE.md.
#[derive(Clone, PartialEq, Debug, Parser)]
#[command(
    name = "cargo xtask bench",
    bin_name = "cargo xtask bench",
    after_help = "Examples:\n  cargo xtask bench --quick\n  cargo xtask bench --only throughput \
                  --models tree_lstm --hidden 128,256 --batch 1,64 --systems paper,edbatch \
                  --data datasets/full --json results.jsonl"
)]
pub struct Options {
    /// A look at everything, in two minutes instead of seven: few sizes, short measurements
    #[arg(long)]
    pub quick: bool,
    /// Which parts [default: all but paper and soak]
    #[arg(long, value_delimiter = ',', value_name = "PART,…")]
    pub only: Vec<Part>,
    /// Which models [default: all]
    #[arg(long, value_delimiter = ',', value_name = "MODEL,…", value_parser = model)]
    pub models: Vec<String>,
    /// Elements of hidden vectors [default: 128,256; of mv_rnn 64,128]
    #[arg(long, value_delimiter = ',', value_name = "H,…", value_parser = positive)]
    pub hidden: Vec<usize>,
    /// Instances in a mini-batch [default: 64; of latency 1,8; of counts 1,8,64,256]
    #[arg(long, value_delimiter = ',', value_name = "N,…", value_parser = positive)]
    pub batch: Vec<usize>,
    /// Threads, inside a mini-batch and, by the system across, over several [default: 1]
    #[arg(long, value_delimiter = ',', value_name = "N,…", value_parser = positive)]
    pub threads: Vec<usize>,
    /// Which contestants [default: those that are systems of their own, up to edbatch]
    #[arg(long, value_delimiter = ',', value_name = "SYSTEM,…")]
    pub systems: Vec<System>,
    /// Ours on further backends too, where there is a device: cuda
    #[arg(long, value_delimiter = ',', value_name = "BACKEND,…")]
    pub backends: Vec<BackendName>,
    /// Also our own with one part less or one more: policy, layout, kernel, kept plans, orders
    #[arg(long)]
    pub ablation: bool,
    /// The seconds for one figure of one contestant [default: 0.5, less where a run has a limit];
    /// of soak, for all of it [default: 3600]
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub seconds: Option<f64>,
    /// Times all mini-batches of a set, not as many as there is time for: half an hour
    #[arg(long)]
    pub whole: bool,
    /// Real sets from this folder, as `cargo xtask data fetch` makes it; else generated ones
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Beside us, other people's programs where they are installed: PyTorch, DyNet
    #[arg(long)]
    pub peers: bool,
    /// Where records go, one a line, as they come [default: target/bench/records.jsonl]
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Goes on with the records of an interrupted run
    #[arg(long)]
    pub resume: bool,
    /// Shows what changed beyond the noise since the records of this file
    #[arg(long, value_name = "FILE")]
    pub against: Option<PathBuf>,
    /// Prints whole tables, not only a summary
    #[arg(long)]
    pub tables: bool,
    /// Writes the main tables into README.md and docs/benchmarks.md
    #[arg(long)]
    pub docs: bool,
    /// Where the page with plots goes [default: target/bench/index.html]
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// A part of the measurements.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Part {
    /// Batches of every policy, and the lower bound; with searches, if it is named
    Counts,
    /// Instances per second of every contestant
    Throughput,
    /// Mini-batches of 1 and 8: how long each takes
    Latency,
    /// Where the time goes
    Breakdown,
    /// What learning a policy costs and brings
    Learn,
    /// What cells copy, as declared and as planned
    Cells,
    /// Reductions of PQ-trees
    #[value(name = "pqtree")]
    PqTree,
    /// What a node costs in graphs of 1,000 nodes up to a million
    Growth,
    /// The tables and figures of the paper's evaluation, in hours; by name alone
    Paper,
    /// An hour of mini-batches of changing shape: memory and bits must stay; by name alone
    Soak,
}

impl Options {
    /// Whether a part is to be measured.
    #[must_use]
    pub fn wants(&self, part: Part) -> bool {
        let by_name_alone = matches!(part, Part::Paper | Part::Soak);
        self.only.contains(&part) || (self.only.is_empty() && !by_name_alone)
    }

    /// How much time policies may take to compare: all of it for those who name the part.
    #[must_use]
    pub fn effort(&self) -> Effort {
        let named = self.only.iter().any(|&part| part != Part::Paper);
        if named && !self.quick { Effort::Full } else { Effort::Quick }
    }

    /// Where inputs come from.
    #[must_use]
    pub fn source(&self) -> Source {
        self.data.clone().map_or(Source::Generated, Source::Folder)
    }

    /// Elements of hidden vectors.
    #[must_use]
    pub fn hidden(&self, family: &Family) -> Vec<usize> {
        let default: &[usize] = match (self.quick, family.model) {
            (true, _) => &[64],
            (_, "mv_rnn") => &[64, 128],
            _ => &[128, 256],
        };
        let mut hidden = or(&self.hidden, default);
        hidden.retain(|&hidden| hidden <= family.largest);
        hidden
    }

    /// Sizes at which the paper measures throughput: of vectors, and of mini-batches.
    #[must_use]
    pub fn sizes_of_paper(&self, family: &Family) -> Vec<(usize, usize)> {
        // The matrices of mv_rnn's words would fill memory, once for every contestant.
        let largest = if family.model == "mv_rnn" { 128 } else { family.largest };
        let mut hidden = or(&self.hidden, &[32, 64, 128, 256, 512]);
        hidden.retain(|&hidden| hidden <= largest);
        let batches = or(&self.batch, &[1, 8, 32, 64, 128, 256]);
        let of_size = |hidden| batches.iter().map(move |&batch| (hidden, batch));
        hidden.into_iter().flat_map(of_size).collect()
    }

    /// Instances in the mini-batches whose throughput is measured.
    #[must_use]
    pub fn batches(&self) -> Vec<usize> {
        or(&self.batch, &[64])
    }

    /// Instances in the mini-batches whose latency is measured.
    #[must_use]
    pub fn batches_of_latency(&self) -> Vec<usize> {
        or(&self.batch, &[1, 8])
    }

    /// Instances in the mini-batches that other programs run: their best counts.
    #[must_use]
    pub fn batches_of_peers(&self) -> Vec<usize> {
        or(&self.batch, if self.quick { &[64] } else { &[64, 256] })
    }

    /// Instances in the mini-batches whose batches are counted.
    #[must_use]
    pub fn batches_of_counts(&self) -> Vec<usize> {
        or(&self.batch, if self.quick { &[1, 64] } else { &[1, 8, 64, 256] })
    }

    /// Instances in the mini-batches that policies learn on.
    #[must_use]
    pub fn batches_to_learn(&self) -> Vec<usize> {
        or(&self.batch, &[64])
    }

    /// The contestants.
    #[must_use]
    pub fn systems(&self) -> Vec<System> {
        let mut systems = or(&self.systems, &System::METHODS);
        if self.ablation {
            systems.extend(System::ABLATION.iter().filter(|part| !self.systems.contains(part)));
        }
        if self.threads.iter().any(|&threads| threads > 1) && self.systems.is_empty() {
            systems.push(System::Across);
        }
        systems
    }

    /// The contestants of the paper's throughput.
    #[must_use]
    pub fn systems_of_paper(&self) -> Vec<System> {
        or(&self.systems, &System::METHODS[1..])
    }

    /// The contestants whose latency is measured: the slow ones would take all the time.
    #[must_use]
    pub fn systems_of_latency(&self) -> Vec<System> {
        or(&self.systems, &[System::CellsAgenda, System::Paper, System::Edbatch])
    }

    /// Threads; each number is measured.
    #[must_use]
    pub fn threads(&self) -> Vec<usize> {
        or(&self.threads, &[1])
    }

    /// The seconds for one figure of one contestant.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.seconds.unwrap_or(if self.quick { 0.2 } else { 0.5 })
    }

    /// The seconds by which it is told how many mini-batches are timed; none for all.
    #[must_use]
    pub fn nominal(&self) -> Option<f64> {
        (!self.whole).then_some(self.seconds())
    }

    /// The seconds of a soak.
    #[must_use]
    pub fn seconds_of_soak(&self) -> f64 {
        self.seconds.unwrap_or(HOUR)
    }

    /// The seconds in which a run should end that measures the usual things: those who choose what
    /// to measure choose how long it takes. Machines that are slower or busy may take half as long
    /// again.
    #[must_use]
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
            && !self.peers;
        usual.then_some(if self.quick { 70.0 } else { 240.0 })
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

fn positive(word: &str) -> Result<usize, String> {
    let number = word.parse().ok().filter(|&number| number > 0 && number <= 1 << 20);
    number.ok_or_else(|| "expected a whole number from 1 to 1048576".into())
}

fn seconds(word: &str) -> Result<f64, String> {
    let number = word.parse().ok().filter(|number| (0.001..=3600.0).contains(number));
    number.ok_or_else(|| "expected seconds from 0.001 to 3600".into())
}
