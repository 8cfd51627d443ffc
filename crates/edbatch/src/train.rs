//! Training: the gradients of a loss.

mod error;
mod options;
mod pass;
mod reference;
mod targets;
mod trainer;
mod wire;

pub use error::TrainError;
pub use options::TrainerOptions;
pub use reference::{LossGradients, interpret_gradients};
pub use trainer::{Loss, Times, Trainer};
