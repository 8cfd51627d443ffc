//! The index of the largest element of a row.

use super::{
    isa::Level,
    simd::{self, Kernel, MAX_LANES, Simd},
};

/// Returns the index of the largest element of a row, the lowest index if several are equal.
///
/// NaN is ignored. If all elements are NaN, returns the last index; if the row is empty, 0.
///
/// *Cost*: two passes, the second up to the result; about 0.04 ns per element in L1.
///
/// ```
/// use edbatch_runtime::kernels::{Level, arg_max};
/// assert_eq!(arg_max(Level::detect(), &[f32::NAN, 1.0, 3.0, 3.0]), 2);
/// ```
pub fn arg_max(level: Level, row: &[f32]) -> usize {
    simd::run(level, ArgMax { row })
}

struct ArgMax<'a> {
    row: &'a [f32],
}

impl Kernel for ArgMax<'_> {
    type Output = usize;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> usize {
        let max = max(simd, self.row);
        first(simd, self.row, max).unwrap_or(self.row.len().saturating_sub(1))
    }
}

/// Returns the largest element that is not NaN, or -∞ if all are NaN.
#[inline(always)]
fn max<S: Simd>(simd: S, row: &[f32]) -> f32 {
    /// Number of independent maxima, to hide the latency of a comparison.
    const CHAINS: usize = 8;
    let larger = |best: S::Vector, x: S::Vector| simd.select(simd.less(best, x), x, best);
    let mut best = [simd.splat(f32::NEG_INFINITY); CHAINS];
    let mut chunks = row.chunks_exact(CHAINS * S::LANES);
    for chunk in &mut chunks {
        for (i, best) in best.iter_mut().enumerate() {
            // SAFETY: the chunk has CHAINS · LANES floats, and i < CHAINS.
            *best = larger(*best, unsafe { simd.load(chunk.as_ptr().add(i * S::LANES)) });
        }
    }
    let best = best.into_iter().reduce(larger).expect("there are chains");
    let mut lanes = [f32::NEG_INFINITY; MAX_LANES];
    assert!(S::LANES <= lanes.len());
    // SAFETY: LANES <= lanes.len().
    unsafe { simd.store(lanes.as_mut_ptr(), best) };
    let rest = lanes.iter().chain(chunks.remainder());
    rest.fold(f32::NEG_INFINITY, |best, &x| if x > best { x } else { best })
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
