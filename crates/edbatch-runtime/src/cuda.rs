//! CUDA devices: what a backend needs of them, and the kernels that its generated source is made
//! of.
//!
//! A device compiles a source, holds memory and launches the kernel. There are two: NVIDIA's, by
//! the driver ([`nvidia()`]), and one on the host ([`EmulatedDevice`]), which compiles the same
//! text with the host's C++ compiler and runs threads and blocks in shuffled orders. Kernels are
//! written in supersteps (`kernels/block.h`), compute the bits of the processor's kernels, and are
//! compared with these on machines without a device.
//!
//! Plans are carried out by teams of blocks, which `place.rs` divides weights between, `slots.rs`
//! shares a device with, and `kernels/team.h` is about; or, to find errors, a launch a wave.
//!
//! Read `device.rs`, then `kernels/block.h`, `kernels/product.h` and `kernels/team.h`.

mod backend;
mod cpp;
mod device;
mod emulated;
mod error;
mod loaded;
pub mod measure;
mod memory;
mod nvidia;
mod nvrtc;
mod open;
mod operations;
mod options;
mod place;
mod slots;
mod source;
mod store;
mod weights;

#[cfg(test)]
mod tests;

pub use error::CudaError;
pub use loaded::{CompiledKernels, compile, kernel_source};
pub use open::{EmulatedDevice, nvidia};
pub use options::{CudaOptions, Driver, Precision};
pub use place::{TeamSize, team_size};
