//! Batches of small products against a naive product.

use edbatch_runtime::kernels::{GemmShape, Left, Level, Piece, RowsMut, RowsRef, batched_gemm};
use proptest::prelude::*;

use super::{assert_same_bits, mul_add, noise};

/// The product of whole matrices, with the bias added last.
fn naive(
    level: Level,
    shape: GemmShape,
    left: &[f32],
    right: &[f32],
    bias: Option<&[f32]>,
) -> Vec<f32> {
    let GemmShape { rows, depth, columns } = shape;
    let element = |m: usize, n: usize| {
        let chain = (0..depth)
            .fold(0.0, |sum, k| mul_add(level, left[m * depth + k], right[k * columns + n], sum));
        bias.map_or(chain, |bias| bias[m] + chain)
    };
    (0..rows).flat_map(|m| (0..columns).map(move |n| (m, n))).map(|(m, n)| element(m, n)).collect()
}

/// Right matrices, split into pieces of these depths. Each piece has its own memory: lists in
/// reverse order alternate with spans.
struct Split {
    depths: Vec<usize>,
    data: Vec<Vec<f32>>,
    offsets: Vec<Vec<u32>>,
    columns: usize,
    batch: usize,
}

impl Split {
    fn new(seed: u64, depths: &[usize], columns: usize, batch: usize) -> Self {
        let sizes = depths.iter().map(|depth| depth * columns);
        let data = sizes.clone().map(|size| noise(seed + size as u64, 2 * batch * size)).collect();
        let backwards = |size| (0..batch).rev().map(|b| (2 * b * size) as u32).collect();
        let offsets = sizes.map(backwards).collect();
        Self { depths: depths.to_vec(), data, offsets, columns, batch }
    }

    fn pieces(&self) -> Vec<Piece<'_>> {
        let piece = |(index, &depth): (usize, &usize)| {
            let (data, stride) = (&self.data[index], depth * self.columns);
            let values = if index % 2 == 1 {
                RowsRef::Span { data: &data[..self.batch * stride], stride }
            } else {
                RowsRef::List { data, offsets: &self.offsets[index] }
            };
            Piece { depth, values }
        };
        self.depths.iter().enumerate().map(piece).collect()
    }

    /// Returns the whole matrix of an instance.
    fn whole(&self, b: usize) -> Vec<f32> {
        let pieces = self.pieces();
        pieces
            .iter()
            .flat_map(|piece| piece.values.row(b, piece.depth * self.columns))
            .copied()
            .collect()
    }
}

fn check(rows: usize, depths: &[usize], columns: usize, batch: usize, seed: u64) {
    let shape = GemmShape { rows, depth: depths.iter().sum(), columns };
    let (left_len, size) = (shape.rows * shape.depth, shape.rows * shape.columns);
    let right = Split::new(seed + 1, depths, columns, batch);
    let (left, biases) = (noise(seed, batch * left_len), noise(seed + 2, batch * rows));
    let lefts = RowsRef::Span { data: &left, stride: left_len };
    let bias = RowsRef::Span { data: &biases, stride: rows };
    let sides = [
        (Left::Each(lefts), None),
        (Left::Same(&left[..left_len]), None),
        (Left::Same(&left[..left_len]), Some(bias)),
    ];
    for level in Level::available() {
        for (left, bias) in sides {
            let mut out = vec![0.0; batch * size];
            let written = RowsMut::contiguous(&mut out, size);
            batched_gemm(level, shape, left, &right.pieces(), bias, written);
            for (b, got) in out.chunks_exact(size).enumerate() {
                let matrix = match left {
                    Left::Each(rows) => rows.row(b, left_len),
                    Left::Same(matrix) => matrix,
                };
                let bias = bias.map(|bias| bias.row(b, rows));
                let expected = naive(level, shape, matrix, &right.whole(b), bias);
                assert_same_bits(got, &expected, || {
                    let left = if matches!(left, Left::Same(_)) { "a weight" } else { "matrices" };
                    format!(
                        "{level}: {left}, {shape:?} by {depths:?}, instance {b} of {batch}, \
                         {bias:?}"
                    )
                });
            }
        }
    }
}

#[test]
fn odd_shapes_equal_the_naive_product() {
    const SIZES: [usize; 12] = [1, 2, 3, 7, 8, 13, 16, 17, 31, 33, 48, 65];
    for rows in SIZES {
        for depth in SIZES {
            for columns in SIZES {
                let seed = (rows * 10_000 + depth * 100 + columns) as u64;
                check(rows, &[depth], columns, 2, seed);
            }
        }
    }
    check(300, &[5], 100, 1, 5);
}

#[test]
fn split_matrices_equal_the_naive_product() {
    const SIZES: [usize; 5] = [1, 3, 8, 17, 33];
    for rows in SIZES {
        for columns in [1, 2, 16, 31, 65] {
            for first in SIZES {
                for second in SIZES {
                    let seed = (rows * 10_000 + first * 100 + second + columns) as u64;
                    check(rows, &[first, second], columns, 2, seed);
                    check(rows, &[first, second, 6], columns, 3, seed);
                }
            }
        }
    }
}

#[test]
#[should_panic(expected = "K and the depths of the pieces")]
fn missing_pieces_panic() {
    let (right, shape) =
        (Split::new(1, &[2, 3], 4, 1), GemmShape { rows: 2, depth: 6, columns: 4 });
    let mut out = [0.0; 8];
    let written = RowsMut::contiguous(&mut out, 8);
    batched_gemm(Level::Portable, shape, Left::Same(&[0.0; 12]), &right.pieces(), None, written);
}

proptest! {
    #[test]
    fn random_shapes_equal_the_naive_product(
        rows in 1usize..70,
        depths in prop::collection::vec(1usize..40, 1..4),
        columns in 1usize..70,
        batch in 1usize..6,
        seed: u32,
    ) {
        check(rows, &depths, columns, batch, seed as u64);
        check(rows, &depths, 1, batch, seed as u64);
    }
}
