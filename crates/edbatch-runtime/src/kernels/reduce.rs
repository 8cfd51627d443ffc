//! Sum, mean, maximum and log-sum-exp over a variable number of rows: the values at a variadic
//! port.

use std::ops::Range;

use edbatch_graph::Reduction;

use super::{
    isa::Level,
    lanewise::{self, Lanewise},
    rows::{RowsMut, RowsRef},
    simd::{self, Kernel, Simd},
};

/// `out[b, :]` = the sum, mean, maximum or log-sum-exp of `rows[ends[b - 1]..ends[b]]`, computed
/// left to right; the range of `b = 0` starts at 0.
///
/// `rows` is (R, W), `ends` (B), `out` (B, W); row-major `f32`. A single row is copied. An empty
/// range gives 0, or -∞ for the maximum and the log-sum-exp. Both are NaN in each column where a
/// row is NaN. The log-sum-exp is `m + ln Σ exp(x - m)`, where m is the maximum, or 0 if that is
/// infinite.
///
/// # Panics
///
/// If `ends` is not sorted, its length is not the number of rows of `out`, or a row is shorter than
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
    assert_eq!(ends.len(), out.len(), "ends of ranges and rows of the output");
    assert!(ends.is_sorted(), "the ends of the ranges must be sorted");
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
    /// Reduces rows `first..end` into `out[b, :]`, row by row: `out` stays in L1.
    #[inline(always)]
    fn reduce<S: Simd>(&mut self, simd: S, b: usize, first: usize, end: usize) {
        let out = self.out.row(b);
        if first == end {
            let is_sum = matches!(self.reduction, Reduction::Sum | Reduction::Mean);
            out.fill(if is_sum { 0.0 } else { f32::NEG_INFINITY });
            return;
        }
        if self.reduction == Reduction::LogSumExp && first + 1 < end {
            simd.outlined(LogSumExp { rows: self.rows, range: first..end, out });
            return;
        }
        let row = self.rows.row(first, out.len());
        if first + 1 == end {
            return out.copy_from_slice(row);
        }
        let (scale, mut sums) = ((end - first) as f32, row.as_ptr());
        for i in first + 1..end {
            let row = self.rows.row(i, out.len());
            let last = i + 1 == end;
            for at in (0..out.len()).step_by(S::LANES) {
                let lanes = S::LANES.min(out.len() - at);
                // SAFETY: at + lanes <= out.len(), as `row` and the row at `sums` have this length.
                let (sum, x) = unsafe {
                    (
                        simd.load_first(sums.add(at), lanes),
                        simd.load_first(row.as_ptr().add(at), lanes),
                    )
                };
                let y = match self.reduction {
                    Reduction::Sum => simd.add(sum, x),
                    Reduction::Mean if last => simd.div(simd.add(sum, x), simd.splat(scale)),
                    Reduction::Mean => simd.add(sum, x),
                    Reduction::Max => lanes_max(simd, sum, x),
                    Reduction::LogSumExp => unreachable!("computed above"),
                };
                // SAFETY: at + lanes <= out.len().
                unsafe { simd.store_first(out.as_mut_ptr().add(at), y, lanes) };
            }
            sums = out.as_ptr();
        }
    }
}

/// The maximum of each lane, or NaN if one is NaN.
#[inline(always)]
fn lanes_max<S: Simd>(simd: S, max: S::Vector, x: S::Vector) -> S::Vector {
    simd.select(simd.is_nan(max), max, simd.max(max, x))
}

/// The log-sum-exp of two or more rows.
struct LogSumExp<'a> {
    rows: RowsRef<'a>,
    range: Range<usize>,
    out: &'a mut [f32],
}

impl Kernel for LogSumExp<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let width = self.out.len();
        let first = self.range.start;
        for (strip, out) in self.out.chunks_mut(S::LANES).enumerate() {
            let columns = strip * S::LANES..strip * S::LANES + out.len();
            let strip = Strip { rows: self.rows, width, columns };
            let mut max = strip.load(simd, first);
            for i in first + 1..self.range.end {
                max = lanes_max(simd, max, strip.load(simd, i));
            }
            let is_infinite = simd.less(simd.splat(f32::MAX), simd.abs(max));
            let shift = simd.select(is_infinite, simd.splat(0.0), max);
            let mut sum = lanewise::Exp.of(simd, [simd.sub(strip.load(simd, first), shift)]);
            for i in first + 1..self.range.end {
                let x = simd.sub(strip.load(simd, i), shift);
                sum = simd.add(sum, lanewise::Exp.of(simd, [x]));
            }
            let y = simd.add(shift, lanewise::Log.of(simd, [sum]));
            // SAFETY: `out` has its length, at most LANES.
            unsafe { simd.store_first(out.as_mut_ptr(), y, out.len()) };
        }
    }
}

/// Some columns, at most a vector, of rows of this width.
struct Strip<'a> {
    rows: RowsRef<'a>,
    width: usize,
    columns: Range<usize>,
}

impl Strip<'_> {
    /// Loads the columns of row `i`.
    #[inline(always)]
    fn load<S: Simd>(&self, simd: S, i: usize) -> S::Vector {
        let row = &self.rows.row(i, self.width)[self.columns.clone()];
        // SAFETY: `row` has its length, at most LANES.
        unsafe { simd.load_first(row.as_ptr(), row.len()) }
    }
}
