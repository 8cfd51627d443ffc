//! The vectorised arg-max against a naive loop.

use edbatch_runtime::kernels::{ArgMax, Level, arg_max};
use proptest::prelude::*;

use super::noise;

fn naive(row: &[f32]) -> usize {
    let mut best = 0;
    for (i, &x) in row.iter().enumerate() {
        if x > row[best] || row[best].is_nan() {
            best = i;
        }
    }
    best
}

fn check(row: &[f32]) {
    for level in Level::available() {
        let is_finite = row.iter().all(|x| x.is_finite());
        let expected = ArgMax { index: naive(row) as u32, is_finite };
        assert_eq!(arg_max(level, row), expected, "{level}: {row:?}");
    }
}

#[test]
fn maximum_at_every_position_of_rows_of_every_length() {
    check(&[]);
    for len in (1..70).chain([127, 128, 129, 255, 256, 257, 7709]) {
        let mut row = noise(len as u64, len);
        check(&row);
        for place in (0..len).step_by(len.div_ceil(40)) {
            let before = std::mem::replace(&mut row[place], 2.0);
            check(&row);
            row[place] = before;
        }
        check(&vec![0.5; len]);
    }
}

#[test]
fn zeros_are_equal_and_nan_is_ignored() {
    const INF: f32 = f32::INFINITY;
    for len in [1, 5, 16, 17, 128, 300] {
        for (filling, wanted) in [
            (f32::NAN, -INF),
            (f32::NAN, f32::NAN),
            (-INF, f32::NAN),
            (-0.0, 0.0),
            (0.0, -0.0),
            (INF, INF),
            (1.0, INF),
            (1.0, -INF),
            (1.0, f32::NAN),
            (f32::MAX, -f32::MAX),
        ] {
            for place in [0, len / 2, len - 1] {
                let mut row = vec![filling; len];
                row[place] = wanted;
                check(&row);
            }
        }
    }
}

proptest! {
    /// Only five different values, for many ties and NaN.
    #[test]
    fn random_rows(codes in prop::collection::vec(0u8..5, 0..300)) {
        let values = [f32::NAN, f32::NEG_INFINITY, -1.0, 0.0, 1.0];
        check(&codes.iter().map(|&code| values[code as usize]).collect::<Vec<_>>());
    }
}
