//! Products of values with packed weights, and of two values.

use super::{LIST, Random, assert_same_bits, everywhere, levels};
use edbatch_runtime::kernels::{
    GemmShape, Left, PackedWeights, Pass, Piece, RowsMut, RowsRef, Start, batched_gemm, product,
};

/// Each block computes a slice of the units of a product. The command list: a job with an
/// operand; depth, width, units, and how it runs; the start of each row. A bias follows the
/// weights.
pub(super) const PRODUCT: &str = "
    u32 most = a.commands[1] > TILE ? (u32)LARGE_TILE : (u32)TILE, calls = a.commands[1];
    if (calls > most) {
        run_tiles(block, a, Share{0, most, calls - most, block.index, block.slices, 0, most});
        calls = most;
    }
    run_tiles(block, a, Share{0, 0, calls, block.index, block.slices, 0, most});";

pub(super) const RUN_TILES: &str =
    "DEVICE void run_tiles(TeamBlock block, const Arguments& a, Share share) {
    Job j(a, a.commands, share, block.ahead());
    u32 depth = a.commands[10], width = a.commands[11], units = a.commands[12];
    u32 how = a.commands[13];
    Stack stack{0, width, depth, units};
    find_rows(block, j, 1);
    Own out = output(j, width, 0);
    Rows before = no_rows();
    if (how & 1) before = Rows(j.a.weights + (depth + 3) / 4 * 4 * width, NO_OPERAND);
    if (how & 2) {
        u32 half = depth / 2;
        each_part(j, depth, [&](Job j) {
            copy(block, j.whole(), Rows(j.arena, 0), 1, 0, Own{block.shared(), distance(depth)},
                 half);
            copy(block, j.whole(), Rows(j.arena + half, 0), 1, 0,
                 Own{block.shared() + half, distance(depth)}, depth - half);
            small(block, j, no_rows(), stack, output(j, width, 0), before);
        });
    } else if (how & 4) large(block, j, Rows(j.arena, 0), stack, out, before);
    else small(block, j, Rows(j.arena, 0), stack, out, before);
}";

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
    let Some(run) = everywhere(RUN_TILES, PRODUCT) else { return };
    let mut random = Random(1);
    let edges = [(1, 1, 1), (16, 13, 21), (9, 21, 13), (16, 256, 129), (3, 257, 300), (8, 600, 5)];
    let shapes: Vec<_> = edges
        .into_iter()
        .chain([(16, 2000, 7), (5, 8192, 3), (16, 70, 1000)])
        .chain(
            (0..60).map(|_| (1 + random.below(16), 1 + random.below(530), 1 + random.below(400))),
        )
        .collect();
    let large =
        [(1, 16, 32), (16, 36, 65), (17, 256, 63), (64, 32, 64), (65, 64, 130), (70, 100, 33)];
    let shapes = shapes.into_iter().map(|shape| (shape, 0)).chain(large.map(|shape| (shape, 4)));
    let more = (0..30)
        .map(|_| ((1 + random.below(70), 4 * (4 + random.below(60)), 32 + random.below(100)), 4));
    let shapes: Vec<_> = shapes.chain(more.collect::<Vec<_>>()).collect();
    let mut ways = [0; 6];
    for ((count, depth, width), how) in shapes {
        let weights = random.floats(width * depth, false);
        let rows = random.floats(20 * depth, true);
        let bias = random.floats(width, false);
        // Large products have aligned rows.
        let start = |random: &mut Random| match how {
            0 => random.below(19 * depth + 1) as u32,
            _ => 4 * random.below(19 * depth / 4) as u32,
        };
        let starts: Vec<u32> = (0..count).map(|_| start(&mut random)).collect();
        // A unit has one column, or all columns of a gate.
        let gates = (2..=4).find(|gates| width % gates == 0).unwrap_or(1);
        let (units, blocks) = (width / gates, 1 + random.below(5));
        let how = how + random.below(if how == 0 { 4 } else { 2 });
        ways[how] += 1;
        let out = rows.len();
        let head = [0, count, out, 0, 0, 1, 0, 0, 14, LIST, depth, width, units, how];
        let head = head.map(|n| n as u32);
        let commands = [&head[..], &starts].concat();
        let all = [&packed(&weights, width, depth)[..], &bias].concat();
        let lefts = run((blocks as u32, &commands, &all, &rows, count * width));
        for level in levels() {
            let weights = PackedWeights::new(level, &[&weights], depth).unwrap();
            let mut expected = vec![0.0; count * width];
            let read = RowsRef::List { data: &rows, offsets: &starts };
            let written = RowsMut::contiguous(&mut expected, width);
            product(&weights, 0..weights.panels(), Pass::Forwards, &read, &Start::Nothing, written);
            if how & 1 != 0 {
                expected.iter_mut().enumerate().for_each(|(i, x)| *x += bias[i % width]);
            }
            for (device, left) in &lefts {
                assert_same_bits(&left.arena[out..], &expected, || {
                    format!("{device}: {count} rows, {depth} by {width}, way {how} at {level}")
                });
            }
        }
    }
    assert!(ways.iter().all(|&count| count > 0), "{ways:?}");
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
