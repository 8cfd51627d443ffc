//! Products of a batch of rows and a packed weight.

use std::{ops::Range, ptr};

use super::{
    pack::PackedWeights,
    rows::{Rows, RowsMut},
    simd::{self, Kernel, Simd},
    tile::{Right, TileRows, tile},
};

/// What a product is added to.
#[derive(Clone, Copy, Debug)]
pub enum Start<'a> {
    /// Nothing: `out = chain`.
    Nothing,
    /// What `out` holds: `out = out + chain`.
    Out,
    /// Rows computed before, as wide as the whole weight has outputs: `out = start + chain`.
    Rows(Rows<'a>),
}

/// `out[b, n] = start[b, n] + Σ_k weights[n, k] · rows[b, k]` for the columns n of `panels`.
///
/// `rows` are (B, K), `out` (B, columns of the panels), row-major `f32`; the caller owns all of them. The sum is one chain
/// of fused multiply-adds over k from zero, and is then added to its start: the bits of an output depend on its row and
/// its column alone, whatever B, the panels, and the way in which the rows lie. Infinities and NaN go through.
///
/// *Cost*: 2·B·K·N FLOPs near the core's peak from 4 rows on; a single row costs reading the weight.
///
/// # Panics
///
/// If a row is shorter than K, or the numbers of rows or columns differ.
///
/// ```
/// use edbatch_runtime::kernels::{Level, PackedWeights, Rows, RowsMut, Start, product};
/// let weights = PackedWeights::new(Level::detect(), &[&[1.0, 2.0, 3.0, 4.0]], 2);
/// let rows = Rows::List { data: &[10.0, 100.0, 1.0], offsets: &[1, 0] };
/// let mut out = [0.0; 4];
/// product(&weights, 0..1, rows, Start::Nothing, RowsMut::contiguous(&mut out, 2));
/// assert_eq!(out, [102.0, 304.0, 210.0, 430.0]);
/// ```
pub fn product(
    weights: &PackedWeights,
    panels: Range<usize>,
    rows: Rows<'_>,
    start: Start<'_>,
    out: RowsMut<'_>,
) {
    let columns = weights.columns(panels.clone());
    assert_eq!(rows.len(), out.len(), "rows to read and to write");
    assert_eq!(columns.len(), out.width(), "columns of the panels and of the output");
    if let Start::Rows(start) = start {
        assert_eq!(start.len(), out.len(), "rows to start from and to write");
    }
    simd::run(weights.level(), Product { weights, panels, columns, rows, start, out });
}

/// Checked by [`product`]: as many rows in `rows`, `start` and `out`, and `columns` those of `panels` and `out`.
struct Product<'a> {
    weights: &'a PackedWeights,
    panels: Range<usize>,
    columns: Range<usize>,
    rows: Rows<'a>,
    start: Start<'a>,
    out: RowsMut<'a>,
}

/// Rows whose pointers are looked up together, once for all panels.
pub(super) const BLOCK: usize = 256;

/// Bytes of rows that stay in L2 beside a group of panels while the weight passes by.
const BLOCK_BYTES: usize = 512 << 10;

impl Kernel for Product<'_> {
    type Output = ();

    /// ```text
    /// for each block of rows                look its pointers up
    ///     for each group of 1, 2 or 4 panels    a few panels stay in L2, the rows pass by
    ///         for each tile of the block's rows
    ///             tile
    /// ```
    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        let depth = self.weights.depth();
        let most_rows = (BLOCK_BYTES / size_of::<f32>() / depth).clamp(2 * max_rows::<S>(2), BLOCK);
        for block in even_parts(self.rows.len(), most_rows) {
            let pointers = self.pointers(block.clone());
            let widest = widest_group::<S>(pointers.count);
            let mut panel = self.panels.start;
            while panel < self.panels.end {
                let group = widest.min(floor_power_of_two(self.panels.end - panel));
                let columns = self.weights.columns(panel..panel + group);
                let floats = self.weights.floats(panel..panel + group);
                let right = Right {
                    start: floats.as_ptr(),
                    step: 2 * S::LANES,
                    pair: 2 * S::LANES * depth,
                };
                let at = columns.start - self.columns.start;
                // SAFETY: `pointers` are of whole rows: `depth` floats to read, all columns of `self.columns` in start and
                // out, of which at..at + columns.len() are the group's. `floats` holds `depth` steps of two vectors for
                // each panel of the group. `out` is exclusively borrowed, so it overlaps nothing that is read.
                unsafe {
                    match group {
                        1 => tiles::<S, 2, true>(simd, depth, right, &pointers, at, columns.len()),
                        2 => tiles::<S, 4, true>(simd, depth, right, &pointers, at, columns.len()),
                        _ => tiles::<S, 8, true>(simd, depth, right, &pointers, at, columns.len()),
                    }
                }
                panel += group;
            }
        }
    }
}

impl Product<'_> {
    /// The pointers of a block of at most [`BLOCK`] rows, each checked to have K floats and all columns.
    #[inline(always)]
    fn pointers(&mut self, block: Range<usize>) -> Pointers {
        let mut pointers = Pointers {
            count: block.len(),
            left: [ptr::null(); BLOCK],
            start: [ptr::null(); BLOCK],
            out: [ptr::null_mut(); BLOCK],
            starts: !matches!(self.start, Start::Nothing),
        };
        for (i, b) in block.enumerate() {
            pointers.left[i] = self.rows.row(b, self.weights.depth()).as_ptr();
            pointers.out[i] = self.out.row(b).as_mut_ptr();
            pointers.start[i] = match self.start {
                Start::Nothing => ptr::null(),
                Start::Out => pointers.out[i],
                Start::Rows(start) => start.row(b, self.columns.end)[self.columns.start..].as_ptr(),
            };
        }
        pointers
    }
}

/// Pointers to the first float of rows 0..count.
pub(super) struct Pointers {
    pub(super) count: usize,
    pub(super) left: [*const f32; BLOCK],
    pub(super) start: [*const f32; BLOCK],
    pub(super) out: [*mut f32; BLOCK],
    /// Whether `start` counts.
    pub(super) starts: bool,
}

/// All tiles of a block of rows against C vectors of columns, which start at column `at` of `start` and `out`.
///
/// # Safety
///
/// As for [`tile`], for each of the `count` rows.
#[inline(always)]
pub(super) unsafe fn tiles<S: Simd, const C: usize, const WHOLE: bool>(
    simd: S,
    depth: usize,
    right: Right,
    pointers: &Pointers,
    at: usize,
    columns: usize,
) {
    macro_rules! tile_of {
        ($rows:expr; $($count:literal)*) => {
            match $rows.len() {
                $($count => if const { $count <= max_rows::<S>(C) } {
                    // SAFETY: the rows are below `count`; the caller vouches for them and for `right`.
                    unsafe {
                        let rows = pointers.tile::<$count>($rows.start, at);
                        tile::<S, $count, C, WHOLE>(simd, depth, right, rows, columns)
                    }
                },)*
                _ => unreachable!("a tile of {} rows by {C} vectors", $rows.len()),
            }
        };
    }
    for rows in even_parts(pointers.count, max_rows::<S>(C)) {
        tile_of!(rows; 1 2 3 4 5 6 7 8 9 10 11 12);
    }
}

impl Pointers {
    /// The pointers of R rows from `first`, moved to column `at`.
    #[inline(always)]
    fn tile<const R: usize>(&self, first: usize, at: usize) -> TileRows<R> {
        let (mut left, mut start, mut out) =
            ([ptr::null(); R], [ptr::null(); R], [ptr::null_mut(); R]);
        left.copy_from_slice(&self.left[first..first + R]);
        #[allow(clippy::needless_range_loop)]
        for r in 0..R {
            start[r] = self.start[first + r].wrapping_add(at);
            out[r] = self.out[first + r].wrapping_add(at);
        }
        TileRows { left, start: self.starts.then_some(start), out }
    }
}

/// The most rows of a tile with C vectors of columns: R·C sums, C vectors and a broadcast must fit into the registers.
const fn max_rows<S: Simd>(c: usize) -> usize {
    match (S::REGISTERS - 1 - c) / c {
        // A lone row needs no vector of the right side in a register: it multiplies from memory.
        0 => 1,
        13.. => 12,
        rows => rows,
    }
}

/// How many panels (1, 2 or 4) are taken together for `rows` rows. The fewer rows, the more columns it takes to have eight
/// sums. Rows that fit into one tile read each panel once; tiles of many rows are better square.
#[inline(always)]
fn widest_group<S: Simd>(rows: usize) -> usize {
    if rows <= max_rows::<S>(8) {
        4
    } else if rows <= max_rows::<S>(4) || rows > max_rows::<S>(2) {
        2
    } else {
        1
    }
}

/// The largest power of two that is not above `n >= 1`.
#[inline(always)]
fn floor_power_of_two(n: usize) -> usize {
    1 << n.ilog2()
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
