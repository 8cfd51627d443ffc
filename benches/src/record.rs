//! Measurements as plain data, written as JSON lines.

use serde::Serialize;

/// One measurement.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(tag = "bench", rename_all = "lowercase")]
pub enum Record {
    /// How many batches a policy makes.
    Counts(Counts),
    /// How fast a contestant is.
    Throughput(Throughput),
    /// Where its time goes.
    Breakdown(Breakdown),
    /// What learning a policy costs and brings.
    Learn(Learn),
    /// What a cell copies.
    Cells(Cell),
    /// How fast PQ-trees are reduced.
    PqTree(PqTrees),
}

/// How many batches a policy makes of mini-batches: means over them.
#[derive(Clone, PartialEq, Debug, Serialize)]
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
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
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
    /// The median over the repetitions.
    pub instances_per_second: f64,
    /// The lower quartile.
    pub instances_per_second_low: f64,
    /// The upper quartile.
    pub instances_per_second_high: f64,
    /// How often the mini-batches were run.
    pub repetitions: usize,
    /// How many mini-batches there were.
    pub mini_batches: usize,
    /// Multiply-adds of the products of the equations, times two.
    pub flops_per_instance: f64,
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
}

/// Where a contestant's time goes: shares of it.
#[derive(Clone, PartialEq, Debug, Serialize)]
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
#[derive(Clone, PartialEq, Debug, Serialize)]
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
#[derive(Clone, PartialEq, Debug, Serialize)]
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
    /// The median time to compile it.
    pub compile_microseconds: f64,
}

/// What is copied by one rule.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Rule {
    /// With variables in the order of their declaration.
    pub declared: Copies,
    /// As they are planned.
    pub planned: Copies,
}

/// Passes that do nothing but copy.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Copies {
    /// How many there are.
    pub memory_kernels: usize,
    /// What they write.
    pub bytes: u64,
}

/// How fast PQ-trees are reduced: making a tree, and all its reductions. Of trees that refuse, the
/// refusals alone; of the family `new`, making a tree, with its leaves for elements.
#[derive(Clone, PartialEq, Debug, Serialize)]
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
