//! CPU kernels: single-threaded arithmetic on rows of `f32`.
//!
//! Kernels read rows through [`RowsRef`], a span or a list of offsets, and write them through
//! [`RowsMut`]. So no kernel needs a gather before it, and threads can split an output by rows or
//! by columns. In shapes, `b` is the row (one instance of a batch), `n` the output column, and `k`
//! the summation index of a product.
//!
//! *Invariant*: for a given [`Level`], the bits of an output row depend only on the contents of its
//! input rows. They do not depend on the number of rows computed together, on where the rows lie,
//! on how rows or columns are split between calls, or on whether an element falls into a full
//! vector or into the tail of a row.
//!
//! Each kernel is written once, over the trait `simd::Simd`, and compiled for every level by
//! `simd::run`. Read [`isa`], `simd`, `format`, `micro_kernel`, then [`product`](mod@product);
//! `lanewise`, then [`elementwise`](mod@elementwise).

mod arg_max;
pub mod attention;
pub mod batched_gemm;
pub mod bf16;
pub mod dot;
pub mod elementwise;
mod format;
pub mod isa;
mod lanewise;
pub mod math;
mod memory;
mod micro_kernel;
mod packed;
pub mod product;
pub mod reduce;
#[cfg(feature = "probe")]
pub mod roofline;
pub mod rows;
mod simd;
pub mod sums;
pub mod update;

pub use arg_max::{ArgMax, arg_max};
pub use attention::{Scored, attention, attention_back};
pub use batched_gemm::{GemmShape, Left, Piece, batched_gemm};
pub use bf16::RoundedRows;
pub use dot::dot;
pub use elementwise::{Input, elementwise};
pub use isa::Level;
pub use memory::{Aligned, OutOfMemory, prefetch};
pub(crate) use memory::{extend_in_pieces, trial, try_reserve_huge};
pub use packed::PackedWeights;
pub use product::{Pass, Start, product, product_bf16};
pub use reduce::reduce;
pub use rows::{RowsMut, RowsRef};
pub use sums::{accumulate, outer};
pub use update::{Change, Rule, update};
