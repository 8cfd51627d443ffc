//! Products in bf16: their bits at every level, and their error.

use edbatch_runtime::Precision;
use edbatch_runtime::kernels::{
    Level, PackedWeights, Pass, RoundedRows, RowsMut, RowsRef, Start, bf16::round, product_bf16,
};

use super::{assert_same_bits, mul_add, noise};

const DEPTHS: [usize; 7] = [1, 2, 3, 31, 32, 33, 1000];

/// Multiplies weights (N, K) and rows (B, K) at a level.
fn run(level: Level, weights: &[f32], depth: usize, rows: &[f32], start: &Start<'_>) -> Vec<f32> {
    let packed = PackedWeights::with_precision(level, Precision::Bf16, &[weights], depth).unwrap();
    let (mut rounded, count) = (RoundedRows::default(), rows.len() / depth);
    rounded.reserve(level, count, depth).unwrap();
    rounded.round(level, &RowsRef::Span { data: rows, stride: depth }, depth);
    let mut out = vec![f32::NAN; count * packed.outputs()];
    let to = RowsMut::contiguous(&mut out, packed.outputs());
    product_bf16(&packed, 0..packed.panels(), Pass::Forwards, &rounded, start, to);
    out
}

/// One chain per output: of each pair of terms, the second is added first.
fn naive(level: Level, weights: &[f32], depth: usize, rows: &[f32]) -> Vec<f32> {
    let chain = |weight: &[f32], row: &[f32]| {
        let pairs = weight.chunks(2).zip(row.chunks(2));
        pairs.fold(0.0, |sum, (w, x)| {
            let terms = w.iter().zip(x).rev();
            terms.fold(sum, |sum, (&w, &x)| mul_add(level, round(x), round(w), sum))
        })
    };
    let of_row = |row| weights.chunks_exact(depth).map(move |weight| chain(weight, row));
    rows.chunks_exact(depth).flat_map(of_row).collect()
}

/// The levels that round a multiply-add once.
fn fusing() -> impl Iterator<Item = Level> {
    let fuses = |&level: &Level| mul_add(level, 1.0 + f32::EPSILON, 1.0 - f32::EPSILON, -1.0) < 0.0;
    Level::available().into_iter().filter(fuses)
}

#[test]
fn rounding_is_to_the_nearest_and_ties_are_even() {
    let bits = f32::from_bits;
    for (x, expected) in [
        (0x3f80_7fff, 0x3f80_0000),
        (0x3f80_8000, 0x3f80_0000),
        (0x3f80_8001, 0x3f81_0000),
        (0x3f81_8000, 0x3f82_0000),
        (0xbf81_8000, 0xbf82_0000),
        (0x7f7f_8000, 0x7f80_0000),
        (0xff80_0000, 0xff80_0000),
        (0x0080_0000, 0x0080_0000),
        (0x007f_ffff, 0x0000_0000),
        (0x8000_0001, 0x8000_0000),
    ] {
        assert_eq!(round(bits(x)).to_bits(), expected, "{x:x}");
    }
    for x in [0x7f80_0001, 0xff80_0001, 0x7fff_ffff] {
        assert!(round(bits(x)).is_nan(), "{x:x}");
    }
}

#[test]
fn products_equal_the_naive_chain_at_every_level() {
    for level in Level::available() {
        // Columns of one vector and less, of narrow panels, of wide panels, and a partial panel.
        for columns in [1, 33, 64, 128, 200, 256] {
            for depth in DEPTHS {
                let rows_of = if depth < 100 { 65 } else { 13 };
                let (weights, rows) = (noise(1, columns * depth), noise(2, rows_of * depth));
                let expected = naive(level, &weights, depth, &rows);
                for count in (1..=rows_of).filter(|count| count % 7 != 6) {
                    let got = run(level, &weights, depth, &rows[..count * depth], &Start::Nothing);
                    assert_same_bits(&got, &expected[..count * columns], || {
                        format!("{level}: {count} rows, N {columns}, K {depth}")
                    });
                }
            }
        }
    }
}

/// Weights of more than 1 MiB have another layout.
#[test]
fn large_weights_and_starts_equal_the_naive_chain() {
    let (columns, depth) = (1030, 513);
    let (weights, rows) = (noise(1, columns * depth), noise(2, 14 * depth));
    let before = noise(3, 14 * columns);
    for level in Level::available() {
        let chains = naive(level, &weights, depth, &rows);
        let sums: Vec<f32> = before.iter().zip(&chains).map(|(a, b)| a + b).collect();
        for count in [1, 2, 3, 5, 14] {
            let data = &before[..count * columns];
            let start = Start::Rows(RowsRef::Span { data, stride: columns });
            let got = run(level, &weights, depth, &rows[..count * depth], &start);
            assert_same_bits(&got, &sums[..count * columns], || format!("{level}: {count} rows"));
        }
    }
}

#[test]
fn errors_stay_within_the_bound() {
    for level in Level::available() {
        for depth in DEPTHS {
            let (weights, rows) = (noise(5, 70 * depth), noise(6, 65 * depth));
            for count in 1..=65 {
                let rows = &rows[..count * depth];
                let got = run(level, &weights, depth, rows, &Start::Nothing);
                let pairs = rows
                    .chunks_exact(depth)
                    .flat_map(|row| weights.chunks_exact(depth).map(move |weight| (row, weight)));
                for (got, (row, weight)) in got.iter().zip(pairs) {
                    let terms =
                        || row.iter().zip(weight).map(|(&x, &w)| f64::from(x) * f64::from(w));
                    let size: f64 = terms().map(f64::abs).sum();
                    let factor = 2_f64.powi(-7) + 2_f64.powi(-16) + depth as f64 * 2_f64.powi(-24);
                    let error = (f64::from(*got) - terms().sum::<f64>()).abs();
                    assert!(error <= factor * size, "{level}: {error} of {size}, K {depth}");
                }
            }
        }
    }
}

/// NaN, infinities of both signs and floats below 2⁻¹²⁶, in rows and in weights.
#[test]
fn levels_that_fuse_agree_on_special_operands() {
    const SPECIAL: [f32; 10] =
        [f32::NAN, f32::INFINITY, -f32::INFINITY, 1e-40, -1e-45, 0.0, -0.0, f32::MAX, -3e38, 1e-30];
    let levels: Vec<Level> = fusing().collect();
    let Some(&first) = levels.first() else { return };
    for depth in DEPTHS {
        for seed in 0..40 {
            let (mut weights, mut rows) = (noise(seed, 70 * depth), noise(seed + 1, 9 * depth));
            for (operands, step) in [(&mut weights, 13), (&mut rows, 7)] {
                let some = operands.iter_mut().step_by(step + seed as usize % 5);
                some.zip(SPECIAL.iter().cycle().skip(seed as usize)).for_each(|(x, &s)| *x = s);
            }
            let expected = naive(first, &weights, depth, &rows);
            assert!(depth > 3 || expected.iter().any(|x| !x.is_nan()));
            for &level in &levels {
                let got = run(level, &weights, depth, &rows, &Start::Nothing);
                for (got, expected) in got.iter().zip(&expected) {
                    let same = got.to_bits() == expected.to_bits();
                    assert!(
                        same || got.is_nan() && expected.is_nan(),
                        "{level}: {got}, {expected}"
                    );
                }
            }
        }
    }
}

#[test]
fn packed_weights_take_half_the_memory() {
    for level in Level::available() {
        for (columns, depth) in [(512, 128), (1024, 512), (7709, 128), (512, 129)] {
            let weights = noise(1, columns * depth);
            let bytes = [Precision::F32, Precision::Bf16].map(|precision| {
                PackedWeights::with_precision(level, precision, &[&weights], depth).unwrap().bytes()
            });
            assert!(bytes[1] as f64 <= 0.51 * bytes[0] as f64, "{level}: {bytes:?}");
        }
    }
}

#[test]
fn stacked_and_repacked_weights_equal_newly_packed_weights() {
    for level in Level::available() {
        for (depth, [first, second]) in [(3, [5, 70]), (33, [64, 64]), (700, [300, 980])] {
            let [a, b, c] =
                [noise(1, first * depth), noise(2, second * depth), noise(3, second * depth)];
            let rows = noise(4, 3 * depth);
            let expected = run(level, &[&a[..], &c].concat(), depth, &rows, &Start::Nothing);
            let stack = &[&a[..], &b[..]];
            let mut packed =
                PackedWeights::with_precision(level, Precision::Bf16, stack, depth).unwrap();
            packed.repack(first, &c);
            let mut rounded = RoundedRows::default();
            rounded.reserve(level, 3, depth).unwrap();
            rounded.round(level, &RowsRef::Span { data: &rows, stride: depth }, depth);
            let mut out = vec![0.0; expected.len()];
            let to = RowsMut::contiguous(&mut out, first + second);
            let panels = 0..packed.panels();
            product_bf16(&packed, panels, Pass::Backwards, &rounded, &Start::Nothing, to);
            assert_same_bits(&out, &expected, || format!("{level}: K {depth}"));
        }
    }
}

#[test]
#[should_panic(expected = "rounded rows need weights in bf16")]
fn rounded_rows_need_weights_in_bf16() {
    let level = Level::Portable;
    let packed = PackedWeights::new(level, &[&[1.0]], 1).unwrap();
    let (mut rows, mut out) = (RoundedRows::default(), [0.0]);
    rows.reserve(level, 1, 1).unwrap();
    rows.round(level, &RowsRef::Span { data: &[1.0], stride: 1 }, 1);
    let to = RowsMut::contiguous(&mut out, 1);
    product_bf16(&packed, 0..1, Pass::Forwards, &rows, &Start::Nothing, to);
}
