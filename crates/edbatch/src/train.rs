//! Training: the gradients of a loss, and updates of the parameters.

mod differentiator;
mod dropout;
mod error;
mod optimizer;
mod options;
mod order;
mod pass;
mod reference;
mod targets;
mod text;
mod trainer;
mod updater;
mod wire;

use std::time::Duration;

use edbatch_runtime::StepTimes;

pub use error::TrainError;
pub use optimizer::{Group, Optimizer, Rate};
pub use options::TrainerOptions;
pub use order::shuffled;
pub use reference::{LossGradients, interpret_gradients};
pub use trainer::{TrainReport, Trainer};

/// The loss of a mini-batch.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Loss {
    /// The sum of the cross-entropies of all rows with a target, times the weight.
    pub loss: f64,
    /// The number of rows with a target.
    pub terms: u64,
}

/// The time of a trainer's work so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Times {
    /// Building graphs, scheduling and planning.
    pub decide: Duration,
    /// Running batches forward.
    pub forward: Duration,
    /// Running batches back.
    pub back: Duration,
    /// Summing the gradients of parameters.
    pub sums: Duration,
    /// Updating and packing the parameters.
    pub update: Duration,
}

impl Times {
    /// Adds the times of a step that was decided.
    fn add(&mut self, StepTimes { forward, back, sums, update }: StepTimes) {
        self.forward += forward;
        self.back += back;
        self.sums += sums;
        self.update += update;
    }
}
