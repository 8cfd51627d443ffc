//! Measurements as plain data, written as JSON lines.
//!
//! The fields are an interface: scripts read them, and so do later runs (`--resume`, `--against`).

use serde::{Deserialize, Serialize};

use crate::machine::Machine;
use crate::soak::Soak;

/// A measurement, the step of a run that it belongs to, and where it was made.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Record {
    /// What was measured.
    #[serde(flatten)]
    pub figures: Figures,
    /// The step that measured it, by which a later run knows what has been done.
    pub step: String,
    /// On what, with what, and when.
    pub machine: Machine,
}

/// What was measured.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "bench", rename_all = "lowercase")]
pub enum Figures {
    /// How many batches a policy makes.
    Counts(Counts),
    /// How fast a contestant is.
    Throughput(Throughput),
    /// The same for small mini-batches, where the time of each counts.
    Latency(Throughput),
    /// Where a contestant's time goes.
    Breakdown(Breakdown),
    /// What learning a policy costs and brings.
    Learn(Learn),
    /// What a cell copies.
    Cells(Cell),
    /// How fast PQ-trees are reduced.
    PqTree(PqTrees),
    /// What a node costs in graphs of different sizes.
    Growth(Growth),
    /// How fast other people's programs are, beside ours in the same run.
    Peer(Peer),
    /// Whether memory and bits stay for an hour.
    Soak(Soak),
}

/// How many batches a policy makes of mini-batches: means over them.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Counts {
    /// The model, or `graph` for a published graph.
    pub model: String,
    /// The set, or the file of a published graph.
    pub input: String,
    /// Instances in a mini-batch; none is known of a published graph.
    pub batch: Option<usize>,
    /// The policy.
    pub policy: String,
    /// Batches.
    pub batches: f64,
    /// Lower bound on them.
    pub bound: f64,
    /// Nodes.
    pub nodes: f64,
    /// How many mini-batches there were.
    pub mini_batches: usize,
}

/// How fast a contestant is. Counts are means over mini-batches.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Throughput {
    /// The contestant.
    pub system: String,
    /// The model.
    pub model: String,
    /// Elements of a hidden vector.
    pub hidden: usize,
    /// Instances in a mini-batch.
    pub batch: usize,
    /// Threads.
    pub threads: usize,
    /// The median over laps, each the median over its rounds.
    pub instances_per_second: f64,
    /// The slowest lap's.
    pub instances_per_second_low: f64,
    /// The fastest lap's.
    pub instances_per_second_high: f64,
    /// How far from the median the farthest lap is, over the median: what stands behind ±.
    pub spread: f64,
    /// How often all mini-batches were run, in all laps.
    pub repetitions: usize,
    /// How many different mini-batches there were.
    pub mini_batches: usize,
    /// How long one mini-batch takes.
    pub latency_ns: Latency,
    /// Multiply-adds of the products of the equations, times two.
    pub flops_per_instance: f64,
    /// Those that are really done: products of looked-up rows are done once per distinct row.
    pub executed_flops_per_instance: f64,
    /// The same for all instances, in 1e9 a second.
    pub gflops: f64,
    /// What the core can do in registers alone, measured between the repetitions.
    pub peak_gflops: f64,
    /// What of that the contestant reaches.
    pub fraction_of_peak: f64,
    /// Of every mini-batch the fastest run: what a quiet machine gives.
    pub best_instances_per_second: f64,
    /// The same as a fraction of the highest peak.
    pub best_fraction_of_peak: f64,
    /// How fast the core copies 32 MiB, in 1e9 bytes a second.
    pub copy_gb_per_second: f64,
    /// Building the graph.
    pub construct_ns_per_node: f64,
    /// Deciding the order of batches.
    pub schedule_ns_per_node: f64,
    /// Deciding where values lie.
    pub plan_ns_per_node: f64,
    /// What of these times and of execution is execution.
    pub execute_share: f64,
    /// Nodes of a mini-batch.
    pub nodes: f64,
    /// Batches of a mini-batch.
    pub batches: f64,
    /// Lower bound on them.
    pub bound: f64,
    /// Whether products of tables were computed for all their rows beforehand.
    pub folded: bool,
    /// The most bytes held at once: arenas and weights.
    pub peak_bytes: u64,
    /// Weights, and values still to be read or returned at the worst point of the schedule.
    pub live_bytes: u64,
    /// Rows of values read through lists, of a mini-batch.
    pub gathered_rows: f64,
    /// Bytes read through lists, rows of tables among them.
    pub gathered_bytes: f64,
    /// The set.
    pub input: String,
    /// What carried the plans out.
    pub backend: String,
}

/// How long mini-batches take, over all runs of all of them, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Latency {
    /// Half of the runs take at most this.
    pub p50: f64,
    /// Ninety-nine in a hundred do; of fewer than a hundred runs, all do.
    pub p99: f64,
}

/// Where a contestant's time goes: shares of it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Breakdown {
    /// The contestant.
    pub system: String,
    /// The model.
    pub model: String,
    /// The set.
    pub input: String,
    /// Elements of a hidden vector.
    pub hidden: usize,
    /// Instances in a mini-batch.
    pub batch: usize,
    /// Threads.
    pub threads: usize,
    /// Building graphs.
    pub construct: f64,
    /// Deciding the order of batches.
    pub schedule: f64,
    /// Deciding where values lie.
    pub plan: f64,
    /// Running batches and reading results.
    pub execute: f64,
    /// Of that, copies of operands.
    pub gather: f64,
    /// Of that, products.
    pub product: f64,
    /// Of that, element-wise programs, reductions and softmax.
    pub elementwise: f64,
    /// Handing results out, freeing memory.
    pub other: f64,
    /// All of it.
    pub microseconds_per_instance: f64,
}

/// What learning a policy costs and brings.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Learn {
    /// The model.
    pub model: String,
    /// The set.
    pub input: String,
    /// Instances in a mini-batch.
    pub batch: usize,
    /// What a state of the machine encodes of the frontier.
    pub encoding: String,
    /// Mini-batches that were scheduled to learn from them.
    pub episodes: usize,
    /// How long that took.
    pub seconds: f64,
    /// States of the machine, or weights of a rule.
    pub states: usize,
    /// Batches, by `critical`, of mini-batches on which nothing was learned or selected.
    pub before: usize,
    /// Batches of the same with what was learned.
    pub after: usize,
    /// Lower bound on them.
    pub bound: usize,
}

/// What a cell of the paper's table copies.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Cell {
    /// The cell.
    pub cell: String,
    /// Elements of a hidden vector.
    pub hidden: usize,
    /// Calls in a batch.
    pub calls: u64,
    /// Batches inside the cell.
    pub batches: usize,
    /// By the paper's rule.
    pub paper_rule: Rule,
    /// By what our plans really do.
    pub own_rule: Rule,
    /// The median time of a batch, by the baselines' backend.
    pub microseconds: CellLatency,
    /// The median time to compile it.
    pub compile_microseconds: f64,
}

/// How long a batch of a cell takes, in microseconds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct CellLatency {
    /// With variables as the cell's batches come.
    pub declared: f64,
    /// As Algorithm 2 lays them out.
    pub planned: f64,
}

/// What is copied by one rule.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Rule {
    /// With variables in the order of their declaration.
    pub declared: Copies,
    /// As they are planned.
    pub planned: Copies,
}

/// Passes that do nothing but copy.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Copies {
    /// How many there are.
    pub memory_kernels: usize,
    /// What they write.
    pub bytes: u64,
}

/// How fast PQ-trees are reduced: making a tree, and all its reductions. Of trees that refuse, the
/// refusals alone; of the family `new`, making a tree, with its leaves for elements.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PqTrees {
    /// How the sets were drawn.
    pub family: String,
    /// Leaves of the tree.
    pub leaves: usize,
    /// Sets that it was reduced by.
    pub sets: usize,
    /// How many of them it took.
    pub accepted: usize,
    /// Elements of all sets together.
    pub elements: usize,
    /// The median over the repetitions.
    pub ns_per_element: f64,
    /// The lower quartile.
    pub ns_per_element_low: f64,
    /// The upper quartile.
    pub ns_per_element_high: f64,
    /// How often it was done.
    pub repetitions: usize,
    /// Memory of the reduced tree.
    pub bytes: usize,
}

/// What a node costs in one graph of many instances.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Growth {
    /// The model.
    pub model: String,
    /// The set.
    pub input: String,
    /// What decides the order: a policy, on the whole graph; or `engine`, ours as it is used.
    pub policy: String,
    /// Nodes of the graph.
    pub nodes: usize,
    /// Batches of the schedule.
    pub batches: usize,
    /// Deciding the order of batches: the fastest of the repetitions.
    pub schedule_ns_per_node: f64,
    /// Building the graph, where an engine did that.
    pub construct_ns_per_node: Option<f64>,
    /// Deciding where values lie, likewise.
    pub plan_ns_per_node: Option<f64>,
    /// How often it was done.
    pub repetitions: usize,
}

/// How fast another program is, and ours between its turns.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Peer {
    /// The program, and how it batches.
    pub system: String,
    /// Its version.
    pub version: String,
    /// The model.
    pub model: String,
    /// The set.
    pub input: String,
    /// Elements of a hidden vector.
    pub hidden: usize,
    /// Instances in a mini-batch.
    pub batch: usize,
    /// Threads.
    pub threads: usize,
    /// The median over laps, each the median over its rounds.
    pub instances_per_second: f64,
    /// How far from the median the farthest lap is, over the median.
    pub spread: f64,
    /// Ours in the same turns.
    pub edbatch_instances_per_second: f64,
    /// Its spread.
    pub edbatch_spread: f64,
    /// Its speed if the clock ran too while Python prepared what it ran: levels, or the
    /// description of the graph.
    #[serde(default)]
    pub prepared_instances_per_second: f64,
    /// How often all mini-batches were run.
    pub repetitions: usize,
    /// How many different mini-batches there were.
    pub mini_batches: usize,
    /// The largest difference between its results and ours, which must be small.
    pub difference: f64,
}
