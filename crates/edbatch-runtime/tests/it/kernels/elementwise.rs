//! Element-wise programs against their operations, computed one by one.

use edbatch_graph::{AdjointOp, Binary, Function, Op};
use edbatch_layout::{Elementwise, Register};
use edbatch_runtime::kernels::{Input, Level, RowsMut, RowsRef, elementwise};
use proptest::prelude::*;

use super::{assert_same_bits, map, noise};

/// The operations of a cell. Operation i writes register `inputs + i`.
#[derive(Debug, Default)]
struct Ops {
    inputs: u16,
    ops: Vec<(Op, Vec<Register>)>,
    outputs: Vec<Register>,
}

impl Ops {
    fn of<const N: usize>() -> (Ops, [Register; N]) {
        let registers = std::array::from_fn(|index| Register(index as u16));
        (Ops { inputs: N as u16, ..Ops::default() }, registers)
    }

    fn push(&mut self, op: Op, operands: &[Register]) -> Register {
        self.ops.push((op, operands.to_vec()));
        Register(self.inputs + self.ops.len() as u16 - 1)
    }
}

/// The output rows for one instance, computed one operation at a time.
fn naive(level: Level, ops: &Ops, inputs: &[&[f32]]) -> Vec<Vec<f32>> {
    let mut values: Vec<Vec<f32>> = inputs.iter().map(|row| row.to_vec()).collect();
    for (op, operands) in &ops.ops {
        let x = &values[operands[0].index()];
        let binary = |f: fn(f32, f32) -> f32| {
            x.iter().zip(&values[operands[1].index()]).map(|(&a, &b)| f(a, b)).collect()
        };
        let value = match *op {
            Op::Binary(Binary::Add) => binary(|a, b| a + b),
            Op::Binary(Binary::Sub) => binary(|a, b| a - b),
            Op::Binary(Binary::Mul) => binary(|a, b| a * b),
            Op::Binary(Binary::Div) => binary(|a, b| a / b),
            Op::Binary(Binary::Maximum) => binary(|a, b| if b.is_nan() || a < b { b } else { a }),
            Op::Binary(Binary::Minimum) => binary(|a, b| if b.is_nan() || b < a { b } else { a }),
            Op::Adjoint(AdjointOp::Larger) => binary(|a, b| match a.partial_cmp(&b) {
                Some(std::cmp::Ordering::Greater) => 1.0,
                Some(std::cmp::Ordering::Less) => 0.0,
                _ => 0.5,
            }),
            Op::Neg => x.iter().map(|x| -x).collect(),
            Op::Scale(factor) => x.iter().map(|x| x * factor).collect(),
            function => {
                let mut y = vec![0.0; x.len()];
                map(level, function, x, &mut y);
                y
            }
        };
        values.push(value);
    }
    ops.outputs.iter().map(|output| values[output.index()].clone()).collect()
}

/// Runs a program on noise and compares every element. The inputs are, in turn, a span, a list and
/// a bias.
fn check(ops: &Ops, rows: usize, width: usize, seed: u64) {
    let inputs: Vec<Vec<f32>> = (0..ops.inputs)
        .map(|i| noise(seed + i as u64, (rows + 1) * width).iter().map(|x| x * 4.0).collect())
        .collect();
    let offsets: Vec<u32> = (0..rows as u32).rev().map(|b| b * width as u32 + b % 2).collect();
    let input_of = |i: usize| match i % 3 {
        0 => Input::Rows(RowsRef::Span { data: &inputs[i][..rows * width], stride: width }),
        1 => Input::Rows(RowsRef::List { data: &inputs[i], offsets: &offsets }),
        _ => Input::Same(&inputs[i][..width]),
    };
    let streams: Vec<_> = (0..inputs.len()).map(input_of).collect();
    let program = Elementwise::new(ops.inputs, &ops.ops, &ops.outputs);
    for level in Level::available() {
        let stride = width + 3;
        let mut out = vec![vec![f32::NAN; rows * stride]; ops.outputs.len()];
        let mut outputs: Vec<_> =
            out.iter_mut().map(|out| RowsMut::new(out, width, stride)).collect();
        elementwise(level, &program, width, &streams, &mut outputs);
        for b in 0..rows {
            let operands = streams.iter().map(|stream| match *stream {
                Input::Rows(rows) => rows.row(b, width),
                Input::Same(row) => row,
            });
            let operands: Vec<_> = operands.collect();
            for (out, expected) in out.iter().zip(naive(level, ops, &operands)) {
                assert_same_bits(&out[b * stride..][..width], &expected, || {
                    format!("{level}: row {b} of {rows}, {width} columns, {program}")
                });
            }
        }
        assert!(
            out.iter().all(|out| {
                out.chunks(stride).all(|row| row[width..].iter().all(|x| x.is_nan()))
            })
        );
    }
}

fn lstm() -> Ops {
    let (mut cell, [i, f, o, g, c, bi, bf, bo, bg]) = Ops::of();
    let mut gate = |x, bias, function| {
        let sum = cell.push(Op::Binary(Binary::Add), &[x, bias]);
        cell.push(function, &[sum])
    };
    let (i, f) =
        (gate(i, bi, Op::Apply(Function::Sigmoid)), gate(f, bf, Op::Apply(Function::Sigmoid)));
    let (o, g) =
        (gate(o, bo, Op::Apply(Function::Sigmoid)), gate(g, bg, Op::Apply(Function::Tanh)));
    let (kept, added) =
        (cell.push(Op::Binary(Binary::Mul), &[f, c]), cell.push(Op::Binary(Binary::Mul), &[i, g]));
    let c = cell.push(Op::Binary(Binary::Add), &[kept, added]);
    let t = cell.push(Op::Apply(Function::Tanh), &[c]);
    let h = cell.push(Op::Binary(Binary::Mul), &[o, t]);
    cell.outputs = vec![h, c];
    cell
}

/// The mean of two GRUs, with intermediate values as outputs: covers every fused form.
fn gru() -> Ops {
    let (mut cell, inputs) = Ops::of::<14>();
    let mut halves = vec![];
    for (function, inputs) in
        [Op::Apply(Function::Sigmoid), Op::Apply(Function::Tanh)].into_iter().zip(inputs.chunks(7))
    {
        let &[r, z, c, h, br, bz, bc] = inputs else { unreachable!("seven each") };
        let (reset, update) = (
            cell.push(Op::Binary(Binary::Add), &[r, br]),
            cell.push(Op::Binary(Binary::Add), &[z, bz]),
        );
        let (reset, update) =
            (cell.push(function, &[reset]), cell.push(Op::Apply(Function::Sigmoid), &[update]));
        let kept = cell.push(Op::Binary(Binary::Mul), &[reset, h]);
        let (state, sum) = (
            cell.push(Op::Binary(Binary::Add), &[c, bc]),
            cell.push(Op::Binary(Binary::Add), &[c, kept]),
        );
        let sum = cell.push(Op::Binary(Binary::Add), &[sum, bc]);
        let (state, sum) =
            (cell.push(Op::Apply(Function::Tanh), &[state]), cell.push(function, &[sum]));
        let difference = cell.push(Op::Binary(Binary::Sub), &[h, state]);
        let moved = cell.push(Op::Binary(Binary::Mul), &[update, difference]);
        halves.push(cell.push(Op::Binary(Binary::Add), &[state, moved]));
        let (difference, open) =
            (cell.push(Op::Binary(Binary::Sub), &[h, c]), cell.push(function, &[c]));
        let moved = cell.push(Op::Binary(Binary::Mul), &[open, difference]);
        let moved = cell.push(Op::Binary(Binary::Add), &[c, moved]);
        cell.outputs.extend([kept, sum, moved]);
    }
    let sum = cell.push(Op::Binary(Binary::Add), &[halves[0], halves[1]]);
    let mean = cell.push(Op::Scale(0.5), &[sum]);
    cell.outputs.push(mean);
    cell
}

#[test]
fn fused_gates_have_the_same_bits() {
    for width in [1, 16, 40, 70, 128, 600] {
        check(&gru(), 5, width, width as u64);
    }
}

#[test]
fn lstm_cells_of_many_widths() {
    for width in [
        1, 2, 3, 5, 7, 8, 13, 16, 17, 31, 32, 33, 48, 63, 64, 65, 100, 128, 255, 256, 257, 300,
        512, 600,
    ] {
        for rows in [1, 2, 3, 15, 16, 17, 33] {
            check(&lstm(), rows, width, width as u64);
        }
    }
}

#[test]
fn outputs_may_be_inputs_and_may_repeat() {
    let (mut ops, [x, y]) = Ops::of();
    let sum = ops.push(Op::Binary(Binary::Add), &[x, x]);
    let more = ops.push(Op::Binary(Binary::Sub), &[sum, y]);
    ops.outputs = vec![y, sum, sum, more, x];
    check(&ops, 3, 20, 1);
}

proptest! {
    /// Slots of temporaries are reused without conflicts.
    #[test]
    fn random_programs(
        codes in prop::collection::vec((0u8..16, any::<u16>(), any::<u16>()), 1..40),
        outputs in prop::collection::vec(any::<u16>(), 1..5),
        rows in 1usize..40,
        width in 1usize..70,
        seed: u32,
    ) {
        let (mut ops, inputs) = Ops::of::<4>();
        let mut values = inputs.to_vec();
        for (code, a, b) in codes {
            let (a, b) = (values[a as usize % values.len()], values[b as usize % values.len()]);
            values.push(match code {
                0 => ops.push(Op::Binary(Binary::Add), &[a, b]),
                1 => ops.push(Op::Binary(Binary::Sub), &[a, b]),
                2 => ops.push(Op::Binary(Binary::Mul), &[a, b]),
                3 => ops.push(Op::Binary(Binary::Div), &[a, b]),
                4 => ops.push(Op::Neg, &[a]),
                5 => ops.push(Op::Scale(0.5), &[a]),
                6 => ops.push(Op::Apply(Function::Sigmoid), &[a]),
                7 => ops.push(Op::Apply(Function::Tanh), &[a]),
                8 => ops.push(Op::Apply(Function::Relu), &[a]),
                9 => ops.push(Op::Apply(Function::Exp), &[a]),
                10 => ops.push(Op::Binary(Binary::Maximum), &[a, b]),
                11 => ops.push(Op::Binary(Binary::Minimum), &[a, b]),
                12 => ops.push(Op::Adjoint(AdjointOp::Larger), &[a, b]),
                13 => ops.push(Op::Apply(Function::Sqrt), &[a]),
                14 => ops.push(Op::Apply(Function::Erf), &[a]),
                _ => ops.push(Op::Apply(Function::Log), &[a]),
            });
        }
        let outputs = outputs.iter().map(|&output| values[output as usize % values.len()]);
        ops.outputs = outputs.collect();
        check(&ops, rows, width, seed as u64);
    }
}
