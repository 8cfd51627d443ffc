//! Products of a batch of rows and a packed weight.

use std::{ops::Range, ptr};

use super::{
    bf16::RoundedRows,
    format::{Floats, Format, Halves, Pairs},
    micro_kernel::{Access, BLOCK, Pointers, Right, even_parts, micro_tiles, vectors_for},
    packed::PackedWeights,
    rows::{RowsMut, RowsRef},
    simd::{self, Kernel, Simd},
};
use crate::Precision;

/// The term that a product is added to.
#[derive(Clone, Copy, Debug)]
pub enum Start<'a> {
    /// None: `out = sum`.
    Nothing,
    /// The contents of the output: `out = out + sum`.
    Out,
    /// Other rows: `out = start + sum`. They have all N columns of the weight, even if only some
    /// panels are computed.
    Rows(RowsRef<'a>),
}

/// The order in which the panels of a weight are read. It does not affect the result.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Pass {
    /// First panel first.
    #[default]
    Forwards,
    /// Last panel first. If a weight is larger than the cache, alternate the passes: a backward
    /// pass finds the panels in the cache that the forward pass before it read last. A second
    /// forward pass would find no panel in the cache.
    Backwards,
}

/// `out[b, n] = start[b, n] + Σ_k weights[n, k] · rows[b, k]` for the columns n of `panels`.
///
/// `rows` is (B, K) and `out` is (B, columns of the panels); row-major `f32`. The sum is one chain
/// of fused multiply-adds over k that starts at zero; `start` is added last. So the bits of an
/// output depend only on its row and its column, not on B, on the panels, or on where the rows lie.
/// Infinities and NaN propagate.
///
/// *Cost*: 2·B·K·N FLOPs. With 4 rows or more the speed is near the core's peak. A single row
/// takes the time to read the weight.
///
/// # Panics
///
/// If a row is shorter than K, the numbers of rows differ, or `out` does not have the columns of
/// `panels`.
///
/// ```
/// use edbatch_runtime::kernels::{Level, PackedWeights, Pass, RowsRef, RowsMut, Start, product};
/// let weights = PackedWeights::new(Level::detect(), &[&[1.0, 2.0, 3.0, 4.0]], 2)?;
/// let rows = RowsRef::List { data: &[10.0, 100.0, 1.0], offsets: &[1, 0] };
/// let mut out = [0.0; 4];
/// let to = RowsMut::contiguous(&mut out, 2);
/// product(&weights, 0..1, Pass::Forwards, &rows, &Start::Nothing, to);
/// assert_eq!(out, [102.0, 304.0, 210.0, 430.0]);
/// # Ok::<(), edbatch_runtime::kernels::OutOfMemory>(())
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
    assert_eq!(weights.precision(), Precision::F32, "weights in bf16 need rounded rows");
    let mut product = Product::new(weights, panels, pass, rows, start, out);
    simd::run(weights.level(), Exact(&mut product));
}

/// Like [`product`], with weights in bf16 and rows that were rounded to it.
///
/// The sum is one chain of fused multiply-adds over pairs of terms, of each pair the second term
/// first; of an odd K the last term is first paired with a zero. At levels that fuse, the bits are
/// the same, unless a partial sum is below 2⁻¹²⁶ and not zero. `out` and `start` are `f32`.
///
/// *Cost*: at level `avx512-bf16` half of [`product`]'s, in bytes of weights everywhere.
///
/// # Panics
///
/// Like [`product`], or if the rows were rounded for another level or another K.
///
/// ```
/// use edbatch_runtime::Precision;
/// use edbatch_runtime::kernels::{
///     Level, PackedWeights, Pass, RoundedRows, RowsMut, RowsRef, Start, product_bf16,
/// };
/// let level = Level::detect();
/// let weights = [1.0, 2.0, 3.0, 4.0];
/// let weights = PackedWeights::with_precision(level, Precision::Bf16, &[&weights], 2)?;
/// let mut rows = RoundedRows::default();
/// rows.reserve(level, 1, 2)?;
/// // The nearest bf16 of 1.001 is 1.
/// rows.round(level, &RowsRef::Span { data: &[1.001, 10.0], stride: 2 }, 2);
/// let mut out = [0.0; 2];
/// let to = RowsMut::contiguous(&mut out, 2);
/// product_bf16(&weights, 0..1, Pass::Forwards, &rows, &Start::Nothing, to);
/// assert_eq!(out, [21.0, 43.0]);
/// # Ok::<(), edbatch_runtime::kernels::OutOfMemory>(())
/// ```
#[inline]
pub fn product_bf16(
    weights: &PackedWeights,
    panels: Range<usize>,
    pass: Pass,
    rows: &RoundedRows,
    start: &Start<'_>,
    out: RowsMut<'_>,
) {
    assert_eq!(weights.precision(), Precision::Bf16, "rounded rows need weights in bf16");
    let rows = rows.rows(weights.level(), weights.depth());
    let mut product = Product::new(weights, panels, pass, &rows, start, out);
    simd::run_pairs(weights.level(), Rounded(&mut product));
}

/// *Invariant*, checked by [`new`](Self::new): `rows`, `start` and `out` have the same number of
/// rows, and `columns` are the columns of `panels` and of `out`.
struct Product<'a> {
    weights: &'a PackedWeights,
    panels: Range<usize>,
    pass: Pass,
    columns: Range<usize>,
    rows: &'a RowsRef<'a>,
    start: &'a Start<'a>,
    out: RowsMut<'a>,
}

/// A product in `f32`. Kernels take products by reference: to move one that was just written
/// stalls.
struct Exact<'a, 'b>(&'a mut Product<'b>);

impl Kernel for Exact<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        self.0.run::<S, Floats>(simd);
    }
}

/// A product in bf16.
struct Rounded<'a, 'b>(&'a mut Product<'b>);

impl Kernel for Rounded<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        if S::PAIRS {
            self.0.run::<S, Pairs>(simd);
        } else {
            self.0.run::<S, Halves>(simd);
        }
    }
}

/// Bytes of input rows in a block. They stay in L2 together with a panel.
const BLOCK_BYTES: usize = 512 << 10;

/// Minimum number of rows of a block, even if the rows are long.
const MIN_BLOCK_ROWS: usize = 24;

/// Prefetch distance in floats: 4 KiB.
const PREFETCH: usize = 1 << 10;

/// Prefetch distance in floats, 16 KiB, for weights outside L2 that are read for enough rows to
/// hide the latency.
const FAR_PREFETCH: usize = 1 << 12;

/// From this number of rows on, weights in L2 are not prefetched: every panel is read several
/// times, and the arithmetic hides the latency.
const ROWS_WITHOUT_PREFETCH: usize = 9;

impl<'a> Product<'a> {
    #[inline]
    fn new(
        weights: &'a PackedWeights,
        panels: Range<usize>,
        pass: Pass,
        rows: &'a RowsRef<'a>,
        start: &'a Start<'a>,
        out: RowsMut<'a>,
    ) -> Self {
        let columns = weights.columns(panels.clone());
        assert_eq!(rows.len(), out.len(), "rows of the input and of the output");
        assert_eq!(columns.len(), out.width(), "columns of the panels and of the output");
        if let Start::Rows(start) = start {
            assert_eq!(start.len(), out.len(), "rows of the start and of the output");
        }
        Self { weights, panels, pass, columns, rows, start, out }
    }

    /// ```text
    /// for each block of rows                collect the pointers to its rows
    ///     for each panel                        stays in the cache for all rows of the block
    ///         for each half of it, or all of it
    ///             for each micro-tile of the block's rows
    ///                 micro-kernel
    /// ```
    #[inline(always)]
    fn run<S: Simd, F: Format>(&mut self, simd: S) {
        let depth = self.weights.steps();
        let row_floats = depth * F::PASSES;
        let max_rows = (BLOCK_BYTES / size_of::<f32>() / row_floats).clamp(MIN_BLOCK_ROWS, BLOCK);
        let mut pointers = Pointers::new(!matches!(self.start, Start::Nothing));
        for block in even_parts(self.rows.len(), max_rows) {
            self.collect(block, row_floats, &mut pointers);
            let [step, second] = self.weights.strides();
            let paired = step < second;
            let wide = step == 4 * second;
            let widest = vectors_for::<S, F>(pointers.len(), paired, wide);
            let prefetch = match (paired, widest) {
                (true, 2) => FAR_PREFETCH,
                _ if pointers.len() < ROWS_WITHOUT_PREFETCH => PREFETCH,
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
                    let right = &[Right { depth, start, step, second, prefetch }];
                    let (access, at) = (Access::Prefetched, at + first);
                    // SAFETY: by `collect`, each row has F::PASSES floats for each of `depth` steps
                    // in `left`, and all of `self.columns` in `start` and `out`; at + width <=
                    // self.columns.len(). `floats` has two pairs of vectors, or four if it is wide,
                    // at each of `depth` steps. From `part` on these are at least the 1, 2, 4 or 8
                    // vectors that the arm reads. `out` is borrowed exclusively, so it overlaps
                    // nothing that is read.
                    unsafe {
                        match width.div_ceil(S::LANES) {
                            1 => micro_tiles::<S, F, 1>(simd, right, access, &pointers, at, width),
                            2 => micro_tiles::<S, F, 2>(simd, right, access, &pointers, at, width),
                            // Only weights for pairs are wide.
                            5.. if S::PAIRS => {
                                micro_tiles::<S, F, 8>(simd, right, access, &pointers, at, width);
                            }
                            _ => micro_tiles::<S, F, 4>(simd, right, access, &pointers, at, width),
                        }
                    }
                }
            }
        }
    }

    /// Collects the pointers to a block of at most [`BLOCK`] rows. Checks that each input row has
    /// `floats` floats, and that each row of `start` has all columns.
    #[inline(always)]
    fn collect(&mut self, block: Range<usize>, floats: usize, pointers: &mut Pointers) {
        pointers.clear();
        for b in block {
            let left = self.rows.row(b, floats).as_ptr();
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
