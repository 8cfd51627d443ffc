//! The micro-kernel of every product: a micro-tile of R rows by C vectors of columns, kept in
//! registers.
//!
//! ```text
//! sum[r][c] = 0
//! for k in 0..depth                           one chain of fused multiply-adds per output
//!     sum[r][c] += left[r][k] * right[k][c]   left: a float, broadcast; right: a vector
//! out[r][c] = sum[r][c]  or  start[r][c] + sum[r][c]
//! ```
//!
//! An output's chain is the same in every micro-tile, which is why micro-tiles can be of any shape:
//! results do not depend on the number of rows. Two instructions can start per cycle and each takes
//! four, so a micro-tile needs eight sums to keep a core busy; more rows per micro-tile read the
//! right side less often. The broadcast of a row is shared by the C vectors, a vector of the right
//! side by the R rows.

// The loops name rows r and columns c as the formula does; an iterator per array would hide it.
#![allow(clippy::needless_range_loop)]

use std::hint::black_box;

use super::simd::Simd;

/// The right side of a product, or a piece of it: vectors of columns, step by step.
#[derive(Clone, Copy)]
pub(super) struct Right {
    /// How many steps there are.
    pub(super) depth: usize,
    /// The first column of the micro-tile at step 0.
    pub(super) start: *const f32,
    /// Floats from a step to the next.
    pub(super) step: usize,
    /// Floats from the first pair of vectors to the second, within a step.
    pub(super) second: usize,
    /// How far a stream is asked for before it is read, in floats.
    pub(super) ahead: usize,
}

/// How much of the right side there is, and how it is read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// All C vectors are readable at every step.
    Whole,
    /// As `Whole`, and what comes `ahead` floats later is asked for.
    Streamed,
    /// Only the micro-tile's columns are readable.
    Cut,
}

/// Where a micro-tile's rows lie: pointers to the first float of each.
#[derive(Clone, Copy)]
pub(super) struct MicroTileRows<const R: usize> {
    /// K floats each.
    pub(super) left: [*const f32; R],
    /// The columns that the sums are added to, if any.
    pub(super) start: Option<[*const f32; R]>,
    /// The columns written.
    pub(super) out: [*mut f32; R],
}

/// Computes `columns <= C * LANES` columns of R rows. The steps of a piece of `right` follow those
/// of the piece before.
///
/// # Safety
///
/// For every row, `left` must be readable for as many floats as there are steps, `start` (if given)
/// readable and `out` writable for `columns` floats; `right` readable at each step for C vectors,
/// or for `columns` floats if `access` is `Cut`. `out` must overlap none of `left` and `right`, and
/// `start` only where it is the same row.
#[inline(always)]
pub(super) unsafe fn micro_kernel<S: Simd, const R: usize, const C: usize>(
    simd: S,
    right: &[Right],
    access: Access,
    rows: MicroTileRows<R>,
    columns: usize,
) {
    let mut sums = [[simd.splat(0.0); C]; R];
    let mut first = 0;
    for piece in right {
        let left = rows.left.map(|left| left.wrapping_add(first));
        let mut step = piece.start;
        for k in 0..piece.depth {
            let mut vectors = [simd.splat(0.0); C];
            for c in 0..C {
                let from = step.wrapping_add(c / 2 * piece.second + c % 2 * S::LANES);
                if access == Access::Streamed {
                    simd.prefetch(from.wrapping_add(piece.ahead));
                }
                // SAFETY: k < depth; the vector is whole, or cut to the readable columns. The
                // caller vouches for both.
                vectors[c] = unsafe {
                    match access {
                        Access::Cut => simd.load_first(from, lanes_of::<S>(c, columns)),
                        _ => simd.load(from),
                    }
                };
            }
            for r in 0..R {
                // SAFETY: k < depth, and the caller vouches for as many floats in each row as there
                // are steps.
                let x = simd.splat(unsafe { *left[r].add(k) });
                for c in 0..C {
                    sums[r][c] = simd.mul_add(x, vectors[c], sums[r][c]);
                }
            }
            step = step.wrapping_add(piece.step);
        }
        first += piece.depth;
    }
    // SAFETY: the caller vouches for `columns` floats in each row of `start` and `out`.
    unsafe {
        if columns == C * S::LANES {
            finish_whole(simd, sums, rows);
        } else {
            finish_cut(simd, sums, rows, columns);
        }
    }
}

/// Writes all vectors of the sums.
///
/// # Safety
///
/// As for [`micro_kernel`], with C whole vectors of columns.
#[inline(always)]
unsafe fn finish_whole<S: Simd, const R: usize, const C: usize>(
    simd: S,
    mut sums: [[S::Vector; C]; R],
    rows: MicroTileRows<R>,
) {
    if let Some(start) = rows.start {
        for r in 0..R {
            for c in 0..C {
                // SAFETY: vector c of C, which the caller vouches for.
                let before = unsafe { simd.load(start[r].add(c * S::LANES)) };
                sums[r][c] = simd.add(before, sums[r][c]);
            }
        }
    }
    for r in 0..R {
        for c in 0..C {
            // SAFETY: likewise.
            unsafe { simd.store(rows.out[r].add(c * S::LANES), sums[r][c]) };
        }
    }
}

/// Writes the first `columns` of the sums.
///
/// # Safety
///
/// As for [`micro_kernel`].
#[inline(always)]
unsafe fn finish_cut<S: Simd, const R: usize, const C: usize>(
    simd: S,
    sums: [[S::Vector; C]; R],
    rows: MicroTileRows<R>,
    columns: usize,
) {
    // A loop that is not unrolled indexes memory. Opaque, that is a copy of the sums; else the
    // product would write them there at every step.
    let copy;
    let sums = if S::MASKS {
        &sums
    } else {
        copy = black_box(sums);
        &copy
    };
    for r in 0..R {
        for c in 0..C {
            let (at, lanes) = (c * S::LANES, lanes_of::<S>(c, columns));
            if lanes > 0 {
                // SAFETY: at..at + lanes are below `columns`, which the caller vouches for in
                // `start` and `out`.
                unsafe {
                    let sum = match rows.start {
                        Some(start) => {
                            simd.add(simd.load_first(start[r].add(at), lanes), sums[r][c])
                        }
                        None => sums[r][c],
                    };
                    simd.store_first(rows.out[r].add(at), sum, lanes);
                }
            }
        }
    }
}

/// How many lanes of vector `c` are within `columns`.
#[inline(always)]
fn lanes_of<S: Simd>(c: usize, columns: usize) -> usize {
    columns.saturating_sub(c * S::LANES).min(S::LANES)
}
