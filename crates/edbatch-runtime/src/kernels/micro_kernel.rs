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
//! side by the R rows. A block of rows is cut into micro-tiles, the fewest that the registers
//! allow: what the products share.

// The loops name rows r and columns c as the formula does; an iterator per array would hide it.
#![allow(clippy::needless_range_loop)]

use std::{hint::black_box, mem::MaybeUninit, ops::Range};

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

/// The most rows whose pointers are looked up together.
pub(super) const BLOCK: usize = 256;

/// Pointers to the first floats of the rows of a block. Large, so it is made once and never moved.
///
/// *Invariant*: the first `count` of `left` and `out` are written, and those of `start` if
/// `starts`.
pub(super) struct Pointers {
    count: usize,
    starts: bool,
    left: [MaybeUninit<*const f32>; BLOCK],
    start: [MaybeUninit<*const f32>; BLOCK],
    out: [MaybeUninit<*mut f32>; BLOCK],
}

impl Pointers {
    /// No rows; with `starts`, rows that are added to something.
    #[inline(always)]
    pub(super) fn new(starts: bool) -> Pointers {
        Pointers {
            count: 0,
            starts,
            left: [const { MaybeUninit::uninit() }; BLOCK],
            start: [const { MaybeUninit::uninit() }; BLOCK],
            out: [const { MaybeUninit::uninit() }; BLOCK],
        }
    }

    /// No rows again.
    #[inline(always)]
    pub(super) fn clear(&mut self) {
        self.count = 0;
    }

    /// Another row. `start` counts only where there are starts.
    ///
    /// # Panics
    ///
    /// If there are [`BLOCK`] already.
    #[inline(always)]
    pub(super) fn push(&mut self, left: *const f32, start: *const f32, out: *mut f32) {
        self.left[self.count].write(left);
        self.start[self.count].write(start);
        self.out[self.count].write(out);
        self.count += 1;
    }

    /// The number of rows.
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// The pointers of R rows from `first`, moved to column `at`.
    #[inline(always)]
    fn micro_tile<const R: usize>(&self, first: usize, at: usize) -> MicroTileRows<R> {
        assert!(first + R <= self.count, "rows {first}.. of {}", self.count);
        // SAFETY: rows below `count` are written, by the invariant.
        unsafe {
            MicroTileRows {
                left: std::array::from_fn(|r| self.left[first + r].assume_init()),
                start: self.starts.then(|| {
                    std::array::from_fn(|r| self.start[first + r].assume_init().wrapping_add(at))
                }),
                out: std::array::from_fn(|r| self.out[first + r].assume_init().wrapping_add(at)),
            }
        }
    }
}

/// All micro-tiles of a block of rows against C vectors of columns, which start at column `at` of
/// `start` and `out`.
///
/// # Safety
///
/// As for [`micro_kernel`], for each of the rows.
#[inline(always)]
pub(super) unsafe fn blocks<S: Simd, const C: usize>(
    simd: S,
    right: &[Right],
    access: Access,
    pointers: &Pointers,
    at: usize,
    columns: usize,
) {
    macro_rules! tiles_of {
        ($rows:expr, $starts:expr; $($count:literal)*) => {
            match $rows {
                $($count => if const { $count <= max_rows::<S>(C) } {
                    for first in $starts.step_by($count) {
                        let rows = pointers.micro_tile::<$count>(first, at);
                        // Fewer rows wait for the memory anyway, and asking would only slow it
                        // down.
                        let access = match access {
                            Access::Streamed if $count < 4 => Access::Whole,
                            access => access,
                        };
                        // SAFETY: the caller vouches for all rows and for `right`.
                        unsafe { micro_kernel::<S, $count, C>(simd, right, access, rows, columns) };
                    }
                },)*
                _ => unreachable!("a micro-tile of {} rows by {C} vectors", $rows),
            }
        };
    }
    // Some micro-tiles of one row more than the others.
    let parts = pointers.count.div_ceil(max_rows::<S>(C)).max(1);
    let (fewer, larger) = (pointers.count / parts, pointers.count % parts);
    let cut = larger * (fewer + 1);
    for (rows, range) in [(fewer + 1, 0..cut), (fewer, cut..pointers.count)] {
        if !range.is_empty() {
            tiles_of!(rows, range; 1 2 3 4 5 6 7 8 9 10 11 12);
        }
    }
}

/// The most rows of a micro-tile with C vectors of columns: R·C sums, C vectors and a broadcast
/// must fit into the registers, and the pointers to the rows into those for addresses.
const fn max_rows<S: Simd>(c: usize) -> usize {
    match (S::REGISTERS - 1 - c) / c {
        9.. => 8,
        rows => rows,
    }
}

/// How many vectors of columns suit a block of so many rows: the fewer rows, the more columns it
/// takes to have eight sums. Rows that just fit into one micro-tile read the right side once;
/// micro-tiles of many rows are better square. If the right side comes from afar in pairs of
/// vectors, `paired`, a micro-tile reads one pair as soon as that has enough sums.
#[inline(always)]
pub(super) fn vectors_for<S: Simd>(rows: usize, paired: bool) -> usize {
    let alone = if paired { 4 } else { max_rows::<S>(4) };
    let many = rows > max_rows::<S>(2) && S::REGISTERS >= 32 && !paired;
    if rows <= alone.min(max_rows::<S>(4)) || many { 4 } else { 2 }
}

/// Divides 0..count into as few parts as `most` a part allows, which differ by at most one.
#[inline(always)]
pub(super) fn even_parts(count: usize, most: usize) -> impl Iterator<Item = Range<usize>> {
    let parts = count.div_ceil(most);
    (0..parts).map(move |i| i * count / parts..(i + 1) * count / parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_even_and_cover_everything() {
        let parts: Vec<_> = even_parts(13, 12).collect();
        assert_eq!(parts, [0..6, 6..13]);
        assert_eq!(even_parts(0, 12).count(), 0);
        assert_eq!(even_parts(256, 12).map(|part| part.len()).sum::<usize>(), 256);
    }
}
