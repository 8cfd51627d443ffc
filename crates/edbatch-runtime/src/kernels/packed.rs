//! Weights in the layout that products read.

use std::ops::Range;

use super::{
    bf16,
    isa::Level,
    memory::{Aligned, Line, OutOfMemory},
    simd,
};
use crate::Precision;

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
/// In bf16 a step is a pair: terms 2k and 2k + 1 of a column, in the lower and the upper half of 32
/// bits. The last term of an odd K is paired with a zero. For levels with an instruction for pairs,
/// a panel of a weight below 1 MiB has 8 vectors, if that takes the same memory as 4.
///
/// *Cost*: 4·K·⌈N / P⌉·P bytes, half of it in bf16; packing reads the weight once.
#[derive(Debug)]
pub struct PackedWeights {
    level: Level,
    precision: Precision,
    outputs: usize,
    depth: usize,
    /// P: columns of a panel.
    width: usize,
    /// Distance in floats from a step to the next, and from a pair of vectors of a step to the next
    /// pair.
    strides: [usize; 2],
    panels: Aligned,
}

impl PackedWeights {
    /// Packs weights in `f32`, like [`with_precision`](Self::with_precision).
    ///
    /// # Errors
    ///
    /// Like [`with_precision`](Self::with_precision).
    ///
    /// # Panics
    ///
    /// Like [`with_precision`](Self::with_precision).
    pub fn new(
        level: Level,
        weights: &[&[f32]],
        depth: usize,
    ) -> Result<PackedWeights, OutOfMemory> {
        Self::with_precision(level, Precision::F32, weights, depth)
    }

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
    pub fn with_precision(
        level: Level,
        precision: Precision,
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
        let mut width = PANEL_VECTORS * simd::lanes(level);
        let outputs = weights.iter().map(|weight| weight.len() / depth).sum::<usize>();
        let steps = steps(precision, depth);
        let columns = outputs.next_multiple_of(width);
        let floats = columns * steps;
        let pair = width / 2;
        let is_large = floats * size_of::<f32>() >= LARGE;
        let has_pairs = precision == Precision::Bf16 && level.has_pairs();
        if has_pairs && !is_large && columns.is_multiple_of(2 * width) {
            width *= 2;
        }
        let strides = if is_large { [pair, pair * steps] } else { [width, pair] };
        let panels = Aligned::zeros(floats.next_multiple_of(Line::FLOATS))?;
        let mut packed = PackedWeights { level, precision, outputs, depth, width, strides, panels };
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
                let terms = start..(start + PACK_BLOCK).min(depth);
                for (n, row) in rows.chunks_exact(depth).enumerate() {
                    let at = at + n + steps(self.precision, start) * step;
                    let to = self.panels[at..].iter_mut().step_by(step);
                    let row = &row[terms.clone()];
                    match self.precision {
                        Precision::F32 => to.zip(row).for_each(|(to, &w)| *to = w),
                        Precision::Bf16 => {
                            to.zip(row.chunks(2)).for_each(|(to, pair)| *to = bf16::pair(pair));
                        }
                    }
                }
            }
        }
    }

    /// Replaces the weights of the outputs from `first` on. `weight` is (K, N_i), row-major and
    /// contiguous: the transpose of what [`repack`](Self::repack) takes.
    ///
    /// # Panics
    ///
    /// If `weight` does not have K rows, there are fewer outputs, or the precision is not `f32`.
    pub fn repack_transposed(&mut self, first: usize, weight: &[f32]) {
        assert_eq!(self.precision, Precision::F32, "only weights in f32 are replaced");
        let ([step, _], outputs) = (self.strides, weight.len() / self.depth);
        for (columns, at) in self.runs(first, outputs) {
            for (k, row) in weight.chunks_exact(outputs).enumerate() {
                let row = &row[columns.start - first..columns.end - first];
                self.panels[at + k * step..][..row.len()].copy_from_slice(row);
            }
        }
    }

    /// Divides some outputs into runs whose weights follow each other at each step. Returns each
    /// with the place of its first weight.
    fn runs(
        &self,
        first: usize,
        count: usize,
    ) -> impl Iterator<Item = (Range<usize>, usize)> + use<> {
        assert!(first + count <= self.outputs, "{count} of {} outputs, from {first}", self.outputs);
        let (width, steps, second) = (self.width, self.steps(), self.strides[1]);
        let (pair, end) = (2 * simd::lanes(self.level), first + count);
        (first / pair..end.div_ceil(pair)).map(move |run| {
            let columns = (run * pair).max(first)..((run + 1) * pair).min(end);
            let n = columns.start;
            (columns, n / width * width * steps + n % width / pair * second + n % pair)
        })
    }

    /// Returns the level whose vectors this layout is made for.
    pub fn level(&self) -> Level {
        self.level
    }

    /// Returns the precision of the factors of the product.
    pub fn precision(&self) -> Precision {
        self.precision
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

    /// Returns the number of steps of a panel.
    pub(super) fn steps(&self) -> usize {
        steps(self.precision, self.depth)
    }

    /// Returns the distances in floats from a step to the next, and from a pair of vectors of a
    /// step to the next pair.
    pub(super) fn strides(&self) -> [usize; 2] {
        self.strides
    }

    /// Returns the floats of a range of panels, in order.
    pub(super) fn floats(&self, panels: Range<usize>) -> &[f32] {
        let panel = self.width * self.steps();
        &self.panels[panels.start * panel..panels.end * panel]
    }
}

/// Returns the number of steps of a sum of `terms` terms.
fn steps(precision: Precision, terms: usize) -> usize {
    match precision {
        Precision::F32 => terms,
        Precision::Bf16 => terms.div_ceil(2),
    }
}

/// Terms that are packed for all outputs of a run before the next terms, so that rows and panels
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
