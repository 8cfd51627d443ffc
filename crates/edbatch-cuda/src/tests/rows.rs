//! Reductions, softmax and argmax.

use edbatch_graph::Reduction;

use super::{Random, assert_same_bits, everywhere, levels};
use edbatch_runtime::kernels::{RowsMut, RowsRef, arg_max, math, reduce};

#[test]
fn reductions_have_the_bits_of_the_cpu() {
    // The sum, mean and maximum of each column of (count, width) elements.
    let wave = "u32 count = a.commands[0], width = a.commands[1];
        block.superstep([&](u32 t) {
            for (u32 i = t; i < width; i += THREADS) {
                auto at = [&](u32 row) { return fresh(a.arena + row * width + i); };
                float* to = a.arena + count * width + i;
                to[0] = reduce_sum(count, at);
                to[width] = reduce_mean(count, at);
                to[2 * width] = reduce_max(count, at);
            }
        });";
    let Some(run) = everywhere("", wave) else { return };
    let mut random = Random(3);
    for (count, width) in [(0, 5), (1, 21), (2, 13), (3, 1), (7, 64), (40, 300)] {
        let rows = random.floats(count * width, true);
        let commands = [count as u32, width as u32];
        let lefts = run((1, &commands, &[], &rows, 3 * width));
        let offsets: Vec<u32> = (0..count).map(|row| (row * width) as u32).collect();
        for level in levels() {
            let mut expected = vec![0.0; 3 * width];
            let all = [Reduction::Sum, Reduction::Mean, Reduction::Max];
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
fn arg_max_is_that_of_the_cpu() {
    let wave = "arg_max(block, [&](u32 i) { return fresh(a.arena + i); }, a.commands[0],
                        [&](u32 index) { a.indices[0] = index; });
        copy(block, a.commands[0], [&](u32 i) { return fresh(a.arena + i); },
             [&](u32 i, float x) { a.arena[a.commands[0] + i] = x; });";
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
        for (device, left) in run((1, &[row.len() as u32], &[], &row, row.len())) {
            for level in levels() {
                let expected = arg_max(level, &row) as u32;
                assert_eq!(left.indices[0], expected, "{device}: {row:?} at {level}");
            }
            assert_same_bits(&left.arena[row.len()..], &row, || "a copy".to_string());
        }
    }
}
