//! The schema of measurements: plain data, one JSON object a line.
//!
//! The fields are an interface for scripts and for later runs (`--resume`, `--against`).

pub mod finding;
pub mod journal;
pub mod machine;
pub mod soak;
pub mod sorted;
pub mod training;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::record::finding::Finding;
use crate::record::machine::Machine;
use crate::record::soak::Soak;
use crate::record::training::Training;
use crate::text::duration;

/// A measurement, with the step of the run that made it and the machine it was made on.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Record {
    /// The measurement.
    #[serde(flatten)]
    pub figures: Figures,
    /// Name of the step that made the record. `--resume` skips steps that have records.
    pub step: String,
    /// The machine, the sources and the date.
    pub machine: Machine,
}

/// The figures of a measurement.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "bench", rename_all = "lowercase")]
pub enum Figures {
    /// Numbers of batches of a policy.
    Counts(Counts),
    /// Throughput of a system.
    Throughput(Throughput),
    /// Throughput with small mini-batches, where latency matters.
    Latency(Throughput),
    /// Time of a system by phase.
    Breakdown(Breakdown),
    /// Cost and benefit of learning a policy.
    Learn(Learn),
    /// Copies made by a cell.
    Cells(Cell),
    /// Speed of PQ-tree reductions.
    PqTree(PqTrees),
    /// Cost of a node in graphs of different sizes.
    Growth(Growth),
    /// Throughput of another program, and ours in the same run.
    Peer(Peer),
    /// Memory, and checks for changed bits, over an hour.
    Soak(Soak),
    /// A check or a figure of a CUDA device.
    Device(Finding),
    /// Speed of training.
    Training(Training),
}

/// Batches of a policy: means over mini-batches.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Counts {
    /// The model, or `graph` for a published graph.
    pub model: String,
    /// The set, or the file of a published graph.
    pub input: String,
    /// Instances in a mini-batch; `None` for a published graph.
    pub batch: Option<usize>,
    /// The policy.
    pub policy: String,
    /// Number of batches.
    pub batches: f64,
    /// Lower bound on the number of batches.
    pub bound: f64,
    /// Number of nodes.
    pub nodes: f64,
    /// Number of mini-batches.
    pub mini_batches: usize,
}

/// A workload, its sizes, and the way that it is run.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Case {
    /// The model.
    pub model: String,
    /// The set.
    pub input: String,
    /// Elements of a hidden vector.
    pub hidden: usize,
    /// Instances in a mini-batch.
    pub batch: usize,
    /// Number of threads.
    pub threads: usize,
    /// The backend: `cpu` or `cuda`; may be empty in old records of the CPU.
    #[serde(default)]
    pub backend: String,
}

impl Case {
    /// Returns the model, the set, and the size of vectors.
    pub fn workload(&self) -> (String, String, usize) {
        (self.model.clone(), self.input.clone(), self.hidden)
    }
}

/// Throughput of a system. Counts are means over mini-batches.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Throughput {
    /// The system.
    pub system: String,
    /// The workload.
    #[serde(flatten)]
    pub case: Case,
    /// The median of the laps' medians. A lap is a series of rounds.
    pub instances_per_second: f64,
    /// The median of the slowest lap.
    pub instances_per_second_low: f64,
    /// The median of the fastest lap.
    pub instances_per_second_high: f64,
    /// Distance from the median to the farthest lap, divided by the median: the figure after ±.
    pub spread: f64,
    /// Number of laps; 0 in old records, which have five.
    #[serde(default)]
    pub laps: usize,
    /// Number of passes over all mini-batches, in all laps.
    pub repetitions: usize,
    /// Number of distinct mini-batches.
    pub mini_batches: usize,
    /// Time of one mini-batch.
    pub latency_ns: Latency,
    /// FLOPs of the matrix products in the equations: two for each multiply-add.
    pub flops_per_instance: f64,
    /// FLOPs that are executed. Products of looked-up rows are computed once per distinct row.
    pub executed_flops_per_instance: f64,
    /// FLOPs of the equations, in 1e9 a second.
    pub gflops: f64,
    /// Measured peak of the core, or of the CUDA device, in 1e9 FLOPs a second.
    pub peak_gflops: f64,
    /// `gflops / peak_gflops`.
    pub fraction_of_peak: f64,
    /// Throughput from the fastest run of each mini-batch: an estimate for an idle machine.
    pub best_instances_per_second: f64,
    /// Best throughput as a fraction of the highest measured peak.
    pub best_fraction_of_peak: f64,
    /// Bandwidth of copying 32 MiB on one core, in 1e9 bytes a second.
    pub copy_gb_per_second: f64,
    /// Time to build the graph.
    pub construct_ns_per_node: f64,
    /// Time to order the batches.
    pub schedule_ns_per_node: f64,
    /// Time to place the values.
    pub plan_ns_per_node: f64,
    /// Execution time divided by the sum of execution and the three times above.
    pub execute_share: f64,
    /// Nodes in a mini-batch.
    pub nodes: f64,
    /// Batches in a mini-batch.
    pub batches: f64,
    /// Lower bound on the number of batches.
    pub bound: f64,
    /// True if tables were folded: their products were computed for every table row at load time.
    pub folded: bool,
    /// Peak bytes of arenas and weights.
    pub peak_bytes: u64,
    /// Bytes of weights, plus the maximum over batches of the bytes of live values.
    pub live_bytes: u64,
    /// Rows of values that a mini-batch reads through lists of indices.
    pub gathered_rows: f64,
    /// Bytes that a mini-batch reads through lists of indices, including rows of tables.
    pub gathered_bytes: f64,
    /// The parts of a mini-batch's time, on a device.
    #[serde(flatten)]
    pub on_device: Option<OnDevice>,
}

/// The parts of the mean time of a mini-batch on a device. They add up to the time of its engine.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct OnDevice {
    /// From the start of a launch's first block to the end of its last one, by the device's clock.
    pub device_ns: f64,
    /// The rest of the time from the driver's call until the host sees the end of the launch.
    pub launch_ns: f64,
    /// All other time.
    pub host_ns: f64,
    /// Clock of the SMs in MHz: cycles over nanoseconds.
    pub sm_mhz: f64,
}

impl fmt::Display for OnDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [device, launch, host] = [self.device_ns, self.launch_ns, self.host_ns].map(duration);
        write!(f, "; device {device}, launch {launch}, host {host}, {:.0} MHz", self.sm_mhz)
    }
}

/// Quantiles of the time of a mini-batch over all runs of all mini-batches, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Latency {
    /// The median.
    pub p50: f64,
    /// The 99th percentile, or the maximum if there are fewer than a hundred runs.
    pub p99: f64,
}

/// Time of a system by phase, as shares of the total.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Breakdown {
    /// The system.
    pub system: String,
    /// The workload.
    #[serde(flatten)]
    pub case: Case,
    /// Building graphs.
    pub construct: f64,
    /// Ordering batches.
    pub schedule: f64,
    /// Placing values.
    pub plan: f64,
    /// Running batches and reading results.
    pub execute: f64,
    /// Copies of operands; part of `execute`.
    pub gather: f64,
    /// Matrix products; part of `execute`.
    pub product: f64,
    /// Element-wise programs, reductions and softmax; part of `execute`.
    pub elementwise: f64,
    /// Returning results and freeing memory.
    pub other: f64,
    /// Total time of an instance.
    pub microseconds_per_instance: f64,
}

/// Cost and benefit of learning a policy.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Learn {
    /// The model.
    pub model: String,
    /// The set.
    pub input: String,
    /// Instances in a mini-batch.
    pub batch: usize,
    /// Encoding of the frontier as a state.
    pub encoding: String,
    /// Mini-batches scheduled for learning.
    pub episodes: usize,
    /// Learning time.
    pub seconds: f64,
    /// Number of states.
    pub states: usize,
    /// Batches by `critical` on unseen mini-batches.
    pub before: usize,
    /// Batches by the learned policy on the same unseen mini-batches.
    pub after: usize,
    /// Lower bound on the number of batches.
    pub bound: usize,
}

/// Copies made by a cell of the paper's table.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Cell {
    /// The cell.
    pub cell: String,
    /// Elements of a hidden vector.
    pub hidden: usize,
    /// Calls in a batch.
    pub calls: u64,
    /// Batches inside the cell.
    pub batches: usize,
    /// Copies counted by the paper's rule.
    pub paper_rule: Rule,
    /// Copies that our plans make.
    pub own_rule: Rule,
    /// Median time of a batch on one core.
    pub microseconds: CellLatency,
    /// Median compile time.
    pub compile_microseconds: f64,
}

/// Time of a batch of a cell, in microseconds.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct CellLatency {
    /// One operation at a time, with variables in the order of declaration.
    pub declared: f64,
    /// Our own plan.
    pub planned: f64,
}

/// Copies counted by one rule.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Rule {
    /// With variables in the order of their declaration.
    pub declared: Copies,
    /// With variables in the planned order.
    pub planned: Copies,
}

/// Kernels that only copy.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Copies {
    /// Number of kernels.
    pub memory_kernels: usize,
    /// Bytes written.
    pub bytes: u64,
}

/// Speed of making a PQ-tree and reducing it by all sets. If the tree rejects its sets, only the
/// rejections are timed; in the family `new`, only making the tree, whose leaves are the elements.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct PqTrees {
    /// The family of random sets.
    pub family: String,
    /// Leaves of the tree.
    pub leaves: usize,
    /// Number of sets.
    pub sets: usize,
    /// Number of sets accepted.
    pub accepted: usize,
    /// Elements of all sets.
    pub elements: usize,
    /// Median over the repetitions.
    pub ns_per_element: f64,
    /// Lower quartile.
    pub ns_per_element_low: f64,
    /// Upper quartile.
    pub ns_per_element_high: f64,
    /// Number of repetitions.
    pub repetitions: usize,
    /// Memory of the reduced tree.
    pub bytes: usize,
}

/// Cost of a node in one graph of many instances.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Growth {
    /// The model.
    pub model: String,
    /// The set.
    pub input: String,
    /// The policy that schedules the whole graph, or `engine` for our engine with its defaults.
    pub policy: String,
    /// Nodes of the graph.
    pub nodes: usize,
    /// Batches of the schedule.
    pub batches: usize,
    /// Time to order the batches, in the fastest repetition.
    pub schedule_ns_per_node: f64,
    /// Time to build the graph; only for `engine`.
    pub construct_ns_per_node: Option<f64>,
    /// Time to place the values; only for `engine`.
    pub plan_ns_per_node: Option<f64>,
    /// Number of repetitions.
    pub repetitions: usize,
}

/// Throughput of another program and of our system, measured alternately.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Peer {
    /// The program and its way of batching.
    pub system: String,
    /// Its version, and its option for batching.
    pub version: String,
    /// The workload, with the size of mini-batches that is best for the program.
    #[serde(flatten)]
    pub case: Case,
    /// The median of the laps' medians. A lap is a series of rounds.
    pub instances_per_second: f64,
    /// Distance from the median to the farthest lap, divided by the median.
    pub spread: f64,
    /// Our throughput in the same run, on the same instances.
    pub edbatch_instances_per_second: f64,
    /// Our spread.
    pub edbatch_spread: f64,
    /// Our best size of mini-batches.
    #[serde(default)]
    pub edbatch_batch: usize,
    /// Throughput if the clock also ran while Python prepared inputs: levels, or the graph.
    #[serde(default)]
    pub prepared_instances_per_second: f64,
    /// Number of laps; 0 in old records, which have five.
    #[serde(default)]
    pub laps: usize,
    /// Number of passes over all mini-batches.
    pub repetitions: usize,
    /// Number of distinct mini-batches.
    pub mini_batches: usize,
    /// Largest difference between its results and ours.
    pub difference: f64,
}
