//! Reductions of a variable number of rows: what arrives at a variadic port.

use edbatch_graph::Reduction;

use super::{
    isa::Level,
    rows::{RowsMut, RowsRef},
    simd::{self, Kernel, Simd},
};

/// `out[b, :]` = the reduction of `rows[ends[b - 1]..ends[b]]` (from 0 for the first), left to
/// right in the order of the list; the largest is NaN in a column where one row has it.
///
/// `rows` are (R, W), `ends` (B), `out` (B, W). A lone row is copied. No row at all gives zeros;
/// the largest of no row is -∞.
///
/// # Panics
///
/// If `ends` does not rise, its length is not the number of rows of `out`, or a row is shorter than
/// W.
///
/// ```
/// use edbatch_graph::Reduction;
/// use edbatch_runtime::kernels::{Level, RowsRef, RowsMut, reduce};
/// let rows = RowsRef::List { data: &[1.0, 2.0, 4.0], offsets: &[0, 1, 2] };
/// let mut out = [0.0; 2];
/// reduce(Level::detect(), Reduction::Mean, rows, &[1, 3], RowsMut::contiguous(&mut out, 1));
/// assert_eq!(out, [1.0, 3.0]);
/// ```
pub fn reduce(
    level: Level,
    reduction: Reduction,
    rows: RowsRef<'_>,
    ends: &[u32],
    out: RowsMut<'_>,
) {
    assert_eq!(ends.len(), out.len(), "ranges of rows and rows to write");
    assert!(ends.is_sorted(), "the ends of the ranges must rise");
    simd::run(level, Reduce { reduction, rows, ends, out });
}

struct Reduce<'a> {
    reduction: Reduction,
    rows: RowsRef<'a>,
    ends: &'a [u32],
    out: RowsMut<'a>,
}

impl Kernel for Reduce<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        let mut first = 0;
        for (b, &end) in self.ends.iter().enumerate() {
            self.reduce(simd, b, first, end as usize);
            first = end as usize;
        }
    }
}

impl Reduce<'_> {
    /// `out[b, :]` from rows `first..end`: row by row into `out`, which stays in L1.
    #[inline(always)]
    fn reduce<S: Simd>(&mut self, simd: S, b: usize, first: usize, end: usize) {
        let out = self.out.row(b);
        if first == end {
            out.fill(if self.reduction == Reduction::Max { f32::NEG_INFINITY } else { 0.0 });
            return;
        }
        out.copy_from_slice(self.rows.row(first, out.len()));
        let scale = (end - first) as f32;
        for i in first + 1..end {
            let row = self.rows.row(i, out.len());
            let last = i + 1 == end;
            for at in (0..out.len()).step_by(S::LANES) {
                let lanes = S::LANES.min(out.len() - at);
                // SAFETY: at + lanes <= out.len() == row.len().
                let (sum, x) = unsafe {
                    (
                        simd.load_first(out.as_ptr().add(at), lanes),
                        simd.load_first(row.as_ptr().add(at), lanes),
                    )
                };
                let y = match self.reduction {
                    Reduction::Sum => simd.add(sum, x),
                    Reduction::Mean if last => simd.div(simd.add(sum, x), simd.splat(scale)),
                    Reduction::Mean => simd.add(sum, x),
                    Reduction::Max => simd.select(simd.is_nan(sum), sum, simd.max(sum, x)),
                };
                // SAFETY: likewise.
                unsafe { simd.store_first(out.as_mut_ptr().add(at), y, lanes) };
            }
        }
    }
}
