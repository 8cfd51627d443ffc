//! Products of a batch of rows and a packed weight, and in which order a product reads that.

use std::{ops::Range, ptr};

use super::{
    isa::Level,
    memory::{Aligned, Line, OutOfMemory},
    micro_kernel::{Access, BLOCK, Pointers, Right, blocks, even_parts, vectors_for},
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

/// A weight of N outputs by K inputs, packed once at load.
///
/// ```text
/// panel p, step k:   w[p·P + 0, k]  w[p·P + 1, k]  …  w[p·P + P-1, k]    P = 4 vectors of a level
/// ```
///
/// A panel is contiguous, K steps long, and read from front to back by each micro-tile of rows. One
/// row reads it as a single stream, which is what the L2 cache is fastest at; more and narrower
/// panels side by side were a third slower. A weight too large for that cache has the two halves of
/// a panel one behind the other instead, since 4 to 8 rows read pairs of vectors, and memory
/// farther off does not like gaps. Columns behind N are zeros. *Cost*: 4·K·⌈N / P⌉·P bytes; packing
/// reads the weight once.
#[derive(Debug)]
pub struct PackedWeights {
    level: Level,
    outputs: usize,
    depth: usize,
    /// P, the columns of a panel.
    width: usize,
    /// Floats from a step to the next, and from the first half of a step to the second.
    strides: [usize; 2],
    panels: Aligned,
}

impl PackedWeights {
    /// Packs weights that share their inputs, stacked: the outputs of the first, then of the
    /// second, and so on. Each is (N_i, `depth`), row-major and contiguous.
    ///
    /// # Errors
    ///
    /// If the system does not give the memory.
    ///
    /// # Panics
    ///
    /// If a weight's length is no multiple of `depth`, or `depth` is zero.
    pub fn new(
        level: Level,
        weights: &[&[f32]],
        depth: usize,
    ) -> Result<PackedWeights, OutOfMemory> {
        assert!(depth > 0, "a product of depth 0");
        for weight in weights {
            assert_eq!(
                weight.len() % depth,
                0,
                "a weight of {} floats for {depth} inputs",
                weight.len()
            );
        }
        let rows = || weights.iter().flat_map(|weight| weight.chunks_exact(depth));
        let width = PANEL_VECTORS * simd::lanes(level);
        let outputs = rows().count();
        let floats = outputs.div_ceil(width) * width * depth;
        let half = width / 2;
        let strides = match floats * size_of::<f32>() {
            LARGE.. => [half, half * depth],
            _ => [width, half],
        };
        let panels = Aligned::zeros(floats.next_multiple_of(Line::FLOATS))?;
        let mut packed = PackedWeights { level, outputs, depth, width, strides, panels };
        for (n, row) in rows().enumerate() {
            let column = n / width * width * depth + n % width / half * strides[1] + n % half;
            for (k, &w) in row.iter().enumerate() {
                packed.panels[column + k * strides[0]] = w;
            }
        }
        Ok(packed)
    }

    /// The level whose instructions read this layout.
    pub fn level(&self) -> Level {
        self.level
    }

    /// N, the columns of the product.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// K, the terms of each sum.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// The number of panels: the unit in which columns can be divided between calls.
    pub fn panels(&self) -> usize {
        self.outputs.div_ceil(self.width)
    }

    /// The columns that a range of panels computes.
    ///
    /// # Panics
    ///
    /// If there are fewer panels.
    pub fn columns(&self, panels: Range<usize>) -> Range<usize> {
        assert!(panels.end <= self.panels(), "panels {panels:?} of {}", self.panels());
        let column = |panel: usize| (panel * self.width).min(self.outputs);
        column(panels.start)..column(panels.end)
    }

    /// Bytes of memory that the packed weight takes.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.panels[..])
    }

    /// Floats from a step of a panel to the next, and from its first pair of vectors to the second.
    pub(super) fn strides(&self) -> [usize; 2] {
        self.strides
    }

    /// The panels of a range, one after the other.
    pub(super) fn floats(&self, panels: Range<usize>) -> &[f32] {
        let panel = self.width * self.depth;
        &self.panels[panels.start * panel..panels.end * panel]
    }
}

/// Vectors of a panel.
const PANEL_VECTORS: usize = 4;

/// Bytes of a weight that an L2 cache does not keep.
const LARGE: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacked_weights_lie_column_by_column_and_aligned() {
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
}
