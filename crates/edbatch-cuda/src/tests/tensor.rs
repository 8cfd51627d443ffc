//! Products with rounded operands: their error, and the independence of their bits.

use std::collections::BTreeMap;

use super::products::{PRODUCT, RUN_TILES};
use super::{LIST, Random, assert_same_bits, everywhere};
use crate::options::DevicePrecision;
use edbatch_runtime::Precision;
use edbatch_runtime::kernels::{
    Level, PackedWeights, Pass, RoundedRows, RowsMut, RowsRef, Start, product_bf16,
};

/// The precisions of tensor cores, with the exponents of the error of rounding both operands.
pub(super) const TENSOR: [(DevicePrecision, (i32, i32)); 2] =
    [(DevicePrecision::Tf32, (-10, -22)), (DevicePrecision::Bf16, (-7, -16))];

/// Returns functions for a precision.
pub(super) fn in_precision(precision: DevicePrecision, functions: &str) -> String {
    format!("#define {}\n{functions}", precision.macro_name().expect("it rounds"))
}

/// Returns the largest error of a sum of `depth` terms, relative to the sum of their magnitudes.
pub(super) fn bound((first, second): (i32, i32), depth: usize) -> f64 {
    2_f64.powi(first) + 2_f64.powi(second) + depth as f64 * 2_f64.powi(-22)
}

/// Returns a sum and the sum of the magnitudes of its terms.
pub(super) fn exact(row: &[f32], weights: &[f32]) -> (f64, f64) {
    let terms = row.iter().zip(weights).map(|(&x, &w)| f64::from(x) * f64::from(w));
    terms.fold((0.0, 0.0), |(sum, sizes), term| (sum + term, sizes + term.abs()))
}

/// Returns the sum of rounded operands in order, as the emulated device computes it.
pub(super) fn chain(precision: DevicePrecision, row: &[f32], weights: &[f32]) -> f32 {
    let add = |sum, (&x, &w): (&f32, &f32)| precision.round(w).mul_add(precision.round(x), sum);
    row.iter().zip(weights).fold(0.0, add)
}

/// Returns the sum of a CPU in bf16.
pub(super) fn on_cpu(row: &[f32], weights: &[f32]) -> f32 {
    let (level, depth) = (Level::detect(), row.len());
    let packed = PackedWeights::with_precision(level, Precision::Bf16, &[weights], depth).unwrap();
    let (mut rows, mut sum) = (RoundedRows::default(), [0.0]);
    rows.reserve(level, 1, depth).unwrap();
    rows.round(level, &RowsRef::Span { data: row, stride: depth }, depth);
    let to = RowsMut::contiguous(&mut sum, 1);
    product_bf16(&packed, 0..packed.panels(), Pass::Forwards, &rows, &Start::Nothing, to);
    sum[0]
}

/// How a product runs: `small`, also with rows that a block has gathered, or `large`.
const WAYS: [u32; 3] = [0, 2, 4];

#[test]
fn errors_are_within_their_bounds_and_no_bit_depends_on_other_rows() {
    for (precision, error) in TENSOR {
        let Some(run) = everywhere(&in_precision(precision, RUN_TILES), PRODUCT) else { return };
        let mut random = Random(7);
        let (mut worst, mut rounded) = (0.0_f64, 0);
        let small = [(1, 1, 1), (16, 13, 21), (3, 300, 70), (8, 530, 5)];
        let large = [(1, 16, 32), (16, 48, 65), (9, 256, 130), (40, 32, 64), (70, 80, 33)];
        let small = small.map(|size| (size, &WAYS[..2]));
        // Small products have tiles of 16 rows.
        let large = large.map(|size| (size, if size.0 > 16 { &WAYS[2..] } else { &WAYS[..] }));
        for ((count, depth, width), ways) in small.into_iter().chain(large) {
            let weights = random.floats(width * depth, false);
            let rows = random.floats(count * depth, false);
            let row = |r: usize| &rows[r * depth..][..depth];
            let column = |c: usize| &weights[c * depth..][..depth];
            let mut known = BTreeMap::new();
            let all: Vec<usize> = (0..count).collect();
            let backwards: Vec<usize> = all.iter().rev().copied().collect();
            // At other positions of the tile, with other rows, and on other blocks.
            let chosen = [(&all[..], 1), (&backwards, 1), (&all[count / 2..], 3), (&all, 5)];
            for (&way, (chosen, blocks)) in ways.iter().flat_map(|way| chosen.map(|it| (way, it))) {
                let packed = packed(precision, &weights, (width, depth), way);
                let (calls, out) = (chosen.len(), rows.len());
                let head = [0, calls, out, 0, 0, 1, 0, 0, 14, LIST, depth, width, width];
                let starts = chosen.iter().map(|row| row * depth);
                let words = head.into_iter().chain([way as usize]).chain(starts);
                let commands: Vec<u32> = words.map(|n| n as u32).collect();
                for (device, left) in run((blocks, &commands, &packed, &rows, calls * width)) {
                    let sums = &left.arena[out..];
                    let what = || format!("{device}: {count} rows, {depth} by {width}, way {way}");
                    if device.starts_with("order") {
                        let sums = (0..calls * width).map(|i| (row(chosen[i / width]), i % width));
                        let expected = sums.map(|(row, c)| chain(precision, row, column(c)));
                        assert_same_bits(&left.arena[out..], &expected.collect::<Vec<_>>(), what);
                    }
                    // A GPU adds in an order of its own, but in the same one for all rows.
                    let known =
                        known.entry((way, device.starts_with("order"))).or_insert_with(|| {
                            let first = sums.chunks_exact(width).map(<[f32]>::to_vec);
                            chosen.iter().copied().zip(first).collect::<BTreeMap<_, _>>()
                        });
                    for (sums, row) in sums.chunks_exact(width).zip(chosen) {
                        assert_same_bits(sums, &known[row], what);
                    }
                    for (i, &sum) in sums.iter().enumerate() {
                        let (row, column) = (row(chosen[i / width]), column(i % width));
                        let (exact, sizes) = exact(row, column);
                        let (off, most) =
                            ((f64::from(sum) - exact).abs(), bound(error, depth) * sizes);
                        assert!(off <= most, "{}: {off} of {most}", what());
                        worst = worst.max(off / most);
                        rounded += usize::from(off > 2_f64.powi(-20) * sizes);
                        if precision == DevicePrecision::Bf16 {
                            let off = (f64::from(sum) - f64::from(on_cpu(row, column))).abs();
                            let most = depth as f64 * 2_f64.powi(-21) * sizes;
                            assert!(off <= most, "{}: {off} of {most} from the CPU", what());
                        }
                    }
                }
            }
        }
        // The bound is tight, and operands are rounded.
        assert!((0.05..1.0).contains(&worst) && rounded > 1000, "{worst}, {rounded}");
    }
}

/// Packs weights (width, depth) as the ways to run read them.
fn packed(
    precision: DevicePrecision,
    weights: &[f32],
    (width, depth): (usize, usize),
    way: u32,
) -> Vec<f32> {
    let of_word = if way == 4 { precision.of_word() as usize } else { 1 };
    let mut packed = vec![f32::NAN; (depth / of_word).next_multiple_of(4) * width];
    for (column, weights) in weights.chunks_exact(depth).enumerate() {
        for (k, terms) in weights.chunks(of_word).enumerate() {
            packed[(k / 4 * width + column) * 4 + k % 4] = f32::from_bits(precision.word(terms));
        }
    }
    packed
}

#[test]
fn operands_are_rounded_as_on_the_host() {
    let wave = "block.superstep([&](u32 t) {
        for (u32 i = t; i < a.commands[0]; i += THREADS) a.arena[i] = rounded(a.weights[i]);
    });";
    for (precision, _) in TENSOR {
        let Some(run) = everywhere(&in_precision(precision, ""), wave) else { return };
        let mut random = Random(3);
        let words =
            [0, 1, 0x7f_ffff, 0x80_0000, 0x3f80_8000, 0x3f81_8000, 0x3f80_1000, 0x3f80_7fff];
        let large = [0x7f7f_7fff, 0x7f7f_ffff, 0x7f80_0000, 0x7f80_0001, 0x7fff_ffff];
        let edges = words.into_iter().chain(large).flat_map(|word| [word, word | 1 << 31]);
        let words = edges.chain((0..2000).map(|_| (random.below(1 << 31) * 2) as u32));
        let given: Vec<f32> = words.map(f32::from_bits).collect();
        let expected: Vec<f32> = given.iter().map(|&x| precision.round(x)).collect();
        for (device, left) in run((1, &[given.len() as u32], &given, &[], given.len())) {
            assert_same_bits(&left.arena, &expected, || format!("{device}: {precision:?}"));
        }
    }
}
