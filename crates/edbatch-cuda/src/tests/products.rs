//! Products of values with packed weights, and of two values.

use super::{Random, assert_same_bits, everywhere, levels};
use edbatch_runtime::kernels::{
    GemmShape, Left, PackedWeights, Pass, Piece, RowsMut, RowsRef, Start, batched_gemm, product,
};

/// The command list: rows, depth, width, columns, start of the output; start of each row; the
/// columns.
const PRODUCT: &str = "const u32* list = a.commands;
    u32 count = list[0], depth = list[1], width = list[2], columns = list[3];
    const u32* rows = list + 5;
    const u32* wanted = rows + count;
    product(block, count, depth, Streamed{a.weights, width}, columns,
            [&](u32 q) { return wanted[q]; },
            [&](u32 r, u32 k) { return fresh(a.arena + rows[r] + k); },
            [&](u32 r, u32 column, float sum) { a.arena[list[4] + r * width + column] = sum; });";

/// Packs weights (width, depth) as `[⌈depth / 4⌉][width][4]`. The padding is NaN and must not be
/// read.
fn packed(weights: &[f32], width: usize, depth: usize) -> Vec<f32> {
    let mut packed = vec![f32::NAN; depth.div_ceil(4) * width * 4];
    for (column, weights) in weights.chunks_exact(depth).enumerate() {
        for (k, &w) in weights.iter().enumerate() {
            packed[(k / 4 * width + column) * 4 + k % 4] = w;
        }
    }
    packed
}

#[test]
fn products_have_the_bits_of_the_cpu() {
    let Some(run) = everywhere("", PRODUCT) else { return };
    let mut random = Random(1);
    let edges = [(1, 1, 1), (16, 13, 21), (9, 21, 13), (16, 256, 129), (3, 257, 300), (8, 600, 5)];
    let shapes: Vec<_> = edges
        .into_iter()
        .chain(
            (0..60).map(|_| (1 + random.below(16), 1 + random.below(530), 1 + random.below(400))),
        )
        .collect();
    for (count, depth, width) in shapes {
        let weights = random.floats(width * depth, false);
        let rows = random.floats(20 * depth, true);
        let starts: Vec<u32> = (0..count).map(|_| random.below(19 * depth + 1) as u32).collect();
        let mut columns: Vec<u32> = (0..width as u32).collect();
        columns.swap(0, width / 2);
        columns.truncate(1 + random.below(width));
        let out = rows.len();
        let head = [count, depth, width, columns.len(), out].map(|n| n as u32);
        let commands = [&head[..], &starts, &columns].concat();
        let lefts = run((1, &commands, &packed(&weights, width, depth), &rows, count * width));
        for level in levels() {
            let weights = PackedWeights::new(level, &[&weights], depth).unwrap();
            let mut expected = vec![0.0; count * width];
            let read = RowsRef::List { data: &rows, offsets: &starts };
            let written = RowsMut::contiguous(&mut expected, width);
            product(&weights, 0..weights.panels(), Pass::Forwards, &read, &Start::Nothing, written);
            // Other columns must not be written.
            for (i, x) in expected.iter_mut().enumerate() {
                if !columns.contains(&((i % width) as u32)) {
                    *x = f32::NAN;
                }
            }
            for (device, left) in &lefts {
                assert_same_bits(&left.arena[out..], &expected, || {
                    format!("{device}: {count} rows, {depth} by {width} at {level}")
                });
            }
        }
    }
}

#[test]
fn products_of_values_have_the_bits_of_the_cpu() {
    // Element (m, n) of a product whose right side consists of two pieces, plus a bias.
    let wave = "const u32* list = a.commands;
        u32 rows = list[0], depth = list[1], columns = list[2], first = list[3];
        const float *left = a.weights, *above = left + rows * depth;
        const float *under = above + first * columns, *bias = above + depth * columns;
        block.superstep([&](u32 t) {
            for (u32 i = t; i < rows * columns; i += THREADS) {
                u32 m = i / columns, n = i % columns;
                auto right = [&](const float* piece) {
                    return [=](u32 k) { return piece[k * columns + n]; };
                };
                const float* row = left + m * depth;
                float sum = chain(first, [=](u32 k) { return row[k]; }, right(above));
                auto rest = [=](u32 k) { return row[first + k]; };
                sum = chain(depth - first, rest, right(under), sum);
                a.arena[i] = add(sum, bias[m]);
            }
        });";
    let Some(run) = everywhere("", wave) else { return };
    let mut random = Random(2);
    for (rows, depth, columns) in
        [(1, 1, 1), (13, 21, 1), (64, 33, 1), (21, 13, 13), (3, 40, 70), (32, 64, 33)]
    {
        let shape = GemmShape { rows, depth, columns };
        let first = random.below(depth + 1);
        let left = random.floats(rows * depth, true);
        let right = random.floats(depth * columns, false);
        let bias = random.floats(rows, true);
        let commands = [rows, depth, columns, first].map(|n| n as u32);
        let weights = [&left[..], &right, &bias].concat();
        let lefts = run((1, &commands, &weights, &[], rows * columns));
        for level in levels() {
            let row = |data| RowsRef::List { data, offsets: &[0] };
            let (above, under) = right.split_at(first * columns);
            let mut pieces = vec![
                Piece { depth: first, values: row(above) },
                Piece { depth: depth - first, values: row(under) },
            ];
            pieces.retain(|piece| piece.depth > 0);
            let mut expected = vec![0.0; rows * columns];
            let out = RowsMut::contiguous(&mut expected, rows * columns);
            batched_gemm(level, shape, Left::Same(&left), &pieces, Some(row(&bias)), out);
            for (device, left) in &lefts {
                let what = || format!("{device}: {shape:?} at {level}");
                assert_same_bits(&left.arena, &expected, what);
            }
        }
    }
}
