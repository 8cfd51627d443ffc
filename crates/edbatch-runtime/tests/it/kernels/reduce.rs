//! Reductions against naive folds.

use edbatch_graph::Reduction;
use edbatch_runtime::kernels::{Level, RowsMut, RowsRef, reduce};
use proptest::prelude::*;

use super::{assert_same_bits, noise};

fn naive(reduction: Reduction, column: &[f32]) -> f32 {
    let Some((&first, rest)) = column.split_first() else {
        let is_sum = matches!(reduction, Reduction::Sum | Reduction::Mean);
        return if is_sum { 0.0 } else { f32::NEG_INFINITY };
    };
    match reduction {
        Reduction::Sum => rest.iter().fold(first, |sum, x| sum + x),
        Reduction::Mean => rest.iter().fold(first, |sum, x| sum + x) / column.len() as f32,
        Reduction::Max => {
            rest.iter().fold(first, |max, &x| if max.is_nan() || max > x { max } else { x })
        }
        Reduction::LogSumExp => unreachable!("tested below"),
    }
}

fn check(counts: &[u32], width: usize, data: &[f32], seed: u32) {
    let total: u32 = counts.iter().sum();
    let last = (data.len() - width) as u32 + 1;
    let offsets: Vec<u32> = (0..total).map(|i| (i.wrapping_mul(seed | 1) >> 3) % last).collect();
    let list = RowsRef::List { data, offsets: &offsets };
    let ends: Vec<u32> = counts
        .iter()
        .scan(0, |end, count| {
            *end += count;
            Some(*end)
        })
        .collect();
    for level in Level::available() {
        for reduction in [Reduction::Sum, Reduction::Mean, Reduction::Max] {
            let mut out = vec![0.5; counts.len() * width];
            reduce(level, reduction, list, &ends, RowsMut::contiguous(&mut out, width));
            for (b, got) in out.chunks_exact(width).enumerate() {
                let range = (ends[b] - counts[b]) as usize..ends[b] as usize;
                let column =
                    |n: usize| range.clone().map(|i| list.row(i, width)[n]).collect::<Vec<_>>();
                let expected: Vec<_> = (0..width).map(|n| naive(reduction, &column(n))).collect();
                assert_same_bits(got, &expected, || {
                    format!("{level}: {reduction:?} {b} of {counts:?}, width {width}")
                });
            }
        }
    }
}

#[test]
fn maximum_is_nan_wherever_the_nan_is() {
    let data = [1.0, f32::NAN, 2.0];
    check(&[1, 2, 3, 0, 3], 1, &data, 8);
    for level in Level::available() {
        let mut out = [0.0];
        reduce(
            level,
            Reduction::Max,
            RowsRef::Span { data: &data, stride: 1 },
            &[3],
            RowsMut::contiguous(&mut out, 1),
        );
        assert!(out[0].is_nan());
    }
}

#[test]
fn log_sum_exp_is_accurate_and_does_not_overflow() {
    const INF: f32 = f32::INFINITY;
    for level in Level::available() {
        let of = |data: &[f32]| {
            let mut out = [0.0];
            let (rows, ends) = (RowsRef::Span { data, stride: 1 }, [data.len() as u32]);
            let out_rows = RowsMut::contiguous(&mut out, 1);
            reduce(level, Reduction::LogSumExp, rows, &ends, out_rows);
            out[0]
        };
        for (data, expected) in [
            (&[][..], -INF),
            (&[0.1], 0.1),
            (&[-INF], -INF),
            (&[-INF, -INF], -INF),
            (&[-INF, 2.0], 2.0),
            (&[INF, 1.0], INF),
            (&[1e30, 1e30], 1e30),
        ] {
            assert_eq!(of(data).to_bits(), expected.to_bits(), "{level}: {data:?}");
        }
        assert!(of(&[1.0, f32::NAN]).is_nan() && of(&[f32::NAN, 1.0]).is_nan());
        for count in [2, 16, 17, 1000] {
            let data: Vec<f32> = noise(count as u64, count).iter().map(|x| x * 80.0).collect();
            let max = data.iter().fold(-INF, |max, &x| max.max(x));
            let exp = data.iter().map(|&x| f64::from(x - max).exp());
            let expected = f64::from(max) + exp.sum::<f64>().ln();
            let error = (f64::from(of(&data)) - expected).abs();
            assert!(error <= 1e-6 * expected.abs(), "{level}: {count} values, off by {error}");
        }
    }
}

proptest! {
    #[test]
    fn random_ranges(
        counts in prop::collection::vec(0u32..6, 1..20),
        width in 1usize..140,
        seed: u32,
    ) {
        check(&counts, width, &noise(seed as u64, 1000), seed);
    }
}
