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
    auto row = [&](u32 r) -> const float* { return a.arena + rows[r]; };
    product<true>(block, count, depth,
        [&](u32 from, u32 length) {
            load_tile(block, count, from, length, ::rows(row, 0));
        },
        stack<0>(columns, [&](u32 q) { return Column{a.weights + 4 * wanted[q], 4 * width, 0}; },
            [&](u32 q, auto results) {
                results.set(a.arena + list[4] + wanted[q], width);
            }));";

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

/// Three products side by side: the first and the third have the same rows, and the second is added
/// to the results of the first. The command list: rows, depth, start of the output; a start for
/// each row of the first kind, then of the second. There are 70, 70 and 20 columns.
const SIDE_BY_SIDE: &str = "const u32* list = a.commands;
    u32 count = list[0], depth = list[1], padded = (depth + 3) / 4 * 4;
    float* out = a.arena + list[2];
    auto first = [&](u32 r) -> const float* { return a.arena + list[3 + r]; };
    auto second = [&](u32 r) {
        const float* row = a.arena + list[3 + count + r];
        return [=](u32 k) { return row[k]; };
    };
    auto of = [&](u32 before, u32 width, u32 at) {
        return [=](u32 q) {
            return Column{a.weights + before * padded + 4 * q, 4 * width, at};
        };
    };
    product<true>(block, count, depth,
        [&](u32 from, u32 length) {
            load_tile(block, count, from, length, rows(first, 0), computed_rows(second, padded));
        },
        stack<0>(70, of(0, 70, 0), [&](u32 q, auto results) { results.set(out + q, 90); }),
        stack<1>(70, of(70, 70, padded),
                 [&](u32 q, auto results) {
                     float* to = out + 69 - q;
                     results.add_to([&](u32 r) { return fresh(to + 90 * r); }, to, 90);
                 }),
        stack<0>(20, of(140, 20, 0),
                 [&](u32 q, auto results) { results.set(out + 70 + q, 90); }));";

#[test]
fn products_side_by_side_have_the_bits_of_the_cpu() {
    let Some(run) = everywhere("", SIDE_BY_SIDE) else { return };
    let mut random = Random(6);
    for (count, depth) in [(1, 1), (2, 5), (16, 256), (7, 100), (9, 255), (8, 33), (16, 4)] {
        let weights = [70, 70, 20].map(|width| random.floats(width * depth, false));
        let rows = random.floats(20 * depth, true);
        let starts: Vec<u32> =
            (0..2 * count).map(|_| random.below(19 * depth + 1) as u32).collect();
        let head = [count, depth, rows.len()].map(|n| n as u32);
        let commands = [&head[..], &starts].concat();
        let [a, b, c] = &weights;
        let all = [packed(a, 70, depth), packed(b, 70, depth), packed(c, 20, depth)].concat();
        let lefts = run((1, &commands, &all, &rows, count * 90));
        for level in levels() {
            let sums = |weights: &[f32], starts| {
                let width = weights.len() / depth;
                let weights = PackedWeights::new(level, &[weights], depth).unwrap();
                let mut sums = vec![0.0; count * width];
                let read = RowsRef::List { data: &rows, offsets: starts };
                let written = RowsMut::contiguous(&mut sums, width);
                let panels = 0..weights.panels();
                product(&weights, panels, Pass::Forwards, &read, &Start::Nothing, written);
                sums
            };
            let (of_a, of_c) = (sums(a, &starts[..count]), sums(c, &starts[..count]));
            let of_b = sums(b, &starts[count..]);
            let mut expected = Vec::new();
            for r in 0..count {
                expected.extend((0..70).map(|q| of_a[r * 70 + q] + of_b[r * 70 + 69 - q]));
                expected.extend(&of_c[r * 20..][..20]);
            }
            for (device, left) in &lefts {
                let what = || format!("{device}: {count} rows of {depth} at {level}");
                assert_same_bits(&left.arena[rows.len()..], &expected, what);
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
