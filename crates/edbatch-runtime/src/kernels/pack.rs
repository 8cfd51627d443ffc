//! Weights in the order in which a product reads them.

use std::ops::Range;

use super::{isa::Level, large_pages, simd};

/// A weight of N outputs by K inputs, packed once at load.
///
/// ```text
/// panel p, step k:   w[p·P + 0, k]  w[p·P + 1, k]  …  w[p·P + P-1, k]        P = 4 vectors of the level
/// ```
///
/// A panel is contiguous, K steps long, and read from front to back by each micro-tile of rows. One
/// row reads it as a single stream, which is what the L2 cache is fastest at; more and narrower
/// panels side by side were a third slower. A weight too large for that cache has the two halves of
/// a panel one behind the other instead, since 4 to 8 rows read pairs of vectors, and memory
/// farther off does not like gaps. Columns behind N are zeros. *Cost*: 4·K·⌈N / P⌉·P bytes; packing
/// reads the weight once.
#[derive(Clone, Debug)]
pub struct PackedWeights {
    level: Level,
    outputs: usize,
    depth: usize,
    /// P, the columns of a panel.
    width: usize,
    /// Floats from a step to the next, and from the first half of a step to the second.
    strides: [usize; 2],
    panels: Vec<Line>,
}

/// A cache line: what is made of these is aligned for vectors of every level.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct Line([f32; Line::FLOATS]);

impl Line {
    pub(super) const FLOATS: usize = 16;
}

impl PackedWeights {
    /// Packs weights that share their inputs, stacked: the outputs of the first, then of the
    /// second, and so on. Each is (N_i, `depth`), row-major and contiguous.
    ///
    /// # Panics
    ///
    /// If a weight's length is no multiple of `depth`, or `depth` is zero.
    pub fn new(level: Level, weights: &[&[f32]], depth: usize) -> PackedWeights {
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
        let lines = floats.div_ceil(Line::FLOATS);
        let mut panels = Vec::with_capacity(lines);
        large_pages::advise(panels.spare_capacity_mut());
        panels.resize(lines, Line([0.0; Line::FLOATS]));
        let mut packed = PackedWeights { level, outputs, depth, width, strides, panels };
        for (n, row) in rows().enumerate() {
            let column = n / width * width * depth + n % width / half * strides[1] + n % half;
            for (k, &w) in row.iter().enumerate() {
                packed.floats_mut()[column + k * strides[0]] = w;
            }
        }
        packed
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
        // SAFETY: a `Line` is 16 floats without padding, so n lines are 16·n floats, borrowed as
        // long as `self`.
        let floats = unsafe {
            std::slice::from_raw_parts(
                self.panels.as_ptr().cast::<f32>(),
                self.panels.len() * Line::FLOATS,
            )
        };
        let panel = self.width * self.depth;
        &floats[panels.start * panel..panels.end * panel]
    }

    fn floats_mut(&mut self) -> &mut [f32] {
        // SAFETY: as in `floats`; `&mut self` makes it the one borrow.
        unsafe {
            std::slice::from_raw_parts_mut(
                self.panels.as_mut_ptr().cast::<f32>(),
                self.panels.len() * Line::FLOATS,
            )
        }
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
        let packed = PackedWeights::new(Level::Portable, &[&a, &b], 2);
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
