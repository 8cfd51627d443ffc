//! Training: the gradients of a loss.

mod error;
mod reference;

pub use error::TrainError;
pub use reference::{LossGradients, interpret_gradients};
