//! The micro-kernel of every product. It computes a micro-tile of R rows by C vectors of columns
//! in registers.
//!
//! ```text
//! sum[r][c] = 0
//! for k in 0..depth                           one chain of fused multiply-adds per output
//!     sum[r][c] += left[r][k] * right[k][c]   left: a float, broadcast; right: a vector
//! out[r][c] = sum[r][c]                       or start[r][c] + sum[r][c]
//! ```
//!
//! With factors in bf16, a step is a pair of terms ([`Format`]).
//!
//! An output's chain is the same in a micro-tile of any shape, so results do not depend on the
//! number of rows. A core starts two multiply-adds per cycle, each with a latency of four cycles,
//! so a micro-tile needs eight sums to keep it busy. The C vectors share each broadcast float, and
//! the R rows share each vector of the right side. With more rows in a micro-tile, the right side
//! is read less often. So a block of rows is cut into the smallest number of micro-tiles that the
//! registers allow.

// Loops over the indices r and c follow the formula; iterators would hide it.
#![allow(clippy::needless_range_loop)]

use std::{hint::black_box, mem::MaybeUninit, ops::Range};

use super::{format::Format, simd::Simd};

/// The right factor of a product, or some of its consecutive rows. Each step of the sum reads
/// vectors of columns from one row.
#[derive(Clone, Copy)]
pub(super) struct Right {
    /// The number of steps.
    pub(super) depth: usize,
    /// Pointer to the micro-tile's first column at step 0.
    pub(super) start: *const f32,
    /// Distance in floats from a step to the next.
    pub(super) step: usize,
    /// Distance in floats from the first pair of vectors to the second, within a step.
    pub(super) second: usize,
    /// Distance in floats from the place that is read to the place that is prefetched.
    pub(super) prefetch: usize,
}

/// How the vectors of the right side are read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// All C vectors are readable at every step.
    Full,
    /// Like `Full`, with prefetches.
    Prefetched,
    /// Only the micro-tile's columns are readable.
    Partial,
}

/// Pointers to the first floats of a micro-tile's rows.
#[derive(Clone, Copy)]
pub(super) struct MicroTileRows<const R: usize> {
    /// The rows of the left factor: one or two floats for each step.
    pub(super) left: [*const f32; R],
    /// The terms that the sums are added to, if any.
    pub(super) start: Option<[*const f32; R]>,
    /// The output columns.
    pub(super) out: [*mut f32; R],
}

/// Computes `columns <= C * LANES` columns of R rows. The pieces of `right` follow each other:
/// their depths add up to the number of steps.
///
/// # Safety
///
/// For every row, `left` must be readable for F::PASSES floats per step, `start` (if any) readable
/// and `out` writable for `columns` floats. At every step, `right` must be readable for C vectors,
/// or for `columns` floats if `access` is `Partial`. `out` must not overlap `left` or `right`. It
/// may overlap `start` only in the same row.
#[inline(always)]
pub(super) unsafe fn micro_kernel<S: Simd, F: Format, const R: usize, const C: usize>(
    simd: S,
    right: &[Right],
    access: Access,
    rows: MicroTileRows<R>,
    columns: usize,
) {
    let mut sums = [[simd.splat(0.0); C]; R];
    let mut first = 0;
    for piece in right {
        let left = rows.left.map(|left| left.wrapping_add(first * F::PASSES));
        let mut step = piece.start;
        for k in 0..piece.depth {
            for pass in 0..F::PASSES {
                if pass > 0 && R * C + F::PASSES * (C + 1) > S::REGISTERS {
                    step = opaque(step);
                }
                let mut factors = [simd.splat(0.0); C];
                for c in 0..C {
                    let from = step.wrapping_add(c / 2 * piece.second + c % 2 * S::LANES);
                    if access == Access::Prefetched && pass == 0 {
                        simd.prefetch(from.wrapping_add(piece.prefetch));
                    }
                    // SAFETY: k < depth, and the caller guarantees a full vector at each step, or
                    // `columns` floats if the access is partial.
                    let vector = unsafe {
                        match access {
                            Access::Partial => simd.load_first(from, lanes_of::<S>(c, columns)),
                            _ => simd.load(from),
                        }
                    };
                    factors[c] = F::factors(simd, vector, pass);
                }
                // The second term of a pair is added first.
                let term = (k + 1) * F::PASSES - 1 - pass;
                for r in 0..R {
                    // SAFETY: first + k is below the number of steps, and the caller guarantees
                    // F::PASSES floats for each of them in each row.
                    let x = simd.splat(unsafe { *left[r].add(term) });
                    for c in 0..C {
                        sums[r][c] = F::mul_add(simd, x, factors[c], sums[r][c]);
                    }
                }
            }
            step = step.wrapping_add(piece.step);
        }
        first += piece.depth;
    }
    // SAFETY: the caller guarantees `columns` floats in each row of `start` and `out`.
    unsafe {
        if columns == C * S::LANES {
            write_full(simd, sums, rows);
        } else {
            write_partial(simd, sums, rows, columns);
        }
    }
}

/// Hides the value of a pointer from the compiler. So a second pass loads its vectors again, from
/// the L1 cache, where the registers cannot hold them beside the sums.
#[inline(always)]
#[cfg(all(not(miri), any(target_arch = "x86_64", target_arch = "aarch64")))]
#[expect(clippy::pointers_in_nomem_asm_block, reason = "the block does not use the memory")]
fn opaque(mut from: *const f32) -> *const f32 {
    use std::arch::asm;

    // SAFETY: a comment, no instruction.
    unsafe { asm!("/* {} */", inout(reg) from, options(pure, nomem, nostack, preserves_flags)) };
    from
}

/// Only the speed depends on it.
#[inline(always)]
#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
fn opaque(from: *const f32) -> *const f32 {
    from
}

/// Writes all C vectors of the sums.
///
/// # Safety
///
/// As for [`micro_kernel`], with `columns = C * LANES`.
#[inline(always)]
unsafe fn write_full<S: Simd, const R: usize, const C: usize>(
    simd: S,
    mut sums: [[S::Vector; C]; R],
    rows: MicroTileRows<R>,
) {
    if let Some(start) = rows.start {
        for r in 0..R {
            for c in 0..C {
                // SAFETY: c < C, and the caller guarantees C vectors.
                let before = unsafe { simd.load(start[r].add(c * S::LANES)) };
                sums[r][c] = simd.add(before, sums[r][c]);
            }
        }
    }
    for r in 0..R {
        for c in 0..C {
            // SAFETY: c < C, and the caller guarantees C vectors.
            unsafe { simd.store(rows.out[r].add(c * S::LANES), sums[r][c]) };
        }
    }
}

/// Writes the first `columns` columns of the sums.
///
/// # Safety
///
/// As for [`micro_kernel`].
#[inline(always)]
unsafe fn write_partial<S: Simd, const R: usize, const C: usize>(
    simd: S,
    sums: [[S::Vector; C]; R],
    rows: MicroTileRows<R>,
    columns: usize,
) {
    // Without masks this loop is not unrolled, so it indexes the sums in memory. `black_box`
    // copies them for it. Without the copy, the main loop would write the sums to memory at every
    // step.
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
                // SAFETY: at + lanes <= columns, and the caller guarantees `columns` floats in
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

/// Returns the number of lanes of vector `c` that belong to the first `columns` columns.
#[inline(always)]
fn lanes_of<S: Simd>(c: usize, columns: usize) -> usize {
    columns.saturating_sub(c * S::LANES).min(S::LANES)
}

/// Maximum number of rows of a block.
pub(super) const BLOCK: usize = 256;

/// Pointers to the first floats of the rows of a block. Large, so create it once and do not move
/// it.
///
/// *Invariant*: the first `count` pointers of `left`, `start` and `out` are initialized.
pub(super) struct Pointers {
    count: usize,
    has_start: bool,
    left: [MaybeUninit<*const f32>; BLOCK],
    start: [MaybeUninit<*const f32>; BLOCK],
    out: [MaybeUninit<*mut f32>; BLOCK],
}

impl Pointers {
    /// Creates an empty block. If `has_start`, the sums are added to the rows of the `start`
    /// pointers.
    #[inline(always)]
    pub(super) fn new(has_start: bool) -> Pointers {
        Pointers {
            count: 0,
            has_start,
            left: [const { MaybeUninit::uninit() }; BLOCK],
            start: [const { MaybeUninit::uninit() }; BLOCK],
            out: [const { MaybeUninit::uninit() }; BLOCK],
        }
    }

    /// Removes all rows.
    #[inline(always)]
    pub(super) fn clear(&mut self) {
        self.count = 0;
    }

    /// Adds a row. `start` is ignored if the block was created without `has_start`.
    ///
    /// # Panics
    ///
    /// If the block has [`BLOCK`] rows already.
    #[inline(always)]
    pub(super) fn push(&mut self, left: *const f32, start: *const f32, out: *mut f32) {
        self.left[self.count].write(left);
        self.start[self.count].write(start);
        self.out[self.count].write(out);
        self.count += 1;
    }

    /// Returns the number of rows.
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Returns the pointers of the R rows from `first` on; `start` and `out` point to column `at`.
    #[inline(always)]
    fn micro_tile<const R: usize>(&self, first: usize, at: usize) -> MicroTileRows<R> {
        assert!(first + R <= self.count, "rows {first}.. of {}", self.count);
        // SAFETY: first + R <= count, and the pointers below `count` are initialized.
        unsafe {
            MicroTileRows {
                left: std::array::from_fn(|r| self.left[first + r].assume_init()),
                start: self.has_start.then(|| {
                    std::array::from_fn(|r| self.start[first + r].assume_init().wrapping_add(at))
                }),
                out: std::array::from_fn(|r| self.out[first + r].assume_init().wrapping_add(at)),
            }
        }
    }
}

/// Computes a block of rows, micro-tile by micro-tile: `columns <= C * LANES` columns, from column
/// `at` of `start` and `out` on.
///
/// # Safety
///
/// As for [`micro_kernel`], for every row of the block.
#[inline(always)]
pub(super) unsafe fn micro_tiles<S: Simd, F: Format, const C: usize>(
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
                $($count => if const { $count <= max_rows::<S, F>(C) } {
                    for first in $starts.step_by($count) {
                        let rows = pointers.micro_tile::<$count>(first, at);
                        // With fewer than 4 rows, memory is the bottleneck, and prefetches only
                        // slow it down.
                        let access = match access {
                            Access::Prefetched if $count < 4 => Access::Full,
                            access => access,
                        };
                        // SAFETY: the caller guarantees all rows and `right`.
                        unsafe {
                            micro_kernel::<S, F, $count, C>(simd, right, access, rows, columns);
                        }
                    }
                },)*
                _ => unreachable!("a micro-tile of {} rows by {C} vectors", $rows),
            }
        };
    }
    // Divide the rows evenly: some micro-tiles have one row more than the others.
    let parts = pointers.count.div_ceil(max_rows::<S, F>(C)).max(1);
    let (fewer, larger) = (pointers.count / parts, pointers.count % parts);
    let cut = larger * (fewer + 1);
    for (rows, range) in [(fewer + 1, 0..cut), (fewer, cut..pointers.count)] {
        if !range.is_empty() {
            tiles_of!(rows, range; 1 2 3 4 5 6 7 8 9 10 11 12);
        }
    }
}

/// Returns the maximum number of rows of a micro-tile with `c` vectors of columns. R·c sums, c
/// vectors and a broadcast must fit into the vector registers, and the row pointers into the
/// general registers. With two passes, a mask is in a register, too.
const fn max_rows<S: Simd, F: Format>(c: usize) -> usize {
    match (S::REGISTERS - F::PASSES - c) / c {
        9.. => 8,
        rows => rows,
    }
}

/// Returns the number C of vectors of columns for micro-tiles of a block of `rows` rows.
///
/// The fewer rows, the more columns are needed for eight sums. Rows that fit into one micro-tile
/// read the right side once. Micro-tiles of many rows are best nearly square. If the right side is
/// `paired` (a weight larger than L2), 5 rows or more read one pair of vectors at a time. If it has
/// `wide` panels, one or two rows read eight vectors: pairs of bf16 need more sums, since their
/// instruction takes six cycles.
#[inline(always)]
pub(super) fn vectors_for<S: Simd, F: Format>(rows: usize, paired: bool, wide: bool) -> usize {
    let single_tile = if paired { 4 } else { max_rows::<S, F>(4) };
    let many = rows > max_rows::<S, F>(2) && S::REGISTERS >= 32 && !paired;
    match rows {
        0..=2 if wide => 8,
        _ if rows <= single_tile.min(max_rows::<S, F>(4)) || many => 4,
        _ => 2,
    }
}

/// Divides `0..count` into the smallest number of parts of at most `max` each, whose lengths differ
/// by at most one.
#[inline(always)]
pub(super) fn even_parts(count: usize, max: usize) -> impl Iterator<Item = Range<usize>> {
    let parts = count.div_ceil(max);
    (0..parts).map(move |i| i * count / parts..(i + 1) * count / parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn even_parts_cover_the_range() {
        let parts: Vec<_> = even_parts(13, 12).collect();
        assert_eq!(parts, [0..6, 6..13]);
        assert_eq!(even_parts(0, 12).count(), 0);
        assert_eq!(even_parts(256, 12).map(|part| part.len()).sum::<usize>(), 256);
    }
}
