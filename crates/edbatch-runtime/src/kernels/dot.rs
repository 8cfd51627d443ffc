//! Inner products of rows, in an order that is the same at every level.

use super::{
    isa::Level,
    simd::{self, Kernel, MAX_LANES, Simd},
};

/// `out[i] = Σ_j left[i, j] · right[i, j]` for row-major matrices with a row for each element of
/// `out`.
///
/// Product j is added to partial sum j mod 16 by a fused multiply-add, and the 16 partial sums are
/// added up in order. So all levels that fuse multiply-adds give the same bits.
///
/// # Panics
///
/// If the matrices differ in size, or their size is not a multiple of the number of rows.
pub fn dot(level: Level, left: &[f32], right: &[f32], out: &mut [f32]) {
    let columns = left.len().checked_div(out.len()).unwrap_or(0);
    assert_eq!((left.len(), right.len()), (columns * out.len(), left.len()), "equal matrices");
    simd::run(level, Dot { left, right, columns, out });
}

struct Dot<'a> {
    left: &'a [f32],
    right: &'a [f32],
    columns: usize,
    out: &'a mut [f32],
}

impl Kernel for Dot<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        for (i, out) in self.out.iter_mut().enumerate() {
            let row = |matrix: &'_ [f32]| matrix[i * self.columns..][..self.columns].as_ptr();
            // SAFETY: both rows have `columns` elements.
            [*out] = unsafe { dots(simd, row(self.left), [row(self.right)], self.columns) };
        }
    }
}

/// Returns the inner products of `left` and each of N rows of `len` floats.
///
/// # Safety
///
/// All pointers must be readable for `len` floats.
#[inline(always)]
pub(super) unsafe fn dots<S: Simd, const N: usize>(
    simd: S,
    left: *const f32,
    right: [*const f32; N],
    len: usize,
) -> [f32; N] {
    const { assert!(MAX_LANES.is_multiple_of(S::LANES) && MAX_LANES / S::LANES <= 4) };
    // The partial sums of each part of 16 lanes, for each row.
    let mut sums = [[simd.splat(0.0); N]; 4];
    let mut at = 0;
    // SAFETY: every vector ends at or before `len`.
    unsafe {
        while at + MAX_LANES <= len {
            for (part, sums) in sums.iter_mut().enumerate().take(MAX_LANES / S::LANES) {
                let from = at + part * S::LANES;
                let x = simd.load(left.add(from));
                for (sum, right) in sums.iter_mut().zip(right) {
                    *sum = simd.mul_add(x, simd.load(right.add(from)), *sum);
                }
            }
            at += MAX_LANES;
        }
        for (part, sums) in sums.iter_mut().enumerate().take(MAX_LANES / S::LANES) {
            let from = at + part * S::LANES;
            if from < len {
                let lanes = S::LANES.min(len - from);
                let x = simd.load_first(left.add(from), lanes);
                for (sum, right) in sums.iter_mut().zip(right) {
                    *sum = simd.mul_add(x, simd.load_first(right.add(from), lanes), *sum);
                }
            }
        }
    }
    let mut partial = [[0.0; MAX_LANES]; N];
    for (part, sums) in sums.iter().enumerate().take(MAX_LANES / S::LANES) {
        for (partial, &sum) in partial.iter_mut().zip(sums) {
            // SAFETY: the parts of a row of `partial` are LANES floats each.
            unsafe { simd.store(partial.as_mut_ptr().add(part * S::LANES), sum) };
        }
    }
    let mut total = [0.0; N];
    for (total, partial) in total.iter_mut().zip(&partial) {
        for x in partial {
            *total += x;
        }
    }
    total
}
