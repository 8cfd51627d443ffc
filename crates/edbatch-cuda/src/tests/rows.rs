//! Reductions, softmax, norms, attention and argmax.

use edbatch_graph::Reduction;

use super::{Random, assert_same_bits, everywhere, levels};
use edbatch_runtime::kernels::{
    ArgMax, RowsMut, RowsRef, Scored, arg_max, attention, dot, math, reduce,
};

#[test]
fn reductions_have_the_bits_of_the_cpu() {
    // The sum, mean, maximum and log-sum-exp of each column of (count, width) elements.
    let wave = "u32 count = a.commands[0], width = a.commands[1];
        block.superstep([&](u32 t) {
            for (u32 i = t; i < width; i += THREADS) {
                auto at = [&](u32 row) { return fresh(a.arena + row * width + i); };
                float* to = a.arena + count * width + i;
                to[0] = reduce_sum(count, at);
                to[width] = reduce_mean(count, at);
                to[2 * width] = reduce_max(count, at);
                to[3 * width] = reduce_log_sum_exp(count, at);
            }
        });";
    let Some(run) = everywhere("", wave) else { return };
    let mut random = Random(3);
    for (count, width) in [(0, 5), (1, 21), (2, 13), (3, 1), (7, 64), (40, 300)] {
        let rows = random.floats(count * width, true);
        let commands = [count as u32, width as u32];
        let lefts = run((1, &commands, &[], &rows, 4 * width));
        let offsets: Vec<u32> = (0..count).map(|row| (row * width) as u32).collect();
        for level in levels() {
            let mut expected = vec![0.0; 4 * width];
            let all = [Reduction::Sum, Reduction::Mean, Reduction::Max, Reduction::LogSumExp];
            for (by, out) in all.into_iter().zip(expected.chunks_exact_mut(width)) {
                let rows = RowsRef::List { data: &rows, offsets: &offsets };
                reduce(level, by, rows, &[count as u32], RowsMut::contiguous(out, width));
            }
            for (device, left) in &lefts {
                let what = || format!("{device}: {count} rows of {width} at {level}");
                assert_same_bits(&left.arena[count * width..], &expected, what);
            }
        }
    }
}

#[test]
fn softmax_has_the_bits_of_the_cpu() {
    // The softmax of each row in place, and its logarithm after all rows.
    let wave = "u32 count = a.commands[0], width = a.commands[1];
        block.superstep([&](u32 t) {
            if (t >= count) return;
            float *row = a.arena + t * width, *behind = row + count * width;
            auto from = [&](u32 i) { return row[i]; };
            softmax_row(width, from, [&](u32 i, float x) { behind[i] = x; }, true);
            softmax_row(width, from, [&](u32 i, float x) { row[i] = x; }, false);
        });";
    let Some(run) = everywhere("", wave) else { return };
    let mut random = Random(4);
    for width in [0, 1, 2, 5, 13, 15, 16, 17, 21, 31, 32, 33, 300, 1000] {
        for special in [false, true] {
            let mut rows = random.floats(3 * width, special);
            rows.iter_mut().for_each(|x| *x *= 20.0);
            let lefts = run((1, &[3, width as u32], &[], &rows, 3 * width));
            for level in levels() {
                let mut expected = [&rows[..], &rows].concat();
                for (i, row) in expected.chunks_exact_mut(width.max(1)).enumerate() {
                    match i {
                        0..3 => math::softmax(level, row),
                        _ => math::log_softmax(level, row),
                    }
                }
                for (device, left) in &lefts {
                    let what = || format!("{device}: {width} elements at {level}");
                    assert_same_bits(&left.arena, &expected, what);
                }
            }
        }
    }
}

#[test]
fn norms_and_inner_products_have_the_bits_of_the_cpu() {
    // The layer norm and the RMS norm of each row, and its product with the next row.
    let wave = "u32 count = a.commands[0], width = a.commands[1];
        block.superstep([&](u32 t) {
            if (t + 1 >= count) return;
            float *row = a.arena + t * width, *to = row + count * width;
            auto from = [&](u32 i) { return row[i]; };
            auto next = [&](u32 i) { return row[width + i]; };
            float epsilon = from_bits(a.commands[2]);
            norm_row(width, from, [&](u32 i, float x) { to[i] = x; }, epsilon, true);
            to += count * width;
            norm_row(width, from, [&](u32 i, float x) { to[i] = x; }, epsilon, false);
            a.arena[3 * count * width + t] = dot_rows(width, from, next);
        });";
    let Some(run) = everywhere("", wave) else { return };
    let mut random = Random(6);
    for width in [1, 2, 13, 15, 16, 17, 33, 100, 300] {
        for special in [false, true] {
            let rows = random.floats(4 * width, special);
            let epsilon = 1e-5f32;
            let commands = [4, width as u32, epsilon.to_bits()];
            let lefts = run((1, &commands, &[], &rows, 8 * width + 4));
            for level in levels() {
                let mut expected = [&rows[..], &rows, &rows].concat();
                let (layer, rms) = expected[4 * width..].split_at_mut(4 * width);
                for i in 0..3 {
                    math::layer_norm(level, &mut layer[i * width..][..width], epsilon);
                    math::rms_norm(level, &mut rms[i * width..][..width], epsilon);
                }
                let mut dots = [0.0; 3];
                dot(level, &rows[..3 * width], &rows[width..], &mut dots);
                for (device, left) in &lefts {
                    let what = || format!("{device}: {width} elements at {level}");
                    for first in [4 * width, 8 * width] {
                        let range = first..first + 3 * width;
                        assert_same_bits(&left.arena[range.clone()], &expected[range], what);
                    }
                    assert_same_bits(&left.arena[12 * width..][..3], &dots, what);
                }
            }
        }
    }
}

#[test]
fn attention_has_the_bits_of_the_cpu() {
    // Values, then keys, then a query: (count, width) each. Two heads.
    let wave = "u32 count = a.commands[0], width = a.commands[1], half = width / 2;
        const float *values = a.arena, *keys = values + count * width;
        const float* query = keys + count * width;
        float* out = a.arena + (2 * count + 1) * width;
        for (u32 h = 0; h < 2; ++h)
            attend(block, count, half,
                   [&](u32 j) {
                       return dot_rows(half, [&](u32 i) { return query[h * half + i]; },
                                       [&](u32 i) { return keys[j * width + h * half + i]; });
                   },
                   [&](u32 j, u32 c) { return values[j * width + h * half + c]; },
                   [&](u32 c) { return out[h * half + c]; },
                   [&](u32 c, float x) { out[h * half + c] = x; });";
    let Some(run) = everywhere("", wave) else { return };
    let mut random = Random(8);
    // 9,000 scores do not fit in shared memory.
    for (count, width) in [(1, 2), (2, 30), (5, 34), (16, 32), (17, 200), (300, 600), (9000, 6)] {
        let rows = random.floats((2 * count + 1) * width, false);
        let lefts = run((1, &[count as u32, width as u32], &[], &rows, width));
        let list = |first: usize, count: usize| -> Vec<u32> {
            (first..first + count).map(|row| (row * width) as u32).collect()
        };
        let (values, keys, query) = (list(0, count), list(count, count), list(2 * count, 1));
        let list = |offsets| RowsRef::List { data: &rows, offsets };
        for level in levels() {
            let (mut expected, mut scores) = (vec![0.0; width], vec![0.0; count]);
            let scored = Scored::Keys { queries: list(&query), keys: list(&keys), width };
            let out = RowsMut::contiguous(&mut expected, width);
            attention(level, 2, scored, list(&values), &[count as u32], &mut scores, out);
            for (device, left) in &lefts {
                let what = || format!("{device}: {count} values of {width} at {level}");
                assert_same_bits(&left.arena[rows.len()..], &expected, what);
            }
        }
    }
}

#[test]
fn arg_max_is_that_of_the_cpu() {
    let wave = "arg_max(block, [&](u32 i) { return fresh(a.arena + i); }, a.commands[0],
                [&](u32 index, u32 finite) { a.indices[0] = index, a.indices[1] = finite; });";
    let Some(run) = everywhere("", wave) else { return };
    let mut random = Random(5);
    let (nan, least) = (f32::NAN, f32::NEG_INFINITY);
    let mut rows: Vec<Vec<f32>> = vec![
        vec![],
        vec![nan],
        vec![nan; 700],
        vec![nan, least, nan],
        vec![least; 300],
        vec![-0.0, 0.0],
        vec![f32::INFINITY; 2],
        [vec![nan; 520], vec![least], vec![nan; 9]].concat(),
    ];
    for width in [1, 13, 21, 255, 256, 257, 1000, 7709] {
        let mut row = random.floats(width, true);
        rows.push(row.clone());
        // Many equal elements.
        row.iter_mut().for_each(|x| *x = (*x * 3.0).round());
        rows.push(row);
    }
    for row in rows {
        for (device, left) in run((1, &[row.len() as u32], &[], &row, 1)) {
            for level in levels() {
                let ArgMax { index, is_finite } = arg_max(level, &row);
                let expected = [index, u32::from(is_finite)];
                assert_eq!(left.indices[..2], expected, "{device}: {row:?} at {level}");
            }
        }
    }
}
