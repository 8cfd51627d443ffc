//! Batches of small products against the chain, element by element.

use edbatch_runtime::kernels::{Left, Level, Rows, RowsMut, Shape, batched_product};
use proptest::prelude::*;

use super::{assert_same_bits, mul_add, noise};

fn naive(level: Level, shape: Shape, left: &[f32], right: &[f32]) -> Vec<f32> {
    let Shape { rows, depth, columns } = shape;
    let chain = |m: usize, n: usize| {
        (0..depth)
            .fold(0.0, |sum, k| mul_add(level, left[m * depth + k], right[k * columns + n], sum))
    };
    (0..rows).flat_map(|m| (0..columns).map(move |n| (m, n))).map(|(m, n)| chain(m, n)).collect()
}

fn check(shape: Shape, batch: usize, seed: u64) {
    let (left_len, right_len) = (shape.rows * shape.depth, shape.depth * shape.columns);
    let left = noise(seed, batch * left_len);
    let right = noise(seed + 1, 2 * batch * right_len);
    let offsets: Vec<u32> = (0..batch as u32).rev().map(|b| 2 * b * right_len as u32).collect();
    let list = Rows::List { data: &right, offsets: &offsets };
    let lefts = Rows::Span { data: &left, stride: left_len };
    let size = shape.rows * shape.columns;
    for level in Level::available() {
        let mut out = vec![0.0; batch * size];
        batched_product(level, shape, Left::Each(lefts), list, RowsMut::contiguous(&mut out, size));
        for (b, got) in out.chunks_exact(size).enumerate() {
            let expected = naive(level, shape, lefts.row(b, left_len), list.row(b, right_len));
            assert_same_bits(got, &expected, || {
                format!("{level}: {shape:?}, instance {b} of {batch}")
            });
        }
        batched_product(
            level,
            shape,
            Left::Same(&left[..left_len]),
            list,
            RowsMut::contiguous(&mut out, size),
        );
        for (b, got) in out.chunks_exact(size).enumerate() {
            let expected = naive(level, shape, &left[..left_len], list.row(b, right_len));
            assert_same_bits(got, &expected, || {
                format!("{level}: a weight, {shape:?}, instance {b} of {batch}")
            });
        }
    }
}

#[test]
fn odd_shapes_equal_the_chain() {
    const SIZES: [usize; 12] = [1, 2, 3, 7, 8, 13, 16, 17, 31, 33, 48, 65];
    for rows in SIZES {
        for depth in SIZES {
            for columns in SIZES {
                check(
                    Shape { rows, depth, columns },
                    2,
                    (rows * 10_000 + depth * 100 + columns) as u64,
                );
            }
        }
    }
    check(Shape { rows: 300, depth: 5, columns: 100 }, 1, 5);
}

proptest! {
    #[test]
    fn random_shapes_equal_the_chain(rows in 1usize..70, depth in 1usize..70, columns in 1usize..70, batch in 1usize..6, seed: u32) {
        check(Shape { rows, depth, columns }, batch, seed as u64);
        check(Shape { rows, depth, columns: 1 }, batch, seed as u64);
    }
}
