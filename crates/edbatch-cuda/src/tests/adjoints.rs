//! Steps of adjoint cells: slopes, sums of columns, shares, ties, one-hot vectors, and the gradient
//! of attention.

use edbatch_graph::{AdjointOp, Binary, Op, Slope};
use edbatch_layout::{Elementwise, Operation, Register};
use edbatch_runtime::kernels::attention::Side;
use edbatch_runtime::kernels::{Input, RowsMut, RowsRef, attention_back, elementwise, math};

use super::{LIST, Random, assert_same_bits, everywhere, levels};
use crate::operations::value;

#[test]
fn slopes_have_the_bits_of_the_cpu() {
    let [a, b, c, d] = [0, 1, 2, 3].map(Register);
    // Each operation, and the operations of a cell that become it.
    let mut all = vec![(Operation::Larger, vec![(Op::Adjoint(AdjointOp::Larger), vec![a, b])])];
    for slope in [Slope::Sigmoid, Slope::Tanh, Slope::Relu] {
        let of = |g, y| (Op::Adjoint(AdjointOp::Slope(slope)), vec![g, y]);
        all.push((Operation::Slope(slope), vec![of(a, b)]));
        let product = (Op::Binary(Binary::Mul), vec![a, b]);
        all.push((Operation::SlopeOfProduct(slope), vec![product, of(d, c)]));
    }
    let mut random = Random(11);
    for (operation, ops) in all {
        let program = Elementwise::new(3, &ops, &[Register(2 + ops.len() as u16)]);
        let used: Vec<Operation> = program.assignments().iter().map(|it| it.operation).collect();
        assert_eq!(used, [operation]);
        let names = ["r0", "r1", "r2", "r2"].map(String::from);
        let wave = format!(
            "u32 count = a.commands[0];
            block.superstep([&](u32 t) {{
                for (u32 i = t; i < count; i += THREADS) {{
                    float r0 = fresh(a.arena + i), r1 = fresh(a.arena + count + i);
                    float r2 = fresh(a.arena + 2 * count + i);
                    a.arena[3 * count + i] = {};
                }}
            }});",
            value(operation, names)
        );
        let Some(run) = everywhere("", &wave) else { return };
        const COUNT: usize = 30_000;
        let mut from = random.floats(3 * COUNT, true);
        // Some pairs are equal.
        (0..COUNT).step_by(7).for_each(|i| from[COUNT + i] = from[i]);
        let lefts = run((1, &[COUNT as u32], &[], &from, COUNT));
        for level in levels() {
            let mut expected = vec![0.0; COUNT];
            let inputs: Vec<Input<'_>> = from.chunks_exact(COUNT).map(Input::Same).collect();
            let to = RowsMut::contiguous(&mut expected, COUNT);
            elementwise(level, &program, COUNT, &inputs, &mut [to]);
            for (device, left) in &lefts {
                let what = || format!("{device}: {operation:?} at {level}");
                assert_same_bits(&left.arena[3 * COUNT..], &expected, what);
            }
        }
    }
}

/// Each block computes a slice of the units of four steps. The command list: a job with the
/// operands matrix, values and index; rows and columns of the matrix.
const STEPS: &str = "DEVICE void run_steps(TeamBlock block, const Arguments& a) {
    u32 rows = a.commands[14], columns = a.commands[15], all = rows * columns;
    u32 calls = a.commands[1], stride = rows + 2 * all + columns;
    Job j(a, a.commands, Share{0, 0, calls, block.index, block.slices, 0, TILE}, block.ahead());
    find_rows(block, j, 5);
    Rows from(j.arena, 0);
    fold(block, j, from, columns, output(j, stride, 0), rows);
    share(block, j, from, 1, output(j, stride, rows), all);
    ties(block, j, from, 1, 2, output(j, stride, rows + all), all);
    one_hot(block, j, 2, output(j, stride, rows + 2 * all), columns);
}";

#[test]
fn sums_shares_ties_and_one_hot_vectors_have_the_bits_of_the_cpu() {
    let Some(run) = everywhere(STEPS, "run_steps(block, a);") else { return };
    let mut random = Random(12);
    for (calls, rows, columns) in
        [(1, 1, 1), (3, 2, 5), (16, 1, 16), (16, 3, 17), (7, 13, 21), (5, 2, 300)]
    {
        let all = rows * columns;
        // Many equal elements, also zeros of both signs.
        let mut arena = random.floats(40 * (all + 2), true);
        arena.iter_mut().for_each(|x| *x = (*x * 2.0).round());
        let mut starts = |count: usize| -> Vec<u32> {
            (0..count).map(|_| random.below(39 * (all + 2)) as u32).collect()
        };
        let matrices = starts(calls);
        // Calls have no value, one, two and so on.
        let ends: Vec<u32> = (0..calls as u32).map(|call| call * (call + 1) / 2).collect();
        let values = starts(ends[calls - 1] as usize);
        let indices: Vec<u32> = (0..calls).map(|_| random.below(columns) as u32).collect();
        let (list, out, stride) = (16, arena.len(), rows + 2 * all + columns);
        let of_values = [list + calls, list + 2 * calls];
        let of_indices = of_values[1] + values.len();
        let head = [0, calls, out, 0, 0, 3, 0, 0, list, LIST, of_values[0], of_values[1]];
        let head = head.into_iter().chain([of_indices, LIST, rows, columns]);
        let head: Vec<u32> = head.map(|n| n as u32).collect();
        let commands = [&head[..], &matrices, &ends, &values, &indices].concat();
        let blocks = 1 + random.below(4) as u32;
        let lefts = run((blocks, &commands, &[], &arena, calls * stride));
        for level in levels() {
            let mut expected = Vec::new();
            for call in 0..calls {
                let matrix = &arena[matrices[call] as usize..][..all];
                let mut sums = vec![0.0; rows];
                math::sum_rows(level, matrix, &mut sums);
                expected.extend(sums);
                let first = call.checked_sub(1).map_or(0, |before| ends[before] as usize);
                let of_call = &values[first..ends[call] as usize];
                expected.extend(matrix.iter().map(|x| x / of_call.len() as f32));
                let ties = |(i, like): (usize, &f32)| {
                    let equal = of_call.iter().filter(|&&row| arena[row as usize + 2 + i] == *like);
                    equal.count() as f32
                };
                expected.extend(matrix.iter().enumerate().map(ties));
                let is_index = |column| f32::from(u8::from(column == indices[call]));
                expected.extend((0..columns as u32).map(is_index));
            }
            for (device, left) in &lefts {
                let what = || format!("{device}: {calls} calls of [{rows}, {columns}] at {level}");
                assert_same_bits(&left.arena[out..], &expected, what);
            }
        }
    }
}

#[test]
fn the_gradient_of_attention_has_the_bits_of_the_cpu() {
    // Values, then keys, then a gradient and a query: (count, width) each. Two heads.
    let wave = "u32 count = a.commands[0], width = a.commands[1], half = width / 2;
        const float *values = a.arena, *keys = values + count * width;
        const float *gradient = keys + count * width, *query = gradient + width;
        float* out = a.arena + (2 * count + 2) * width;
        for (u32 h = 0; h < 2; ++h) {
            auto dots = [&](const float* own, const float* all, u32 j) {
                return dot_rows(half, [&](u32 i) { return own[h * half + i]; },
                                [&](u32 i) { return all[j * width + h * half + i]; });
            };
            attend_back(block, count, half, [&](u32 j) { return dots(query, keys, j); },
                        [&](u32 j) { return dots(gradient, values, j); },
                        [&](u32 j, u32 c) { return keys[j * width + h * half + c]; },
                        [&](u32 c) { return out[h * half + c]; },
                        [&](u32 c, float x) { out[h * half + c] = x; },
                        [&](float logarithm, float product) {
                            out[width + h] = logarithm, out[width + 2 + h] = product;
                        });
        }";
    let Some(run) = everywhere("", wave) else { return };
    let mut random = Random(13);
    // 9,000 scores do not fit in shared memory.
    for (count, width) in [(1, 2), (2, 30), (5, 34), (16, 32), (17, 200), (300, 600), (9000, 6)] {
        for tiny in [false, true] {
            let mut rows = random.floats((2 * count + 2) * width, false);
            if tiny {
                // The gradient times a value is the smallest number below 0, and times the softmax
                // of several scores it is -0.
                rows[2 * count * width..][..width].fill(0.0);
                for head in [0, width / 2] {
                    rows[2 * count * width + head] = -f32::from_bits(1);
                    (0..count).for_each(|value| rows[value * width + head] = 1.0);
                }
            }
            let lefts = run((1, &[count as u32, width as u32], &[], &rows, width + 4));
            let list = |first: usize, count: usize| -> Vec<u32> {
                (first..first + count).map(|row| (row * width) as u32).collect()
            };
            let (values, keys) = (list(0, count), list(count, count));
            let (gradient, query) = (list(2 * count, 1), list(2 * count + 1, 1));
            let list = |offsets| RowsRef::List { data: &rows, offsets };
            for level in levels() {
                let (mut expected, mut scores) = (vec![0.0; width + 4], vec![0.0; 2 * count]);
                let side = |own, rows| Side { own: list(own), rows: list(rows), width };
                let (keys, values) = (side(&query, &keys), side(&gradient, &values));
                let out = RowsMut::contiguous(&mut expected, width + 4);
                attention_back(level, 2, keys, values, &[count as u32], &mut scores, out);
                for (device, left) in &lefts {
                    let what = || format!("{device}: {count} values of {width} at {level}");
                    assert_same_bits(&left.arena[rows.len()..], &expected, what);
                }
            }
        }
    }
}
