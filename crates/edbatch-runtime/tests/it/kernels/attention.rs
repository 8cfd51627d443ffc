//! Attention against sums in `f64`, and its bits.

use edbatch_runtime::kernels::{Level, RowsMut, RowsRef, Scored, attention};

use super::{assert_same_bits, mul_add, noise};

/// Queries, keys, values and scores of some calls.
struct Case {
    heads: usize,
    key: usize,
    value: usize,
    ends: Vec<u32>,
    queries: Vec<f32>,
    keys: Vec<f32>,
    values: Vec<f32>,
}

impl Case {
    /// Calls with these numbers of values. `spread` is the size of the scores.
    fn new(counts: &[usize], heads: usize, [key, value]: [usize; 2], spread: f32) -> Self {
        let total: usize = counts.iter().sum();
        let mut end = 0;
        let ends = counts.iter().map(|&count| {
            end += count as u32;
            end
        });
        let ends = ends.collect();
        let size = (spread / key as f32 * heads as f32 * 3.0).sqrt();
        let scaled = |seed, len| noise(seed, len).iter().map(|x| x * size).collect();
        Self {
            heads,
            key,
            value,
            ends,
            queries: scaled(1, counts.len() * key),
            keys: scaled(2, total * key),
            values: noise(3, total * value),
        }
    }

    /// Runs the calls. The values are read through a list or a span.
    fn run(&self, level: Level, is_list: bool) -> Vec<f32> {
        let offsets = |width: usize| -> Vec<u32> {
            (0..*self.ends.last().unwrap_or(&0)).map(|row| row * width as u32).collect()
        };
        let (of_keys, of_values) = (offsets(self.key), offsets(self.value));
        let rows = |data, offsets, stride| match is_list {
            true => RowsRef::List { data, offsets },
            false => RowsRef::Span { data, stride },
        };
        let scored = Scored::Keys {
            queries: RowsRef::Span { data: &self.queries, stride: self.key },
            keys: rows(&self.keys, &of_keys, self.key),
            width: self.key,
        };
        let values = rows(&self.values, &of_values, self.value);
        let (mut out, mut scores) = (vec![0.5; self.ends.len() * self.value], vec![9.0; 1000]);
        let rows_out = RowsMut::contiguous(&mut out, self.value);
        attention(level, self.heads, scored, values, &self.ends, &mut scores, rows_out);
        out
    }

    /// Returns the exact results, and the scores of the values of each head.
    fn exact(&self) -> (Vec<f64>, Vec<f32>) {
        let total = self.keys.len() / self.key;
        let (mut out, mut all) = (Vec::new(), vec![0.0; total * self.heads]);
        let mut first = 0;
        for (b, &end) in self.ends.iter().enumerate() {
            let range = first..end as usize;
            for head in 0..self.heads {
                let (key, value) = (self.key / self.heads, self.value / self.heads);
                let query = &self.queries[b * self.key + head * key..][..key];
                let score = |j: usize| -> f64 {
                    let keys = &self.keys[j * self.key + head * key..][..key];
                    keys.iter().zip(query).map(|(&k, &q)| f64::from(k) * f64::from(q)).sum()
                };
                let scores: Vec<f64> = range.clone().map(score).collect();
                for (j, &score) in range.clone().zip(&scores) {
                    all[j * self.heads + head] = score as f32;
                }
                let max = scores.iter().fold(f64::NEG_INFINITY, |max, &x| max.max(x));
                let exp: Vec<f64> = scores.iter().map(|score| (score - max).exp()).collect();
                for c in 0..value {
                    let column =
                        |j: usize| f64::from(self.values[j * self.value + head * value + c]);
                    let sum: f64 = range.clone().zip(&exp).map(|(j, e)| e * column(j)).sum();
                    out.push(sum / exp.iter().sum::<f64>());
                }
            }
            first = end as usize;
        }
        (out, all)
    }
}

#[test]
fn attention_is_accurate() {
    for level in Level::available() {
        for (counts, heads, widths) in [
            (&[1, 2, 16, 17][..], 1, [1, 1]),
            (&[3, 1, 20], 1, [15, 16]),
            (&[5, 4, 7], 4, [20, 4]),
            (&[20, 9], 2, [100, 34]),
            (&[20], 1, [256, 256]),
            (&[1000], 4, [64, 128]),
        ] {
            let case = Case::new(counts, heads, widths, 80.0);
            let got = case.run(level, true);
            let (exact, scores) = case.exact();
            let largest = exact.iter().fold(0.0f64, |max, x| max.max(x.abs()));
            let error = got.iter().zip(&exact).map(|(&got, exact)| (f64::from(got) - exact).abs());
            let error = error.fold(0.0f64, f64::max) / largest;
            // Scores are rounded to f32: an error of a few ulp of the largest.
            assert!(error <= 2e-6, "{level}: {counts:?}, {heads} heads {widths:?}: {error:e}");

            // The same scores as a field: only exponentials and sums are rounded.
            let (mut out, mut room) = (vec![0.0; got.len()], vec![0.0; 1000]);
            let field = Scored::Field(RowsRef::Span { data: &scores, stride: heads });
            let values = RowsRef::Span { data: &case.values, stride: case.value };
            let rows_out = RowsMut::contiguous(&mut out, case.value);
            attention(level, heads, field, values, &case.ends, &mut room, rows_out);
            let error = out.iter().zip(&exact).map(|(&out, exact)| (f64::from(out) - exact).abs());
            assert!(error.fold(0.0, f64::max) <= 4e-6 * largest, "scores are rounded to f32");
        }
    }
}

#[test]
fn bits_depend_neither_on_levels_that_fuse_nor_on_other_calls_nor_on_lists() {
    let mut levels = Level::available();
    levels.retain(|&level| mul_add(level, 1.0 + f32::EPSILON, 1.0 - f32::EPSILON, -1.0) != 0.0);
    for heads in [1, 4] {
        for width in [1, 15, 16, 17, 100] {
            for count in [1, 2, 16, 17, 1000] {
                let width = width * heads;
                let case = Case::new(&[count], heads, [width, width], 10.0);
                let Some(&first) = levels.first() else { return };
                let expected = case.run(first, true);
                for &level in &levels {
                    for is_list in [true, false] {
                        assert_same_bits(&case.run(level, is_list), &expected, || {
                            format!("{level}: {count} values, {heads} heads, width {width}")
                        });
                    }
                }
            }
        }
    }
}

/// The exponential of a score above 88.7 is infinite: the largest score is subtracted first.
#[test]
fn scores_above_the_range_of_the_exponential_are_shifted() {
    for level in Level::available() {
        for shift in [0.0, 100.0, 1e4, -100.0, -1e4] {
            let scores = [0.0, 1.0, -2.0, 0.5].map(|score| score + shift);
            let (values, mut room) = ([1.0, 2.0, 4.0, 8.0], [0.0; 4]);
            let span = |data| RowsRef::Span { data, stride: 1 };
            // As a field, and as keys of a query of 1.
            let keys =
                Scored::Keys { queries: span(&[1.0][..]), keys: span(&scores[..]), width: 1 };
            for scored in [Scored::Field(span(&scores)), keys] {
                let mut out = [0.0];
                let rows_out = RowsMut::contiguous(&mut out, 1);
                attention(level, 1, scored, span(&values), &[4], &mut room, rows_out);
                let exp = scores.map(|score| f64::from(score - shift).exp());
                let sum: f64 = exp.iter().zip(values).map(|(e, value)| e * f64::from(value)).sum();
                let expected = sum / exp.iter().sum::<f64>();
                let error = (f64::from(out[0]) - expected).abs() / expected;
                assert!(error < 1e-6, "{level}, {shift}: {}, expected {expected}", out[0]);
            }
        }
    }
}

#[test]
fn infinite_scores_give_nan_unless_another_is_finite() {
    const INF: f32 = f32::INFINITY;
    for level in Level::available() {
        let of = |scores: &[f32]| {
            let (mut out, mut room) = ([0.0], vec![0.0; scores.len()]);
            let values: Vec<f32> = (1..=scores.len()).map(|x| x as f32).collect();
            let span = |data| RowsRef::Span { data, stride: 1 };
            let (ends, out_rows) = ([scores.len() as u32], RowsMut::contiguous(&mut out, 1));
            attention(
                level,
                1,
                Scored::Field(span(scores)),
                span(&values),
                &ends,
                &mut room,
                out_rows,
            );
            out[0]
        };
        assert_eq!(of(&[-INF, 3.0, -INF]), 2.0);
        assert_eq!(of(&[0.0, 0.0, 0.0]), 2.0);
        for scores in [&[-INF, -INF][..], &[INF, 0.0], &[0.0, f32::NAN], &[f32::NAN, 0.0]] {
            assert!(of(scores).is_nan(), "{level}: {scores:?}");
        }
    }
}
