//! `product` and its packing.

use edbatch_runtime::kernels::{
    Level, PackedWeights, Pass, RowsMut, RowsRef, Start, product, rows::split_around,
};
use proptest::prelude::*;

use super::{assert_same_bits, mul_add, noise};

const SIZES: [usize; 18] = [1, 2, 3, 5, 7, 8, 13, 16, 17, 31, 32, 33, 48, 63, 64, 65, 100, 128];

/// One chain over k per output. Every micro-tile must give these bits.
fn naive(level: Level, weights: &[f32], depth: usize, row: &[f32]) -> Vec<f32> {
    let chain = |weight: &[f32]| {
        weight.iter().zip(row).fold(0.0, |sum, (&w, &x)| mul_add(level, x, w, sum))
    };
    weights.chunks_exact(depth).map(chain).collect()
}

/// Runs `product` on all panels, into rows that are `gap` columns wider, and checks that it does
/// not write the additional columns.
fn run(
    weights: &PackedWeights,
    rows: RowsRef<'_>,
    start: Start<'_>,
    before: &[f32],
    gap: usize,
) -> Vec<f32> {
    let n = weights.outputs();
    let mut out = vec![f32::NAN; rows.len() * (n + gap)];
    for (to, from) in out.chunks_exact_mut(n + gap).zip(before.chunks_exact(n)) {
        to[..n].copy_from_slice(from);
    }
    product(
        weights,
        0..weights.panels(),
        Pass::Forwards,
        &rows,
        &start,
        RowsMut::new(&mut out, n, n + gap),
    );
    assert!(
        out.chunks_exact(n + gap).all(|row| row[n..].iter().all(|x| x.is_nan())),
        "wrote beyond the columns"
    );
    out.chunks_exact(n + gap).flat_map(|row| row[..n].to_vec()).collect()
}

#[test]
fn small_shapes_equal_the_naive_product() {
    for level in Level::available() {
        for (i, &n) in SIZES.iter().enumerate() {
            for (j, &k) in SIZES.iter().enumerate() {
                let weights = noise((i * 100 + j) as u64, n * k);
                let packed = PackedWeights::new(level, &[&weights], k).unwrap();
                let data = noise(7, 33 * k);
                let expected: Vec<_> =
                    data.chunks_exact(k).flat_map(|row| naive(level, &weights, k, row)).collect();
                for b in 1..=33 {
                    let span = RowsRef::Span { data: &data[..b * k], stride: k };
                    let got = run(&packed, span, Start::Nothing, &[], (b + n) % 3);
                    assert_same_bits(&got, &expected[..b * n], || {
                        format!("{level}: {b} rows, N {n}, K {k}")
                    });
                }
            }
        }
    }
}

/// Weights larger than the L2 cache are packed in another order.
#[test]
fn large_weights_equal_the_naive_product() {
    let (n, k) = (1030, 257);
    let (weights, data) = (noise(1, n * k), noise(2, 33 * k));
    for level in Level::available() {
        let packed = PackedWeights::new(level, &[&weights], k).unwrap();
        assert!(packed.bytes() > 1 << 20);
        let expected: Vec<_> =
            data.chunks_exact(k).flat_map(|row| naive(level, &weights, k, row)).collect();
        let before = noise(3, 33 * n);
        let sums: Vec<_> = before.iter().zip(&expected).map(|(s, c)| s + c).collect();
        for b in 1..=33 {
            let span = RowsRef::Span { data: &data[..b * k], stride: k };
            let what = || format!("{level}: {b} rows");
            let got = run(&packed, span, Start::Nothing, &[], b % 3);
            assert_same_bits(&got, &expected[..b * n], what);
            let got = run(&packed, span, Start::Out, &before[..b * n], b % 2);
            assert_same_bits(&got, &sums[..b * n], what);
        }
    }
}

#[test]
fn lists_starts_and_split_outputs_give_the_same_bits() {
    for level in Level::available() {
        for (n, k) in [(1, 1), (5, 3), (33, 17), (100, 64), (128, 33)] {
            let weights = noise(1, n * k);
            let packed = PackedWeights::new(level, &[&weights], k).unwrap();
            let data = noise(2, 40 * k + 5);
            for b in 1..=33 {
                let offsets: Vec<u32> =
                    (0..b as u32).map(|i| (i * 7 % 40) * k as u32 + i % 5).collect();
                let list = RowsRef::List { data: &data, offsets: &offsets };
                let chains: Vec<_> =
                    (0..b).flat_map(|i| naive(level, &weights, k, list.row(i, k))).collect();
                let before = noise(3, b * n);
                let sums: Vec<_> = before.iter().zip(&chains).map(|(s, c)| s + c).collect();
                let what = || format!("{level}: {b} rows, N {n}, K {k}");

                assert_same_bits(&run(&packed, list, Start::Nothing, &[], 0), &chains, what);
                assert_same_bits(&run(&packed, list, Start::Out, &before, 1), &sums, what);
                let start = Start::Rows(RowsRef::Span { data: &before, stride: n });
                assert_same_bits(&run(&packed, list, start, &[], 2), &sums, what);

                let mut memory = [&data[..], &vec![0.0; b * n], &data].concat();
                let on_both_sides: Vec<u32> =
                    offsets.iter().map(|at| at + (data.len() + b * n) as u32 * (at % 2)).collect();
                let (rest, hole) = split_around(&mut memory, data.len()..data.len() + b * n);
                product(
                    &packed,
                    0..packed.panels(),
                    Pass::Backwards,
                    &rest.list(&on_both_sides),
                    &Start::Nothing,
                    RowsMut::contiguous(hole, n),
                );
                assert_same_bits(hole, &chains, what);

                let mut out = vec![0.0; b * n];
                let (upper, lower) = out.split_at_mut(b / 2 * n);
                for (rows, out) in [(0..b / 2, upper), (b / 2..b, lower)] {
                    let middle = packed.panels() / 2;
                    let list = RowsRef::List { data: &data, offsets: &offsets[rows] };
                    let out = RowsMut::contiguous(out, n);
                    let (left, right) = out.split_columns(packed.columns(0..middle).len());
                    product(&packed, 0..middle, Pass::Forwards, &list, &Start::Nothing, left);
                    product(
                        &packed,
                        middle..packed.panels(),
                        Pass::Backwards,
                        &list,
                        &Start::Nothing,
                        right,
                    );
                }
                assert_same_bits(&out, &chains, what);
            }
        }
    }
}

#[test]
fn stacked_weights_equal_separate_products() {
    for level in Level::available() {
        let (a, b) = (noise(1, 5 * 9), noise(2, 20 * 9));
        let row = noise(3, 9);
        let stacked = PackedWeights::new(level, &[&a, &b], 9).unwrap();
        let expected = [naive(level, &a, 9, &row), naive(level, &b, 9, &row)].concat();
        let got = run(&stacked, RowsRef::Span { data: &row, stride: 9 }, Start::Nothing, &[], 0);
        assert_same_bits(&got, &expected, || level.to_string());
    }
}

#[test]
fn infinities_and_nan_propagate() {
    for level in Level::available() {
        let packed = PackedWeights::new(level, &[&[1.0, 1.0, 0.0, 1.0]], 2).unwrap();
        let rows = [f32::INFINITY, 1.0, f32::NAN, 0.0];
        let got = run(&packed, RowsRef::Span { data: &rows, stride: 2 }, Start::Nothing, &[], 0);
        assert_same_bits(&got, &[f32::INFINITY, f32::NAN, f32::NAN, f32::NAN], || {
            level.to_string()
        });
    }
}

#[test]
#[should_panic(expected = "rows of the input and of the output")]
fn mismatched_numbers_of_rows_panic() {
    let packed = PackedWeights::new(Level::Portable, &[&[1.0]], 1).unwrap();
    product(
        &packed,
        0..1,
        Pass::Forwards,
        &RowsRef::Span { data: &[1.0, 2.0], stride: 1 },
        &Start::Nothing,
        RowsMut::contiguous(&mut [0.0], 1),
    );
}

proptest! {
    /// The bits of a row do not depend on the rows computed with it, or on where they lie.
    #[test]
    fn a_row_has_the_same_bits_alone_and_in_a_batch(
        b in 1usize..600,
        n in 1usize..150,
        k in 1usize..150,
        seed: u64,
    ) {
        let data = noise(seed, b * k);
        let weights = noise(seed ^ 1, n * k);
        for level in Level::available() {
            let packed = PackedWeights::new(level, &[&weights], k).unwrap();
            let offsets: Vec<u32> = (0..b).rev().map(|i| (i * k) as u32).collect();
            let rows = RowsRef::List { data: &data, offsets: &offsets };
            let batch = run(&packed, rows, Start::Nothing, &[], 0);
            for (i, got) in batch.chunks_exact(n).enumerate().step_by(b.div_ceil(5)) {
                let row = &data[offsets[i] as usize..][..k];
                let alone = RowsRef::Span { data: row, stride: k };
                let alone = run(&packed, alone, Start::Nothing, &[], 0);
                assert_same_bits(got, &alone, || format!("{level}: row {i} of {b}, N {n}, K {k}"));
                assert_same_bits(got, &naive(level, &weights, k, row), || {
                    format!("{level}: row {i} of {b}, N {n}, K {k}")
                });
            }
        }
    }
}
