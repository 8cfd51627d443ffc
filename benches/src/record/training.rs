//! Speed of training.

use serde::{Deserialize, Serialize};

use crate::record::Case;

/// Speed of training on a whole set, with an update by SGD: medians over passes.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Training {
    /// The workload.
    #[serde(flatten)]
    pub case: Case,
    /// Instances forward, back and updated.
    pub instances_per_second: f64,
    /// Instances that an engine runs forward, in the same passes over the set.
    pub forward_instances_per_second: f64,
    /// The share of the time for building graphs, scheduling and planning.
    pub decide: f64,
    /// The share of the time for the forward pass.
    pub forward: f64,
    /// The share of the time for the backward pass.
    pub back: f64,
    /// The share of the time for the sums of parameters' gradients.
    pub sums: f64,
    /// The share of the time for the update.
    pub update: f64,
    /// The time of a step with Adam, relative to one with SGD, in the same passes.
    pub adam: f64,
    /// Three times the FLOPs of the equations in a forward pass, in 1e9 a second.
    pub gflops: f64,
    /// Measured peak of the core in 1e9 FLOPs a second.
    pub peak_gflops: f64,
    /// `gflops / peak_gflops`.
    pub fraction_of_peak: f64,
    /// The arenas of the trainer.
    pub arena_bytes: usize,
    /// The arenas of the engine.
    pub forward_arena_bytes: usize,
    /// The weights of the trainer, with packed copies and gradients.
    pub weight_bytes: usize,
    /// The same with Adam's moments.
    pub adam_weight_bytes: usize,
    /// The number of passes.
    pub passes: usize,
    /// Other programs in the same passes.
    #[serde(default)]
    pub peers: Vec<TrainingPeer>,
}

/// Speed of another program that trains with updates by SGD.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct TrainingPeer {
    /// Its name.
    pub program: String,
    /// Its version.
    pub version: String,
    /// Instances forward, back and updated.
    pub instances_per_second: f64,
    /// The same if the clock also ran while Python prepared inputs.
    pub prepared_instances_per_second: f64,
    /// Largest difference between its first losses and ours, relative to the smallest of ours.
    pub difference: f64,
}
