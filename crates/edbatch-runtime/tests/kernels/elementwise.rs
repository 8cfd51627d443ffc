//! Programs against the same instructions one float at a time.

use edbatch_runtime::kernels::{
    Elementwise, Function, Input, Level, Program, Rows, RowsMut,
    math::map_in_place,
    program::{Instruction, Value},
};
use proptest::prelude::*;

use super::{assert_same_bits, noise};

/// The outputs for one instance and one column.
fn naive(level: Level, program: &Program, inputs: &[f32]) -> Vec<f32> {
    let mut values: Vec<f32> = vec![];
    for &instruction in program.instructions() {
        let of = |value: Value| values[value.index()];
        let value = match instruction {
            Instruction::Input(input) => inputs[input as usize],
            Instruction::Constant(x) => x,
            Instruction::Add(a, b) => of(a) + of(b),
            Instruction::Subtract(a, b) => of(a) - of(b),
            Instruction::Multiply(a, b) => of(a) * of(b),
            Instruction::Divide(a, b) => of(a) / of(b),
            Instruction::Negate(x) => -of(x),
            Instruction::Scale(x, factor) => of(x) * factor,
            Instruction::Apply(function, x) => {
                let mut y = [of(x)];
                map_in_place(level, function, &mut y);
                y[0]
            }
        };
        values.push(value);
    }
    program.outputs().iter().map(|value| values[value.index()]).collect()
}

/// Runs a program on noise (every third input a bias, every other one a list) and compares each element.
fn check(program: &Program, rows: usize, width: usize, seed: u64) {
    let inputs: Vec<Vec<f32>> = (0..program.input_count())
        .map(|i| noise(seed + i as u64, (rows + 1) * width).iter().map(|x| x * 4.0).collect())
        .collect();
    let offsets: Vec<u32> = (0..rows as u32).rev().map(|b| b * width as u32 + b % 2).collect();
    let input_of = |i: usize| match i % 3 {
        0 => Input::Rows(Rows::Span { data: &inputs[i][..rows * width], stride: width }),
        1 => Input::Rows(Rows::List { data: &inputs[i], offsets: &offsets }),
        _ => Input::Same(&inputs[i][..width]),
    };
    let streams: Vec<_> = (0..inputs.len()).map(input_of).collect();
    for level in Level::available() {
        let stride = width + 3;
        let mut out = vec![vec![f32::NAN; rows * stride]; program.outputs().len()];
        let mut outputs: Vec<_> =
            out.iter_mut().map(|out| RowsMut::new(out, width, stride)).collect();
        Elementwise::new(program).run(level, width, &streams, &mut outputs);
        for b in 0..rows {
            for column in 0..width {
                let operands: Vec<f32> = streams
                    .iter()
                    .map(|stream| match stream {
                        Input::Rows(rows) => rows.row(b, width)[column],
                        Input::Same(row) => row[column],
                    })
                    .collect();
                let got: Vec<_> = out.iter().map(|out| out[b * stride + column]).collect();
                assert_same_bits(&got, &naive(level, program, &operands), || {
                    format!("{level}: row {b} of {rows}, column {column} of {width}, {program:?}")
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

fn lstm() -> Program {
    let mut cell = Program::new();
    let [i, f, o, g, c, bi, bf, bo, bg] = cell.inputs();
    let mut gate = |x, bias, function| {
        let sum = cell.add(x, bias);
        cell.apply(function, sum)
    };
    let (i, f) = (gate(i, bi, Function::Sigma), gate(f, bf, Function::Sigma));
    let (o, g) = (gate(o, bo, Function::Sigma), gate(g, bg, Function::Tanh));
    let (kept, added) = (cell.multiply(f, c), cell.multiply(i, g));
    let c = cell.add(kept, added);
    let t = cell.apply(Function::Tanh, c);
    let h = cell.multiply(o, t);
    cell.output(h);
    cell.output(c);
    cell
}

/// The mean of two gated recurrent units, and what one of them keeps of its state: every fused form.
fn gru() -> Program {
    let mut cell = Program::new();
    let mut halves = vec![];
    for function in [Function::Sigma, Function::Tanh] {
        let [r, z, c, h, br, bz, bc] = cell.inputs();
        let (reset, update) = (cell.add(r, br), cell.add(z, bz));
        let (reset, update) = (cell.apply(function, reset), cell.apply(Function::Sigma, update));
        let kept = cell.multiply(reset, h);
        let (state, sum) = (cell.add(c, bc), cell.add(c, kept));
        let sum = cell.add(sum, bc);
        let (state, sum) = (cell.apply(Function::Tanh, state), cell.apply(function, sum));
        let difference = cell.subtract(h, state);
        let moved = cell.multiply(update, difference);
        halves.push(cell.add(state, moved));
        cell.output(kept);
        cell.output(sum);
        let (difference, open) = (cell.subtract(h, c), cell.apply(function, c));
        let moved = cell.multiply(open, difference);
        let moved = cell.add(c, moved);
        cell.output(moved);
    }
    let sum = cell.add(halves[0], halves[1]);
    let mean = cell.scale(sum, 0.5);
    cell.output(mean);
    cell
}

#[test]
fn gates_are_fused_without_a_change() {
    for width in [1, 16, 40, 70, 128, 600] {
        check(&gru(), 5, width, width as u64);
    }
}

#[test]
fn an_lstm_cell_of_every_width() {
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
fn inputs_can_be_outputs_and_outputs_can_repeat() {
    let mut program = Program::new();
    let [x, y] = program.inputs();
    let sum = program.add(x, x);
    let one = program.constant(1.0);
    let more = program.subtract(sum, one);
    for value in [y, sum, sum, more, x] {
        program.output(value);
    }
    check(&program, 3, 20, 1);
}

proptest! {
    /// Random programs: slots are reused without a clash.
    #[test]
    fn random_programs(
        codes in prop::collection::vec((0u8..12, any::<u16>(), any::<u16>()), 1..40),
        outputs in prop::collection::vec(any::<u16>(), 1..5),
        rows in 1usize..40,
        width in 1usize..70,
        seed: u32,
    ) {
        let mut program = Program::new();
        let mut values: Vec<Value> = program.inputs::<4>().to_vec();
        for (code, a, b) in codes {
            let (a, b) = (values[a as usize % values.len()], values[b as usize % values.len()]);
            values.push(match code {
                0 => program.constant(0.25),
                1 => program.add(a, b),
                2 => program.subtract(a, b),
                3 => program.multiply(a, b),
                4 => program.divide(a, b),
                5 => program.negate(a),
                6 => program.scale(a, 0.5),
                7 => program.apply(Function::Sigma, a),
                8 => program.apply(Function::Tanh, a),
                9 => program.apply(Function::Relu, a),
                10 => program.apply(Function::Exp, a),
                _ => program.apply(Function::Ln, a),
            });
        }
        for output in outputs {
            program.output(values[output as usize % values.len()]);
        }
        check(&program, rows, width, seed as u64);
    }
}
