//! Carries plans out.
//!
//! [`kernels`] holds the arithmetic of one CPU core: products on packed weights, element-wise programs, softmax and
//! reductions, each at the widest instruction level that the machine has. They know rows and columns of `f32` and nothing
//! of graphs, cells or plans.
//!
//! All of the project's `unsafe` code lives under [`kernels`].

#![warn(missing_docs)]

pub mod kernels;
