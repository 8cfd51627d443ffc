//! A block of rows, cut into micro-tiles: what the products share.

use std::{mem::MaybeUninit, ops::Range};

use super::{
    micro_kernel::{Access, MicroTileRows, Right, micro_kernel},
    simd::Simd,
};

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
