//! Products of a batch of rows and a packed weight.

use std::{ops::Range, ptr};

use super::{
    blocking::{BLOCK, Pointers, blocks, even_parts, vectors_for},
    micro_kernel::{Access, Right},
    pack::PackedWeights,
    rows::{RowsMut, RowsRef},
    simd::{self, Kernel, Simd},
};

/// What a product is added to.
#[derive(Clone, Copy, Debug)]
pub enum Start<'a> {
    /// Nothing: `out = chain`.
    Nothing,
    /// What `out` holds: `out = out + chain`.
    Out,
    /// Rows computed before, as wide as the whole weight has outputs: `out = start + chain`.
    Rows(RowsRef<'a>),
}

/// The order in which the panels of a weight pass by. It changes no bit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Pass {
    /// The first panel first.
    #[default]
    Forwards,
    /// The last panel first. After a pass forwards it finds in the cache what that read last, where
    /// a weight is too large for the cache: a second pass forwards would find nothing.
    Backwards,
}

/// `out[b, n] = start[b, n] + Σ_k weights[n, k] · rows[b, k]` for the columns n of `panels`.
///
/// `rows` are (B, K), `out` (B, columns of the panels), row-major `f32`; the caller owns all of
/// them. The sum is one chain of fused multiply-adds over k from zero, and is then added to its
/// start: the bits of an output depend on its row and its column alone, whatever B, the panels, and
/// the way in which the rows lie. Infinities and NaN go through.
///
/// *Cost*: 2·B·K·N FLOPs near the core's peak from 4 rows on; a single row costs reading the
/// weight.
///
/// # Panics
///
/// If a row is shorter than K, or the numbers of rows or columns differ.
///
/// ```
/// use edbatch_runtime::kernels::{Level, PackedWeights, Pass, RowsRef, RowsMut, Start, product};
/// let weights = PackedWeights::new(Level::detect(), &[&[1.0, 2.0, 3.0, 4.0]], 2);
/// let rows = RowsRef::List { data: &[10.0, 100.0, 1.0], offsets: &[1, 0] };
/// let mut out = [0.0; 4];
/// product(&weights, 0..1, Pass::Forwards, &rows, &Start::Nothing, RowsMut::contiguous(&mut out, 2));
/// assert_eq!(out, [102.0, 304.0, 210.0, 430.0]);
/// ```
#[inline]
pub fn product(
    weights: &PackedWeights,
    panels: Range<usize>,
    pass: Pass,
    rows: &RowsRef<'_>,
    start: &Start<'_>,
    out: RowsMut<'_>,
) {
    let columns = weights.columns(panels.clone());
    assert_eq!(rows.len(), out.len(), "rows to read and to write");
    assert_eq!(columns.len(), out.width(), "columns of the panels and of the output");
    if let Start::Rows(start) = start {
        assert_eq!(start.len(), out.len(), "rows to start from and to write");
    }
    simd::run(weights.level(), &mut Product { weights, panels, pass, columns, rows, start, out });
}

/// Checked by [`product`]: as many rows in `rows`, `start` and `out`, and `columns` those of
/// `panels` and `out`.
struct Product<'a> {
    weights: &'a PackedWeights,
    panels: Range<usize>,
    pass: Pass,
    columns: Range<usize>,
    rows: &'a RowsRef<'a>,
    start: &'a Start<'a>,
    out: RowsMut<'a>,
}

/// Bytes of rows that stay in L2 beside a panel while the weight passes by.
const BLOCK_BYTES: usize = 512 << 10;

/// Rows of a block, however long.
const FEWEST_ROWS: usize = 24;

/// How far a weight is asked for before it is read, in floats: 4 KiB, and 16 KiB where it comes
/// from outside the caches and rows give the time.
const AHEAD: usize = 1 << 10;
const FAR_AHEAD: usize = 1 << 12;

/// So many rows read a panel several times, and keep the core busy while it comes.
const FEWEST_UNSTREAMED: usize = 9;

impl Kernel for &mut Product<'_> {
    type Output = ();

    /// ```text
    /// for each block of rows                look its pointers up
    ///     for each panel                        it stays in the cache, the rows pass by
    ///         for each half of it, or all of it
    ///             for each micro-tile of the block's rows
    ///                 micro-kernel
    /// ```
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let depth = self.weights.depth();
        let most_rows = (BLOCK_BYTES / size_of::<f32>() / depth).clamp(FEWEST_ROWS, BLOCK);
        let mut pointers = Pointers::new(!matches!(self.start, Start::Nothing));
        for block in even_parts(self.rows.len(), most_rows) {
            self.look_up(block, &mut pointers);
            let [step, second] = self.weights.strides();
            let paired = step < second;
            let widest = vectors_for::<S>(pointers.len(), paired);
            let ahead = match (paired, widest) {
                (true, 2) => FAR_AHEAD,
                _ if pointers.len() < FEWEST_UNSTREAMED => AHEAD,
                _ => 0,
            };
            for index in self.panels.clone() {
                let panel = match self.pass {
                    Pass::Forwards => index,
                    Pass::Backwards => self.panels.start + self.panels.end - 1 - index,
                };
                let columns = self.weights.columns(panel..panel + 1);
                let floats = self.weights.floats(panel..panel + 1);
                let at = columns.start - self.columns.start;
                for first in (0..columns.len()).step_by(widest * S::LANES) {
                    let width = (columns.len() - first).min(widest * S::LANES);
                    let part = first / S::LANES / 2 * second;
                    let start = floats[part..].as_ptr();
                    let right = &[Right { depth, start, step, second, ahead }];
                    let (access, at) = (Access::Streamed, at + first);
                    // SAFETY: `pointers` are of whole rows: `depth` floats to read, all columns of
                    // `self.columns` in start and out, of which at..at + width are meant here.
                    // `floats` holds two pairs of vectors at each of `depth` steps, of which those
                    // from `part` are at least as many as each arm takes. `out` is exclusively
                    // borrowed, so it overlaps nothing that is read.
                    unsafe {
                        match width.div_ceil(S::LANES) {
                            1 => blocks::<S, 1>(simd, right, access, &pointers, at, width),
                            2 => blocks::<S, 2>(simd, right, access, &pointers, at, width),
                            _ => blocks::<S, 4>(simd, right, access, &pointers, at, width),
                        }
                    }
                }
            }
        }
    }
}

impl Product<'_> {
    /// Replaces pointers by those of a block of at most [`BLOCK`] rows, each checked to have K
    /// floats and all columns.
    #[inline(always)]
    fn look_up(&mut self, block: Range<usize>, pointers: &mut Pointers) {
        pointers.clear();
        for b in block {
            let left = self.rows.row(b, self.weights.depth()).as_ptr();
            let out = self.out.row(b).as_mut_ptr();
            let start = match self.start {
                Start::Nothing => ptr::null(),
                Start::Out => out.cast_const(),
                Start::Rows(start) => start.row(b, self.columns.end)[self.columns.start..].as_ptr(),
            };
            pointers.push(left, start, out);
        }
    }
}
