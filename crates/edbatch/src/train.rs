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

pub use error::TrainError;
pub use optimizer::{Group, Optimizer, Rate};
pub use options::TrainerOptions;
pub use order::shuffled;
pub use reference::{LossGradients, interpret_gradients};
pub use trainer::{Loss, Times, TrainReport, Trainer};
