//! Sums over the rows of a batch: the gradients of parameters.
//!
//! *Invariant*: each element of a sum is one chain that begins with the element's old value and
//! adds the rows in order. So its bits do not depend on how rows are divided between calls.

// Loops over the indices r and c follow the formula; iterators would hide it.
#![allow(clippy::needless_range_loop)]

use std::mem::MaybeUninit;

use super::{
    isa::Level,
    rows::{RowsMut, RowsRef},
    simd::{self, Kernel, MAX_LANES, Simd},
};

/// `sum[n, k] += Σ_b deltas[b, first + n] · rows[b, k]`: the gradient of a weight (N, K), or of
/// some of its rows.
///
/// `deltas` is (B, at least `first` + N), `rows` is (B, K) and `sum` is (N, K); row-major `f32`.
/// Each element is a chain of fused multiply-adds over b, beginning with the element's old value.
///
/// *Cost*: 2·B·N·K FLOPs, near the core's peak from 64 rows on.
///
/// # Panics
///
/// If the numbers of rows of `deltas` and `rows` differ, or a row is too short.
///
/// ```
/// use edbatch_runtime::kernels::{Level, RowsMut, RowsRef, outer};
/// let deltas = RowsRef::Span { data: &[1.0, 2.0, 10.0, 20.0], stride: 2 };
/// let rows = RowsRef::Span { data: &[1.0, 0.5], stride: 1 };
/// let mut sum = [100.0, 200.0];
/// outer(Level::detect(), &deltas, 0, &rows, RowsMut::contiguous(&mut sum, 1));
/// assert_eq!(sum, [106.0, 212.0]);
/// ```
pub fn outer(
    level: Level,
    deltas: &RowsRef<'_>,
    first: usize,
    rows: &RowsRef<'_>,
    sum: RowsMut<'_>,
) {
    assert_eq!(deltas.len(), rows.len(), "rows of both factors");
    simd::run(level, &mut Outer { deltas, first, rows, sum });
}

/// `sum[k] += Σ_b rows[b, k]`, row by row: the gradient of a bias.
///
/// # Panics
///
/// If a row is shorter than `sum`.
pub fn accumulate(level: Level, rows: &RowsRef<'_>, sum: &mut [f32]) {
    simd::run(level, Accumulate { rows, sum });
}

struct Outer<'a> {
    deltas: &'a RowsRef<'a>,
    first: usize,
    rows: &'a RowsRef<'a>,
    sum: RowsMut<'a>,
}

/// Maximum number of rows of a block.
const BLOCK: usize = 128;

/// The columns of a block's rows that a panel holds, side by side in the L1 cache.
#[repr(align(64))]
struct Panel([MaybeUninit<f32>; BLOCK * 4 * MAX_LANES]);

impl Kernel for &mut Outer<'_> {
    type Output = ();

    /// ```text
    /// for each block of rows
    ///     for each panel of columns k       copied, so that its rows follow each other
    ///         for each micro-tile of 6 n    its sums stay in registers for all rows of the block
    /// ```
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        // 24 sums, the vectors of a row and a broadcast fit into 32 registers; 12 sums into 16.
        if S::REGISTERS >= 32 {
            self.blocks::<S, 4>(simd);
        } else {
            self.blocks::<S, 2>(simd);
        }
    }
}

impl Outer<'_> {
    #[inline(always)]
    fn blocks<S: Simd, const C: usize>(&mut self, simd: S) {
        let (n, k) = (self.sum.len(), self.sum.width());
        let mut panel = Panel([MaybeUninit::uninit(); BLOCK * 4 * MAX_LANES]);
        let mut deltas = [const { MaybeUninit::<*mut f32>::uninit() }; BLOCK];
        for start in (0..self.rows.len()).step_by(BLOCK) {
            let count = (self.rows.len() - start).min(BLOCK);
            self.deltas.starts(start, self.first..self.first + n, &mut deltas[..count]);
            // SAFETY: `starts` has initialized the first `count` pointers.
            let deltas: &[*const f32] =
                unsafe { std::slice::from_raw_parts(deltas.as_ptr().cast(), count) };
            for at in (0..k).step_by(C * S::LANES) {
                let width = (k - at).min(C * S::LANES);
                for b in 0..count {
                    let row = &self.rows.row(start + b, k)[at..at + width];
                    for c in 0..C {
                        let lanes = width.saturating_sub(c * S::LANES).min(S::LANES);
                        // SAFETY: `row` has `lanes` floats from c · LANES on, and the panel has
                        // C vectors for each of BLOCK rows.
                        unsafe {
                            let x = simd.load_first(row.as_ptr().add(c * S::LANES), lanes);
                            let to = panel.0.as_mut_ptr().add((b * C + c) * S::LANES);
                            simd.store(to.cast(), x);
                        }
                    }
                }
                let panel: *const f32 = panel.0.as_ptr().cast();
                let mut tile = 0;
                while tile < n {
                    macro_rules! tiles {
                        ($($rows:literal)*) => {
                            match (n - tile).min(6) {
                                $($rows => {
                                    let sums: [*mut f32; $rows] = std::array::from_fn(|r| {
                                        self.sum.row(tile + r)[at..].as_mut_ptr()
                                    });
                                    // SAFETY: each pointer in `deltas` can be read for n floats,
                                    // the panel has `count` rows of C vectors, and each of `sums`
                                    // has `width` floats of a row of its own.
                                    unsafe {
                                        micro_tile::<S, $rows, C>(
                                            simd, deltas, tile, panel, sums, width,
                                        );
                                    }
                                    tile += $rows;
                                })*
                                _ => unreachable!("at most six rows"),
                            }
                        };
                    }
                    tiles!(1 2 3 4 5 6);
                }
            }
        }
    }
}

/// `sums[r][..width] += Σ_b deltas[b][first + r] · panel[b]`
///
/// # Safety
///
/// Each of `deltas` must be readable for `first` + R floats, `panel` for C vectors per entry of
/// `deltas`, and `sums` readable and writable for `width <= C * LANES` floats.
#[inline(always)]
unsafe fn micro_tile<S: Simd, const R: usize, const C: usize>(
    simd: S,
    deltas: &[*const f32],
    first: usize,
    panel: *const f32,
    to: [*mut f32; R],
    width: usize,
) {
    let mut sums = [[simd.splat(0.0); C]; R];
    let is_full = width == C * S::LANES;
    let lanes = |c: usize| width.saturating_sub(c * S::LANES).min(S::LANES);
    // SAFETY: the caller guarantees `width` floats in each of `to`.
    unsafe {
        for r in 0..R {
            for c in 0..C {
                let from = to[r].wrapping_add(c * S::LANES);
                sums[r][c] =
                    if is_full { simd.load(from) } else { simd.load_first(from, lanes(c)) };
            }
        }
    }
    for (b, delta) in deltas.iter().enumerate() {
        let mut x = [simd.splat(0.0); C];
        for c in 0..C {
            // SAFETY: the caller guarantees C vectors for each row.
            x[c] = unsafe { simd.load(panel.add((b * C + c) * S::LANES)) };
        }
        for r in 0..R {
            // SAFETY: the caller guarantees `first` + R floats.
            let delta = simd.splat(unsafe { *delta.add(first + r) });
            for c in 0..C {
                sums[r][c] = simd.mul_add(delta, x[c], sums[r][c]);
            }
        }
    }
    // SAFETY: the caller guarantees `width` floats in each of `to`.
    unsafe {
        for r in 0..R {
            for c in 0..C {
                let to = to[r].wrapping_add(c * S::LANES);
                if is_full {
                    simd.store(to, sums[r][c]);
                } else {
                    simd.store_first(to, sums[r][c], lanes(c));
                }
            }
        }
    }
}

struct Accumulate<'a> {
    rows: &'a RowsRef<'a>,
    sum: &'a mut [f32],
}

impl Kernel for Accumulate<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        /// Vectors of columns whose sums stay in registers for all rows.
        const C: usize = 8;
        let (rows, width) = (self.rows.len(), self.sum.len());
        for first in (0..width).step_by(C * S::LANES) {
            let columns = (width - first).min(C * S::LANES);
            let lanes = |c: usize| columns.saturating_sub(c * S::LANES).min(S::LANES);
            let to = self.sum[first..].as_mut_ptr();
            let mut sums = [simd.splat(0.0); C];
            // SAFETY: `sum` and each row have `columns` floats from `first` on.
            unsafe {
                for c in 0..C {
                    sums[c] = simd.load_first(to.wrapping_add(c * S::LANES), lanes(c));
                }
                for b in 0..rows {
                    let row = self.rows.row(b, width)[first..].as_ptr();
                    for c in 0..C {
                        let from = row.wrapping_add(c * S::LANES);
                        let x = match columns == C * S::LANES {
                            true => simd.load(from),
                            false => simd.load_first(from, lanes(c)),
                        };
                        sums[c] = simd.add(sums[c], x);
                    }
                }
                for c in 0..C {
                    simd.store_first(to.wrapping_add(c * S::LANES), sums[c], lanes(c));
                }
            }
        }
    }
}
