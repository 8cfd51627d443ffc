//! The formats of a product's factors.

use super::simd::Simd;

/// The format of a product's factors: what a step of the sum reads and computes.
///
/// | format | left | right | a step adds |
/// |---|---|---|---|
/// | [`Floats`] | a float | floats | a term |
/// | [`Pairs`] | a pair of bf16 | pairs of bf16 | two terms, by one instruction |
/// | [`Halves`] | two floats | pairs of bf16 | two terms, by two multiply-adds |
///
/// Of a pair, the second term is added first, as the instruction does. So `Pairs` and `Halves` give
/// the same bits.
pub(super) trait Format {
    /// The number of multiply-adds of a step, and of floats of a row.
    const PASSES: usize;

    /// Returns the factors of a multiply-add in a vector of the right side.
    #[inline(always)]
    fn factors<S: Simd>(simd: S, vector: S::Vector, pass: usize) -> S::Vector {
        let _ = (simd, pass);
        vector
    }

    /// Adds one pass of a step to the sum.
    #[inline(always)]
    fn mul_add<S: Simd>(simd: S, x: S::Vector, factors: S::Vector, sum: S::Vector) -> S::Vector {
        simd.mul_add(x, factors, sum)
    }
}

/// Factors in `f32`.
pub(super) struct Floats;

/// Factors in bf16, for levels with an instruction for [pairs](Simd::PAIRS).
pub(super) struct Pairs;

/// Factors in bf16, for all other levels.
pub(super) struct Halves;

impl Format for Floats {
    const PASSES: usize = 1;
}

impl Format for Pairs {
    const PASSES: usize = 1;

    #[inline(always)]
    fn mul_add<S: Simd>(simd: S, x: S::Vector, factors: S::Vector, sum: S::Vector) -> S::Vector {
        simd.mul_add_pairs(x, factors, sum)
    }
}

impl Format for Halves {
    const PASSES: usize = 2;

    #[inline(always)]
    fn factors<S: Simd>(simd: S, vector: S::Vector, pass: usize) -> S::Vector {
        if pass == 0 { simd.upper(vector) } else { simd.lower(vector) }
    }
}
