//! Softmax, log-softmax and norms of a row, sums of rows, and the logarithm of losses.

use std::f64::consts::SQRT_2;

use super::{
    dot::dots,
    isa::Level,
    lanewise::{self, Lanewise},
    simd::{self, Kernel, MAX_LANES, Simd},
};

/// `row[i] = exp(row[i] - max) / Σ_j exp(row[j] - max)`, in place. NaN in the row makes all of it
/// NaN.
///
/// Term j is added to partial sum j mod 16, and the 16 partial sums are added up in order. So all
/// levels that fuse multiply-adds give the same bits.
pub fn softmax(level: Level, row: &mut [f32]) {
    simd::run(level, Softmax { row, log: false });
}

/// Like [`softmax`], and returns the cross-entropy of the scores for a class: `max + ln Σ_j
/// exp(row[j] - max) - row[class]`, the negative logarithm of the class's probability.
///
/// # Panics
///
/// If `class` is out of range.
pub fn cross_entropy(level: Level, row: &mut [f32], class: usize) -> f64 {
    let score = f64::from(row[class]);
    let [max, sum] = simd::run(level, Softmax { row, log: false });
    ln(f64::from(sum)) + (f64::from(max) - score)
}

/// Returns the natural logarithm: -∞ of zero, NaN of a number below zero. Other results are the
/// correctly rounded ones or next to them.
///
/// The libraries of different systems and devices round `f64::ln` differently. This one only adds,
/// subtracts, multiplies and divides, and rounds each result, so it has the same bits everywhere.
///
/// ```text
/// x = 2^k · (1 + f), where √½ < 1 + f ≤ √2
/// s = f / (2 + f)                                   so ln(1 + f) = 2 atanh(s)
/// r = Σ 2 / (2i + 1) · s^(2i)                       i = 1, 2, …, 10
/// ln x = k · high - ((f² / 2 - (s · (f² / 2 + r) + k · low)) - f)
/// ```
///
/// Here high + low is ln 2, and k · high is exact.
///
/// *Source*: `e_log.c` of Sun's fdlibm 5.3 has this reduction, and this order of operations. Its r
/// is a polynomial of degree 7 fitted to the interval, ours is the series.
#[must_use]
pub fn ln(x: f64) -> f64 {
    const HIGH: f64 = 0.693_147_180_558_298_7;
    const LOW: f64 = 1.646_594_958_289_708_2e-12;
    const MANTISSA: u64 = (1 << 52) - 1;
    if x.is_nan() || x < 0.0 {
        return f64::NAN;
    }
    if x == 0.0 {
        return f64::NEG_INFINITY;
    }
    if x == f64::INFINITY {
        return x;
    }
    // Numbers below the normal ones become normal.
    let (x, scaled) = if x < f64::MIN_POSITIVE { (x * (1u64 << 54) as f64, 54) } else { (x, 0) };
    let mut k = (x.to_bits() >> 52) as i32 - 1023 - scaled;
    let mut significand = f64::from_bits((x.to_bits() & MANTISSA) | (1023 << 52));
    if significand > SQRT_2 {
        significand *= 0.5;
        k += 1;
    }
    let (k, f) = (f64::from(k), significand - 1.0);
    let s = f / (2.0 + f);
    let square = s * s;
    let series = (1..=10).rev().fold(0.0, |sum, i| sum * square + 2.0 / f64::from(2 * i + 1));
    let (r, half) = (series * square, 0.5 * f * f);
    k * HIGH - ((half - (s * (half + r) + k * LOW)) - f)
}

/// `row[i] = row[i] - max - ln Σ_j exp(row[j] - max)`, in place. The sum is computed
/// as in [`softmax`].
pub fn log_softmax(level: Level, row: &mut [f32]) {
    simd::run(level, Softmax { row, log: true });
}

/// `row[i] = (row[i] - mean) / √(var + epsilon)`, in place, where var is the mean of the squared
/// differences from the mean. Sums are computed as in [`softmax`], sums of squares with fused
/// multiply-adds.
pub fn layer_norm(level: Level, row: &mut [f32], epsilon: f32) {
    simd::run(level, Norm { row, epsilon, centred: true });
}

/// `row[i] = row[i] / √(mean row² + epsilon)`, in place. The sum is computed as in
/// [`dot`](super::dot::dot).
pub fn rms_norm(level: Level, row: &mut [f32], epsilon: f32) {
    simd::run(level, Norm { row, epsilon, centred: false });
}

struct Norm<'a> {
    row: &'a mut [f32],
    epsilon: f32,
    /// True to subtract the mean first.
    centred: bool,
}

impl Kernel for Norm<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let (len, row) = (self.row.len(), self.row);
        if self.centred {
            let mut sum = [0.0];
            SumRows { matrix: row, columns: len, out: &mut sum }.run(simd);
            let mean = simd.splat(sum[0] / len as f32);
            each(simd, row, lanewise::Sub, mean);
        }
        // SAFETY: the row has `len` elements.
        let [squares] = unsafe { dots(simd, row.as_ptr(), [row.as_ptr()], len) };
        let root = simd.splat((squares / len as f32 + self.epsilon).sqrt());
        each(simd, row, lanewise::Div, root);
    }
}

/// Replaces each vector x of a row by `f(x, y)`.
#[inline(always)]
fn each<S: Simd>(simd: S, row: &mut [f32], f: impl Lanewise<2>, y: S::Vector) {
    for part in row.chunks_mut(S::LANES) {
        // SAFETY: `part` has its length, at most LANES.
        unsafe {
            let x = simd.load_first(part.as_ptr(), part.len());
            simd.store_first(part.as_mut_ptr(), f.of(simd, [x, y]), part.len());
        }
    }
}

/// `out[i] = Σ_j matrix[i, j]` for a row-major matrix with a row for each element of `out`. Sums
/// are computed as in [`softmax`].
pub fn sum_rows(level: Level, matrix: &[f32], out: &mut [f32]) {
    let columns = matrix.len().checked_div(out.len()).unwrap_or(0);
    assert_eq!(columns * out.len(), matrix.len(), "elements of the matrix");
    simd::run(level, SumRows { matrix, columns, out });
}

struct SumRows<'a> {
    matrix: &'a [f32],
    columns: usize,
    out: &'a mut [f32],
}

impl Kernel for SumRows<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        for (i, out) in self.out.iter_mut().enumerate() {
            let row = &self.matrix[i * self.columns..][..self.columns];
            let mut partial = [0.0; MAX_LANES];
            for (at, elements) in (0..).step_by(S::LANES).zip(row.chunks(S::LANES)) {
                // SAFETY: `elements` has its length. Both `at` and MAX_LANES are multiples of
                // LANES, so LANES partial sums begin at `at` mod MAX_LANES.
                unsafe {
                    let x = simd.load_first(elements.as_ptr(), elements.len());
                    let sums = partial.as_mut_ptr().add(at % MAX_LANES);
                    simd.store(sums, simd.add(simd.load(sums), x));
                }
            }
            *out = partial.iter().sum();
        }
    }
}

/// Returns the largest element, or NaN if one is NaN; -∞ for an empty row.
#[inline(always)]
pub(super) fn largest<S: Simd>(simd: S, row: &[f32]) -> f32 {
    let (vectors, rest) = row.split_at(row.len() - row.len() % S::LANES);
    let mut max = simd.splat(f32::NEG_INFINITY);
    for part in vectors.chunks_exact(S::LANES) {
        // SAFETY: `part` has LANES elements.
        max = lanewise::Max.of(simd, [max, unsafe { simd.load(part.as_ptr()) }]);
    }
    let mut lanes = [f32::NEG_INFINITY; MAX_LANES];
    // SAFETY: LANES <= MAX_LANES.
    unsafe { simd.store(lanes.as_mut_ptr(), max) };
    let all = lanes.iter().chain(rest);
    all.fold(f32::NEG_INFINITY, |max, &x| if x <= max || max.is_nan() { max } else { x })
}

struct Softmax<'a> {
    row: &'a mut [f32],
    log: bool,
}

impl Kernel for Softmax<'_> {
    /// The maximum and the sum.
    type Output = [f32; 2];

    /// ```text
    /// max = maximum of row             NaN if an element is NaN
    /// sum = Σ exp(row[i] - max)        16 partial sums, then added up in order
    /// row = exp(row[i] - max) / sum    or row[i] - max - ln sum
    /// ```
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> [f32; 2] {
        let largest = largest(simd, self.row);
        let max = simd.splat(largest);
        let len = self.row.len();
        let row = self.row.as_mut_ptr();
        let mut partial = [0.0; MAX_LANES];
        const { assert!(MAX_LANES.is_multiple_of(S::LANES)) };
        for i in (0..len).step_by(S::LANES) {
            let lanes = S::LANES.min(len - i);
            // SAFETY: i + lanes <= len.
            let x = simd.sub(unsafe { simd.load_first(row.add(i), lanes) }, max);
            let e = lanewise::Exp.of(simd, [x]);
            // Lanes after the end of the row hold exp(-max). Replace them by zeros.
            let mut kept = [0.0; MAX_LANES];
            // SAFETY: lanes <= LANES <= MAX_LANES, and i + lanes <= len. Both i and MAX_LANES are
            // multiples of LANES, so LANES partial sums begin at i mod MAX_LANES.
            unsafe {
                simd.store_first(kept.as_mut_ptr(), e, lanes);
                let sums = partial.as_mut_ptr().add(i % MAX_LANES);
                simd.store(sums, simd.add(simd.load(sums), simd.load(kept.as_ptr())));
                simd.store_first(row.add(i), if self.log { x } else { e }, lanes);
            }
        }
        let total: f32 = partial.iter().sum();
        let sum = simd.splat(total);
        let ln = lanewise::Log.of(simd, [sum]);
        for i in (0..len).step_by(S::LANES) {
            let lanes = S::LANES.min(len - i);
            // SAFETY: i + lanes <= len.
            unsafe {
                let x = simd.load_first(row.add(i), lanes);
                simd.store_first(
                    row.add(i),
                    if self.log { simd.sub(x, ln) } else { simd.div(x, sum) },
                    lanes,
                );
            }
        }
        [largest, total]
    }
}
