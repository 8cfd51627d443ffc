//! Tests of the kernels.

mod kernels;
