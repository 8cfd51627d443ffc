//! The CPU kernels: single-threaded arithmetic on rows of `f32`.
//!
//! Everything takes its rows as [`RowsRef`], a span or a list of offsets, and writes through
//! [`RowsMut`], so that nothing is gathered before a kernel and threads can share an output by rows
//! or by columns. Shapes: `b` counts rows (instances of a batch), `n` columns of the output, `k`
//! the depth of a product.
//!
//! *Invariant*: for one [`Level`], the bits of an output row depend on the contents of its input
//! rows alone. They do not depend on how many rows are computed together, on where these lie, on
//! how rows or columns are split between calls, nor on whether a lane falls into a whole vector or
//! into the tail of a row.
//!
//! Each kernel is written once, over the trait `simd::Simd`, and compiled for every level by
//! `simd::run`. Read [`isa`], `simd`, `micro_kernel`, then [`product`](mod@product); `lanewise`,
//! then [`elementwise`](mod@elementwise).

mod arg_max;
pub mod batched_gemm;
pub mod elementwise;
pub mod isa;
mod lanewise;
pub mod math;
mod memory;
mod micro_kernel;
pub mod product;
pub mod reduce;
#[cfg(feature = "probe")]
pub mod roofline;
pub mod rows;
mod simd;

pub use arg_max::arg_max;
pub use batched_gemm::{GemmShape, Left, Piece, batched_gemm};
pub use elementwise::{Input, elementwise};
pub use isa::Level;
pub(crate) use memory::Aligned;
pub use memory::OutOfMemory;
pub use product::{PackedWeights, Pass, Start, product};
pub use reduce::reduce;
pub use rows::{RowsMut, RowsRef};
