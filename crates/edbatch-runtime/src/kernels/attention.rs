//! Weighted sums of the values at a port: the weights are the softmax of scores.

use std::ops::Range;

use super::{
    dot::dots,
    isa::Level,
    lanewise::{self, Lanewise},
    math::largest,
    rows::{RowsMut, RowsRef},
    simd::{self, Kernel, Simd},
};

/// The scores of values, one for each head.
#[derive(Clone, Copy, Debug)]
pub enum Scored<'a> {
    /// Rows of scores, one row for each value.
    Field(RowsRef<'a>),
    /// The inner products of the heads of a query and of keys.
    Keys {
        /// The queries, one row for each output row.
        queries: RowsRef<'a>,
        /// The keys, one row for each value.
        keys: RowsRef<'a>,
        /// The number of elements of a query, and of a key.
        width: usize,
    },
}

/// Attention of B queries, each over a range of rows: `ends[b - 1]..ends[b]`, where the range of `b
/// = 0` starts at 0. For each of `heads` equal parts of queries, keys and values:
///
/// ```text
/// s[j] = Σ_i query[b, i] · key[j, i]        or a score of row j
/// e[j] = exp(s[j] - max s)
/// out[b, :] = (Σ_j e[j] · value[j, :]) / Σ_j e[j]
/// ```
///
/// Inner products are added as in [`dot`](super::dot::dot); sums over j from left to right, those
/// of values by fused multiply-adds. `scores` is overwritten; it must have `heads` floats for each
/// row of the longest range. If all scores of a head are -∞, or if one is ∞ or NaN, its results
/// are NaN.
///
/// # Panics
///
/// If `ends` is not sorted or its length is not B, a range is empty, `heads` does not divide the
/// widths, a row is too short, or `scores` is.
pub fn attention(
    level: Level,
    heads: usize,
    scored: Scored<'_>,
    values: RowsRef<'_>,
    ends: &[u32],
    scores: &mut [f32],
    out: RowsMut<'_>,
) {
    assert_eq!(ends.len(), out.len(), "ends of ranges and rows of the output");
    assert!(ends.is_sorted(), "the ends of the ranges must be sorted");
    let divides = |width: usize| heads > 0 && width.is_multiple_of(heads);
    let keys = if let Scored::Keys { width, .. } = scored { width } else { heads };
    assert!(divides(keys) && divides(out.width()), "{heads} heads must divide the widths");
    simd::run(level, Attention { heads, scored, values, ends, scores, out });
}

struct Attention<'a> {
    heads: usize,
    scored: Scored<'a>,
    values: RowsRef<'a>,
    ends: &'a [u32],
    scores: &'a mut [f32],
    out: RowsMut<'a>,
}

impl Kernel for Attention<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        let mut first = 0;
        for (b, &end) in self.ends.iter().enumerate() {
            let end = end as usize;
            assert!(first < end, "attention over no values");
            for head in 0..self.heads {
                self.score(simd, b, head, first..end);
                let scores = &mut self.scores[..end - first];
                let [_, sum] = exponentials(simd, scores);
                let width = self.out.width() / self.heads;
                let columns = head * width..(head + 1) * width;
                let row = &mut self.out.row(b)[columns.clone()];
                let values = Weighted { values: self.values, first, columns, scores, sum };
                values.add(simd, row);
            }
            first = end;
        }
    }
}

impl Attention<'_> {
    /// Writes the scores of a head for a range of values to the start of `scores`.
    #[inline(always)]
    fn score<S: Simd>(&mut self, simd: S, b: usize, head: usize, range: Range<usize>) {
        let scores = &mut self.scores[..range.len()];
        match self.scored {
            Scored::Field(field) => {
                for (score, j) in scores.iter_mut().zip(range) {
                    *score = field.row(j, self.heads)[head];
                }
            }
            Scored::Keys { queries, keys, width } => {
                let of_head = width / self.heads;
                let columns = head * of_head..(head + 1) * of_head;
                products(simd, queries.row(b, width), columns, (keys, range.start), scores);
            }
        }
    }
}

/// Writes to `out` the inner products of `left` and the rows from `first` on, over some columns.
#[inline(always)]
fn products<S: Simd>(
    simd: S,
    left: &[f32],
    columns: Range<usize>,
    (rows, first): (RowsRef<'_>, usize),
    out: &mut [f32],
) {
    let (width, len) = (left.len(), columns.len());
    let left = left[columns.clone()].as_ptr();
    let row = |j: usize| rows.row(j, width)[columns.clone()].as_ptr();
    let mut blocks = out.chunks_exact_mut(4);
    let mut j = first;
    for block in &mut blocks {
        let rows = [row(j), row(j + 1), row(j + 2), row(j + 3)];
        // SAFETY: `left` and the rows have `len` elements.
        block.copy_from_slice(&unsafe { dots(simd, left, rows, len) });
        j += 4;
    }
    for product in blocks.into_remainder() {
        // SAFETY: as above.
        [*product] = unsafe { dots(simd, left, [row(j)], len) };
        j += 1;
    }
}

/// Replaces each score by `exp(score - max)`. Returns the maximum and the sum, from left to right.
#[inline(always)]
fn exponentials<S: Simd>(simd: S, scores: &mut [f32]) -> [f32; 2] {
    let largest = largest(simd, scores);
    let max = simd.splat(largest);
    for part in scores.chunks_mut(S::LANES) {
        // SAFETY: `part` has its length, at most LANES.
        unsafe {
            let x = simd.sub(simd.load_first(part.as_ptr(), part.len()), max);
            simd.store_first(part.as_mut_ptr(), lanewise::Exp.of(simd, [x]), part.len());
        }
    }
    [largest, scores.iter().sum()]
}

/// The gradient of [`attention`] with respect to the query, and the numbers that the gradients of
/// keys and values need. For each head, with the scores s, p their softmax, and g the gradient of
/// the result y:
///
/// ```text
/// d = Σ_j p[j] (g · value[j])                          equal to g · y
/// out[b, head of the query] = Σ_j p[j] (g · value[j] - d) key[j, :]
/// then out has l = max s + ln Σ_j exp(s[j] - max s) of each head, then d of each head
/// ```
///
/// `values` holds the gradients g, a row for each output row, and the rows of values. `scores` must
/// have two floats for each row of the longest range.
///
/// *Source*: the gradient of softmax, as in FlashAttention (Dao et al., 2022), appendix B.4.
///
/// # Panics
///
/// Like [`attention`].
pub fn attention_back(
    level: Level,
    heads: usize,
    keys: Side<'_>,
    values: Side<'_>,
    ends: &[u32],
    scores: &mut [f32],
    out: RowsMut<'_>,
) {
    assert_eq!(ends.len(), out.len(), "ends of ranges and rows of the output");
    assert!(ends.is_sorted(), "the ends of the ranges must be sorted");
    let divides = |width: usize| heads > 0 && width.is_multiple_of(heads);
    assert!(divides(keys.width) && divides(values.width), "{heads} heads must divide the widths");
    assert_eq!(out.width(), keys.width + 2 * heads, "columns of the output");
    simd::run(level, Back { heads, keys, values, ends, scores, out });
}

/// Queries and keys, or gradients and values.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// A row for each output row.
    pub own: RowsRef<'a>,
    /// A row for each value.
    pub rows: RowsRef<'a>,
    /// The number of elements of a row.
    pub width: usize,
}

struct Back<'a> {
    heads: usize,
    keys: Side<'a>,
    values: Side<'a>,
    ends: &'a [u32],
    scores: &'a mut [f32],
    out: RowsMut<'a>,
}

impl Kernel for Back<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        let (mut first, heads, width) = (0, self.heads, self.keys.width);
        for (b, &end) in self.ends.iter().enumerate() {
            let count = (end as usize).checked_sub(first).filter(|&count| count > 0);
            let count = count.expect("attention over no values");
            for head in 0..heads {
                let columns = |side: &Side<'_>| {
                    let width = side.width / heads;
                    head * width..(head + 1) * width
                };
                let (p, of_values) = self.scores[..2 * count].split_at_mut(count);
                for (side, to) in [(&self.keys, &mut *p), (&self.values, &mut *of_values)] {
                    let own = side.own.row(b, side.width);
                    products(simd, own, columns(side), (side.rows, first), to);
                }
                let [max, sum] = exponentials(simd, p);
                p.iter_mut().for_each(|p| *p /= sum);
                let d: f32 = p.iter().zip(&*of_values).map(|(p, x)| p * x).sum();
                p.iter_mut().zip(&*of_values).for_each(|(p, x)| *p *= x - d);
                let (rows, columns) = (self.keys.rows, columns(&self.keys));
                let row = self.out.row(b);
                let sums =
                    Weighted { values: rows, first, columns: columns.clone(), scores: p, sum: 1.0 };
                sums.add(simd, &mut row[columns]);
                let ln = lanewise::Log.of(simd, [simd.splat(sum)]);
                let mut l = [0.0];
                // SAFETY: `l` has one float.
                unsafe { simd.store_first(l.as_mut_ptr(), ln, 1) };
                row[width + head] = max + l[0];
                row[width + heads + head] = d;
            }
            first = end as usize;
        }
    }
}

/// Columns of values, with a weight for each.
struct Weighted<'a> {
    values: RowsRef<'a>,
    /// The row of the first value.
    first: usize,
    columns: Range<usize>,
    scores: &'a [f32],
    /// The sum of the scores.
    sum: f32,
}

impl Weighted<'_> {
    /// Writes the weighted sums of the columns to `out`, strip by strip.
    #[inline(always)]
    fn add<S: Simd>(&self, simd: S, out: &mut [f32]) {
        let mut at = 0;
        while at + 8 * S::LANES <= out.len() {
            self.strip::<S, 8>(simd, out, at);
            at += 8 * S::LANES;
        }
        while at + 2 * S::LANES <= out.len() {
            self.strip::<S, 2>(simd, out, at);
            at += 2 * S::LANES;
        }
        while at < out.len() {
            self.strip::<S, 1>(simd, out, at);
            at += S::LANES;
        }
    }

    /// Computes the weighted sums of V SIMD vectors of columns, from column `at` of `out` on, in
    /// registers. If V is 1, the vector may be shorter.
    #[inline(always)]
    fn strip<S: Simd, const V: usize>(&self, simd: S, out: &mut [f32], at: usize) {
        let lanes = if V == 1 { S::LANES.min(out.len() - at) } else { S::LANES };
        let mut sums = [simd.splat(0.0); V];
        for (j, &score) in self.scores.iter().enumerate() {
            let row = self.values.row(self.first + j, self.columns.end);
            let weight = simd.splat(score);
            for (v, sum) in sums.iter_mut().enumerate() {
                let from = self.columns.start + at + v * S::LANES;
                // SAFETY: out.len() == columns.len(), and the vector ends before out.len() if it
                // begins at `at`, so it ends in `row`.
                let x = unsafe {
                    let from = row.as_ptr().add(from);
                    if V == 1 { simd.load_first(from, lanes) } else { simd.load(from) }
                };
                *sum = simd.mul_add(weight, x, *sum);
            }
        }
        for (v, sum) in sums.into_iter().enumerate() {
            let y = simd.div(sum, simd.splat(self.sum));
            // SAFETY: at + (v + 1) * LANES <= out.len(), or `lanes` floats are left.
            unsafe { simd.store_first(out.as_mut_ptr().add(at + v * S::LANES), y, lanes) };
        }
    }
}
