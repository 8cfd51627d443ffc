//! Carries plans out: on the CPU, node by node as a reference, or only counting.

mod backend;
mod count;
mod cpu;
mod interpret;
pub mod kernels;
mod parameters;
pub mod pytorch;

pub use backend::Backend;
pub use count::{Count, Counts, gathered_bytes};
pub use cpu::{Cpu, Products};
pub use interpret::{Tensor, initial_values, interpret};
pub use parameters::{ParameterError, Parameters};
