//! Products of a batch of rows and a packed weight.

use std::{ops::Range, ptr};

use super::{
    isa::Level,
    memory::{Aligned, Line, OutOfMemory},
    micro_kernel::{Access, BLOCK, Pointers, Right, even_parts, micro_tiles, vectors_for},
    rows::{RowsMut, RowsRef},
    simd::{self, Kernel, Simd},
};

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
    let columns = weights.columns(panels.clone());
    assert_eq!(rows.len(), out.len(), "rows of the input and of the output");
    assert_eq!(columns.len(), out.width(), "columns of the panels and of the output");
    if let Start::Rows(start) = start {
        assert_eq!(start.len(), out.len(), "rows of the start and of the output");
    }
    simd::run(weights.level(), &mut Product { weights, panels, pass, columns, rows, start, out });
}

/// *Invariant*, checked by [`product`]: `rows`, `start` and `out` have the same number of rows, and
/// `columns` are the columns of `panels` and of `out`.
struct Product<'a> {
    weights: &'a PackedWeights,
    panels: Range<usize>,
    pass: Pass,
    columns: Range<usize>,
    rows: &'a RowsRef<'a>,
    start: &'a Start<'a>,
    out: RowsMut<'a>,
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

impl Kernel for &mut Product<'_> {
    type Output = ();

    /// ```text
    /// for each block of rows                collect the pointers to its rows
    ///     for each panel                        stays in the cache for all rows of the block
    ///         for each half of it, or all of it
    ///             for each micro-tile of the block's rows
    ///                 micro-kernel
    /// ```
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let depth = self.weights.depth();
        let max_rows = (BLOCK_BYTES / size_of::<f32>() / depth).clamp(MIN_BLOCK_ROWS, BLOCK);
        let mut pointers = Pointers::new(!matches!(self.start, Start::Nothing));
        for block in even_parts(self.rows.len(), max_rows) {
            self.collect(block, &mut pointers);
            let [step, second] = self.weights.strides;
            let paired = step < second;
            let widest = vectors_for::<S>(pointers.len(), paired);
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
                    // SAFETY: by `collect`, each row has `depth` floats in `left`, and all of
                    // `self.columns` in `start` and `out`; at + width <= self.columns.len().
                    // `floats` has two pairs of vectors at each of `depth` steps. From `part` on
                    // these are at least the 1, 2 or 4 vectors that the arm reads. `out` is
                    // borrowed exclusively, so it overlaps nothing that is read.
                    unsafe {
                        match width.div_ceil(S::LANES) {
                            1 => micro_tiles::<S, 1>(simd, right, access, &pointers, at, width),
                            2 => micro_tiles::<S, 2>(simd, right, access, &pointers, at, width),
                            _ => micro_tiles::<S, 4>(simd, right, access, &pointers, at, width),
                        }
                    }
                }
            }
        }
    }
}

impl Product<'_> {
    /// Collects the pointers to a block of at most [`BLOCK`] rows. Checks that each input row has K
    /// floats, and that each row of `start` has all columns.
    #[inline(always)]
    fn collect(&mut self, block: Range<usize>, pointers: &mut Pointers) {
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

/// A weight of N outputs by K inputs, packed once at load.
///
/// ```text
/// panel p, step k:   w[p·P + 0, k]  w[p·P + 1, k]  …  w[p·P + P-1, k]    P = 4 vectors of a level
/// ```
///
/// A panel is contiguous, K steps long, and read from front to back by each micro-tile of rows. A
/// single row reads it as one stream, the fastest access to the L2 cache: more and narrower panels
/// side by side were a third slower. Weights of 1 MiB or more do not fit into L2. Their panels
/// hold the first half of every step, then the second half of every step: more than 4 rows read
/// one half at a time, and gaps are slow outside L2. Columns from N on are zeros.
///
/// *Cost*: 4·K·⌈N / P⌉·P bytes; packing reads the weight once.
#[derive(Debug)]
pub struct PackedWeights {
    level: Level,
    outputs: usize,
    depth: usize,
    /// P: columns of a panel.
    width: usize,
    /// Distance in floats from a step to the next, and from the first half of a step to its second
    /// half.
    strides: [usize; 2],
    panels: Aligned,
}

impl PackedWeights {
    /// Packs weights that share their inputs, stacked vertically: the outputs of the first, then
    /// of the second, and so on. Each is (N_i, `depth`), row-major and contiguous.
    ///
    /// # Errors
    ///
    /// If the system is out of memory.
    ///
    /// # Panics
    ///
    /// If `depth` is zero, or a weight's length is not a multiple of `depth`.
    pub fn new(
        level: Level,
        weights: &[&[f32]],
        depth: usize,
    ) -> Result<PackedWeights, OutOfMemory> {
        assert!(depth > 0, "the depth of a product must not be 0");
        for weight in weights {
            assert_eq!(
                weight.len() % depth,
                0,
                "a weight of {} floats for {depth} inputs",
                weight.len()
            );
        }
        let width = PANEL_VECTORS * simd::lanes(level);
        let outputs = weights.iter().map(|weight| weight.len() / depth).sum::<usize>();
        let floats = outputs.div_ceil(width) * width * depth;
        let half = width / 2;
        let strides = match floats * size_of::<f32>() {
            LARGE.. => [half, half * depth],
            _ => [width, half],
        };
        let panels = Aligned::zeros(floats.next_multiple_of(Line::FLOATS))?;
        let mut packed = PackedWeights { level, outputs, depth, width, strides, panels };
        let mut first = 0;
        for weight in weights {
            packed.repack(first, weight);
            first += weight.len() / depth;
        }
        Ok(packed)
    }

    /// Replaces the weights of the outputs from `first` on. `weight` is (N_i, K), row-major and
    /// contiguous.
    ///
    /// # Panics
    ///
    /// If `weight` is not a number of rows, or there are fewer outputs.
    pub fn repack(&mut self, first: usize, weight: &[f32]) {
        let (depth, [step, _]) = (self.depth, self.strides);
        for (columns, at) in self.runs(first, weight.len() / depth) {
            let rows = &weight[(columns.start - first) * depth..(columns.end - first) * depth];
            for start in (0..depth).step_by(PACK_BLOCK) {
                let steps = start..(start + PACK_BLOCK).min(depth);
                for (n, row) in rows.chunks_exact(depth).enumerate() {
                    let to = self.panels[at + n + start * step..].iter_mut().step_by(step);
                    to.zip(&row[steps.clone()]).for_each(|(to, &w)| *to = w);
                }
            }
        }
    }

    /// Replaces the weights of the outputs from `first` on. `weight` is (K, N_i), row-major and
    /// contiguous: the transpose of what [`repack`](Self::repack) takes.
    ///
    /// # Panics
    ///
    /// If `weight` does not have K rows, or there are fewer outputs.
    pub fn repack_transposed(&mut self, first: usize, weight: &[f32]) {
        let ([step, _], outputs) = (self.strides, weight.len() / self.depth);
        for (columns, at) in self.runs(first, outputs) {
            for (k, row) in weight.chunks_exact(outputs).enumerate() {
                let row = &row[columns.start - first..columns.end - first];
                self.panels[at + k * step..][..row.len()].copy_from_slice(row);
            }
        }
    }

    /// Divides some outputs into runs whose weights follow each other at each step. Returns each
    /// run with the place of its first weight.
    fn runs(
        &self,
        first: usize,
        count: usize,
    ) -> impl Iterator<Item = (Range<usize>, usize)> + use<> {
        assert!(first + count <= self.outputs, "{count} of {} outputs, from {first}", self.outputs);
        let (width, depth, second) = (self.width, self.depth, self.strides[1]);
        let (half, end) = (width / 2, first + count);
        (first / half..end.div_ceil(half)).map(move |run| {
            let columns = (run * half).max(first)..((run + 1) * half).min(end);
            let n = columns.start;
            (columns, n / width * width * depth + n % width / half * second + n % half)
        })
    }

    /// Returns the level whose vectors this layout is made for.
    pub fn level(&self) -> Level {
        self.level
    }

    /// Returns N, the number of columns of the product.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// Returns K, the number of terms of each sum.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Returns the number of panels. Threads can divide a product between them by panels.
    pub fn panels(&self) -> usize {
        self.outputs.div_ceil(self.width)
    }

    /// Returns the columns that a range of panels computes.
    ///
    /// # Panics
    ///
    /// If the range ends after the last panel.
    pub fn columns(&self, panels: Range<usize>) -> Range<usize> {
        assert!(panels.end <= self.panels(), "panels {panels:?} of {}", self.panels());
        let column = |panel: usize| (panel * self.width).min(self.outputs);
        column(panels.start)..column(panels.end)
    }

    /// Returns the size of the packed weight in bytes.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.panels[..])
    }

    /// Returns the floats of a range of panels, in order.
    pub(super) fn floats(&self, panels: Range<usize>) -> &[f32] {
        let panel = self.width * self.depth;
        &self.panels[panels.start * panel..panels.end * panel]
    }
}

/// Steps that are packed for all outputs of a run before the next steps, so that rows and panels
/// stay in the L1 cache.
const PACK_BLOCK: usize = 16;

/// Vectors per step of a panel.
const PANEL_VECTORS: usize = 4;

/// Size in bytes from which a weight does not stay in L2.
const LARGE: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_panels_are_column_major_and_aligned() {
        let (a, b) = ([1.0, 2.0], [3.0, 4.0, 5.0, 6.0]);
        let packed = PackedWeights::new(Level::Portable, &[&a, &b], 2).unwrap();
        assert_eq!(
            (packed.outputs(), packed.depth(), packed.panels(), packed.columns(0..1)),
            (3, 2, 1, 0..3)
        );
        let mut expected = [0.0; 32];
        expected[..3].copy_from_slice(&[1.0, 3.0, 5.0]);
        expected[16..19].copy_from_slice(&[2.0, 4.0, 6.0]);
        assert_eq!(packed.floats(0..1), expected);
        assert_eq!(packed.floats(0..1).as_ptr().align_offset(64), 0);
        assert_eq!(packed.bytes(), 128);
    }

    /// Weights of several panels, in both layouts of a panel, some of them replaced.
    #[test]
    fn repacked_weights_equal_newly_packed_weights() {
        for level in Level::available() {
            for (depth, rows) in [(3, [5, 70]), (33, [64, 65]), (700, [300, 180])] {
                let values = |from: usize, rows: usize| -> Vec<f32> {
                    (from..from + rows * depth).map(|value| value as f32).collect()
                };
                let [a, b, c] = [values(0, rows[0]), values(1, rows[1]), values(7, rows[1])];
                let expected = PackedWeights::new(level, &[&a, &c], depth).unwrap();
                let mut packed = PackedWeights::new(level, &[&a, &b], depth).unwrap();
                assert_ne!(packed.panels[..], expected.panels[..]);
                packed.repack(rows[0], &c);
                assert_eq!(packed.panels[..], expected.panels[..]);
                packed.repack(rows[0], &b);
                let transposed: Vec<f32> =
                    (0..depth).flat_map(|k| c.iter().copied().skip(k).step_by(depth)).collect();
                packed.repack_transposed(rows[0], &transposed);
                assert_eq!(packed.panels[..], expected.panels[..]);
            }
        }
    }
}
