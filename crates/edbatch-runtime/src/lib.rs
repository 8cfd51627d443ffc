//! Carries plans out: on the CPU, node by node as a reference, or only counting.

mod backend;
mod count;
mod interpret;
mod parameters;

pub use backend::Backend;
pub use count::{Count, Counts};
pub use interpret::{Tensor, initial_values, interpret};
pub use parameters::{ParameterError, Parameters};
