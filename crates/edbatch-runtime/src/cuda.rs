//! CUDA devices: what a backend needs of them, and the kernels that its generated source is made
//! of.
//!
//! A device compiles a source, holds memory and launches the kernel. There are two: NVIDIA's, by
//! the driver ([`nvidia()`]), and one on the host ([`emulated()`]), which compiles the same text
//! with the host's C++ compiler and runs threads and blocks in shuffled orders. Kernels are written
//! in stages (`kernels/block.h`), compute the bits of the processor's kernels, and are compared
//! with these on machines without a device.
//!
//! Read `device.rs`, then `kernels/block.h` and `kernels/product.h`.

mod backend;
mod device;
mod emulated;
mod error;
mod nvidia;
mod nvrtc;
mod on_tape;
mod operations;
mod source;
mod store;
mod tape_reader;
mod weights;

#[cfg(test)]
mod tests;

pub use backend::{CompiledKernels, compile, emulated, kernel_source, nvidia};
pub use error::CudaError;
pub use tape_reader::tape_reader;
