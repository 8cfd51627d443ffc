//! The index of the largest element of a row.

use super::{
    isa::Level,
    simd::{self, Kernel, MAX_LANES, Simd},
};

/// The index of the largest element of a row, and whether its elements are finite.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ArgMax {
    /// The index of the largest element, as [`arg_max`] defines it.
    pub index: u32,
    /// True if the row has neither a NaN nor an infinity.
    pub is_finite: bool,
}

/// Returns the index of the largest element of a row, the lowest index if several are equal.
///
/// NaN is ignored. If all elements are NaN, returns the last index; if the row is empty, 0.
///
/// *Cost*: two passes, the second up to the result; about 0.04 ns per element in L1.
///
/// ```
/// use edbatch_runtime::kernels::{ArgMax, Level, arg_max};
/// let found = arg_max(Level::detect(), &[f32::NAN, 1.0, 3.0, 3.0]);
/// assert_eq!(found, ArgMax { index: 2, is_finite: false });
/// ```
///
/// # Panics
/// If the row has more than 2³² elements.
pub fn arg_max(level: Level, row: &[f32]) -> ArgMax {
    simd::run(level, Largest { row })
}

struct Largest<'a> {
    row: &'a [f32],
}

impl Kernel for Largest<'_> {
    type Output = ArgMax;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> ArgMax {
        let (max, is_finite) = max(simd, self.row);
        let index = first(simd, self.row, max).unwrap_or(self.row.len().saturating_sub(1));
        ArgMax { index: u32::try_from(index).expect("at most 2^32 elements"), is_finite }
    }
}

/// Returns the largest element that is not NaN, or -∞ if all are NaN; and true if all elements are
/// finite.
#[inline(always)]
fn max<S: Simd>(simd: S, row: &[f32]) -> (f32, bool) {
    /// Number of independent maxima, to hide the latency of a comparison.
    const CHAINS: usize = 8;
    let larger = |best: S::Vector, x: S::Vector| simd.select(simd.less(best, x), x, best);
    let (mut best, zero) = ([simd.splat(f32::NEG_INFINITY); CHAINS], simd.splat(0.0));
    // Zero times a NaN or an infinity is NaN, and so is every sum with it.
    let mut zeros = [zero; CHAINS];
    let mut chunks = row.chunks_exact(CHAINS * S::LANES);
    for chunk in &mut chunks {
        for (i, (best, zeros)) in best.iter_mut().zip(&mut zeros).enumerate() {
            // SAFETY: the chunk has CHAINS · LANES floats, and i < CHAINS.
            let x = unsafe { simd.load(chunk.as_ptr().add(i * S::LANES)) };
            *best = larger(*best, x);
            *zeros = simd.mul_add(x, zero, *zeros);
        }
    }
    let best = best.into_iter().reduce(larger).expect("there are chains");
    let is_finite = zeros.into_iter().all(|zeros| simd.bits(simd.is_nan(zeros)) == 0)
        && chunks.remainder().iter().all(|x| x.is_finite());
    let mut lanes = [f32::NEG_INFINITY; MAX_LANES];
    assert!(S::LANES <= lanes.len());
    // SAFETY: LANES <= lanes.len().
    unsafe { simd.store(lanes.as_mut_ptr(), best) };
    let rest = lanes.iter().chain(chunks.remainder());
    let max = rest.fold(f32::NEG_INFINITY, |best, &x| if x > best { x } else { best });
    (max, is_finite)
}

/// Returns the first index of `wanted`, which must be the [`max`] of the row.
#[inline(always)]
fn first<S: Simd>(simd: S, row: &[f32], wanted: f32) -> Option<usize> {
    let all = u32::MAX >> (u32::BITS as usize - S::LANES);
    let chunks = row.chunks_exact(S::LANES);
    let rest = row.len() - chunks.remainder().len();
    for (i, chunk) in chunks.enumerate() {
        // SAFETY: the chunk has LANES floats.
        let x = unsafe { simd.load(chunk.as_ptr()) };
        let others = simd.bits(simd.less(x, simd.splat(wanted))) | simd.bits(simd.is_nan(x));
        if others != all {
            return Some(i * S::LANES + others.trailing_ones() as usize);
        }
    }
    let found = row[rest..].iter().position(|&x| x == wanted);
    found.map(|i| rest + i)
}
