//! Rounding to bf16: the upper 16 bits of an `f32`, which leave 8 bits of mantissa.

use super::{
    isa::Level,
    memory::{Aligned, Line, OutOfMemory},
    rows::RowsRef,
    simd::{self, Kernel, Simd},
};

/// Returns the nearest bf16 (ties to even) as a float. Magnitudes below 2⁻¹²⁶ become zero of the
/// same sign, and large ones infinity. NaN stays NaN.
///
/// ```
/// use edbatch_runtime::kernels::bf16::round;
/// assert_eq!([round(1.0 + 1.0 / 256.0), round(1.0 + 3.0 / 256.0)], [1.0, 1.0 + 1.0 / 64.0]);
/// ```
#[inline(always)]
#[must_use]
pub fn round(x: f32) -> f32 {
    let bits = x.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    let nearest = bits.wrapping_add(0x7fff + (bits >> 16 & 1));
    let quiet = bits | 0x0040_0000;
    let rounded = if magnitude > 0x7f80_0000 { quiet } else { nearest };
    let rounded = if magnitude < 0x0080_0000 { bits & 0x8000_0000 } else { rounded };
    f32::from_bits(rounded & 0xffff_0000)
}

/// Packs one or two terms as a pair: the first in the lower half, the second, if any, in the upper.
pub(super) fn pair(terms: &[f32]) -> f32 {
    let [lower, upper] = [0, 1].map(|i| terms.get(i).map_or(0, |&x| round(x).to_bits()));
    f32::from_bits(upper | lower >> 16)
}

/// Rows that were rounded to bf16, in the layout that products in bf16 read. The memory is reused.
#[derive(Debug, Default)]
pub struct RoundedRows {
    /// The level, and the number of elements of a row.
    of: Option<(Level, usize)>,
    rows: usize,
    memory: Aligned,
}

impl RoundedRows {
    /// Allocates the memory for `rows` rows of `depth` elements.
    ///
    /// # Errors
    /// If the system is out of memory.
    pub fn reserve(&mut self, level: Level, rows: usize, depth: usize) -> Result<(), OutOfMemory> {
        self.memory.reserve(rows * stride(level, depth))
    }

    /// Rounds rows of `depth` elements, for products at `level`.
    ///
    /// # Panics
    /// If the memory was not [reserved](Self::reserve), or a row is shorter than `depth`.
    pub fn round(&mut self, level: Level, rows: &RowsRef<'_>, depth: usize) {
        (self.of, self.rows) = (Some((level, depth)), rows.len());
        let out = &mut self.memory[..rows.len() * stride(level, depth)];
        simd::run_pairs(level, Round { rows, depth, stride: stride(level, depth), out });
    }

    /// Returns the rows of a product: for each step a pair of bf16, or two floats at levels without
    /// an instruction for pairs.
    ///
    /// # Panics
    /// If the rows were rounded for another level or have another number of elements.
    pub(super) fn rows(&self, level: Level, depth: usize) -> RowsRef<'_> {
        assert_eq!(self.of, Some((level, depth)), "rows of a product in bf16");
        let stride = stride(level, depth);
        RowsRef::Span { data: &self.memory[..self.rows * stride], stride }
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Returns true if there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }
}

/// Returns the distance in floats from a rounded row of `depth` elements to the next.
fn stride(level: Level, depth: usize) -> usize {
    let floats = if level.has_pairs() { depth.div_ceil(2) } else { depth };
    floats.next_multiple_of(Line::FLOATS)
}

struct Round<'a> {
    rows: &'a RowsRef<'a>,
    depth: usize,
    stride: usize,
    out: &'a mut [f32],
}

impl Kernel for Round<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        for (b, out) in self.out.chunks_exact_mut(self.stride).enumerate() {
            let row = self.rows.row(b, self.depth);
            if S::PAIRS {
                for (out, row) in out.chunks_exact_mut(S::LANES).zip(row.chunks(2 * S::LANES)) {
                    let first = row.len().min(S::LANES);
                    // SAFETY: `row` has `first` floats, and row.len() - first, at most LANES, after
                    // them. `out` has LANES.
                    unsafe {
                        let a = simd.load_first(row.as_ptr(), first);
                        let b = simd.load_first(row.as_ptr().add(first), row.len() - first);
                        simd.store(out.as_mut_ptr(), simd.round_pairs(a, b));
                    }
                }
            } else {
                let (out, rest) = out.split_at_mut(self.depth);
                out.iter_mut().zip(row).for_each(|(out, &x)| *out = round(x));
                rest.fill(0.0);
            }
        }
    }
}
