//! Mutants of element-wise programs.

use edbatch_graph::{AdjointOp, Binary, Function, Op, Slope};
use edbatch_layout::{Assignment, Elementwise, Form, Operation, Register};
use rand::RngExt;

use super::networks::Random;

/// An operation of a cell and its operands.
type Applied = (Op, Vec<Register>);
type Ops = Vec<Applied>;

/// Returns changed programs, most of them with the same numbers of inputs and outputs.
pub(crate) fn mutants(program: &Elementwise, rng: &mut Random) -> Vec<(&'static str, Elementwise)> {
    let inputs = program.inputs();
    let (ops, outputs) = operations(program);
    let compiled = |ops: &Ops, outputs: &[Register]| Elementwise::new(inputs as u16, ops, outputs);
    let mut made = Vec::new();
    for index in 0..ops.len() {
        let mut change = |how, change: &mut dyn FnMut(&mut Applied)| {
            let mut ops = ops.clone();
            change(&mut ops[index]);
            made.push((how, compiled(&ops, &outputs)));
        };
        for op in other_ops(ops[index].0) {
            change("another operation", &mut |(o, _)| *o = op);
        }
        change("operands swapped", &mut |(_, operands)| operands.reverse());
        change("another operand", &mut |(_, operands)| {
            let operand = rng.random_range(0..operands.len());
            operands[operand] = Register(rng.random_range(0..(inputs + index) as u16));
        });
    }
    let registers = (inputs + ops.len()) as u16;
    for index in 0..outputs.len() {
        let mut others = outputs.clone();
        others[index] = Register(rng.random_range(0..registers));
        made.push(("another output", compiled(&ops, &others)));
        let mut fewer = outputs.clone();
        fewer.remove(index);
        made.push(("one output less", compiled(&ops, &fewer)));
    }
    let more = [&outputs[..], &[Register(rng.random_range(0..registers))]].concat();
    made.push(("one output more", compiled(&ops, &more)));
    made
}

/// Other operations with the same number of operands.
fn other_ops(op: Op) -> Vec<Op> {
    let larger = AdjointOp::Larger.into();
    let all: Vec<Op> = match op {
        Op::Binary(_) | Op::Adjoint(AdjointOp::Larger) => {
            Binary::ALL.iter().map(|&binary| binary.into()).chain([larger]).collect()
        }
        Op::Adjoint(AdjointOp::Slope(_)) => {
            let slopes = [Slope::Sigmoid, Slope::Tanh, Slope::Relu];
            let slopes = slopes.into_iter().map(|slope| AdjointOp::Slope(slope).into());
            slopes.chain([Binary::Add.into(), Binary::Mul.into()]).collect()
        }
        Op::Scale(factor) => vec![Op::Scale(2.0 * factor), Op::Scale(-factor), Op::Neg],
        _ => {
            let functions = Function::ALL.iter().map(|&function| function.into());
            [Op::Neg].into_iter().chain(functions).chain([Op::Scale(0.5)]).collect()
        }
    };
    all.into_iter().filter(|&other| other != op).collect()
}

/// Returns the cell operations of a program, with a register for each result, and the registers of
/// its outputs.
fn operations(program: &Elementwise) -> (Ops, Vec<Register>) {
    let (inputs, outputs) = (program.inputs(), program.outputs());
    // For each register of the program, the register of `ops` that holds its current value.
    let mut now: Vec<Register> = (0..inputs as u16).map(Register).collect();
    now.resize(inputs + outputs + program.temporaries(), Register(u16::MAX));
    let mut ops = Ops::new();
    for assignment in program.assignments() {
        let operands = assignment.operands().iter().map(|operand| now[operand.index()]).collect();
        let result = expand(assignment, operands, &mut |op, operands| {
            ops.push((op, operands.to_vec()));
            Register((inputs + ops.len() - 1) as u16)
        });
        now[assignment.result.index()] = result;
    }
    (ops, now[inputs..inputs + outputs].to_vec())
}

/// Expands an assignment to operations; `run` returns the register of each result.
fn expand(
    assignment: &Assignment,
    of: Vec<Register>,
    run: &mut impl FnMut(Op, &[Register]) -> Register,
) -> Register {
    match assignment.operation {
        Operation::Copy => of[0],
        Operation::Binary(binary) => run(binary.into(), &of),
        Operation::Larger => run(AdjointOp::Larger.into(), &of),
        Operation::Neg => run(Op::Neg, &of),
        Operation::Slope(slope) => run(AdjointOp::Slope(slope).into(), &of),
        Operation::SlopeOfProduct(slope) => {
            let product = run(Binary::Mul.into(), &of[..2]);
            run(AdjointOp::Slope(slope).into(), &[product, of[2]])
        }
        Operation::Scale(factor) => run(Op::Scale(factor), &of),
        Operation::ScaledSum(factor) => {
            let sum = run(Binary::Add.into(), &of);
            run(Op::Scale(factor), &[sum])
        }
        Operation::AddProduct => {
            let product = run(Binary::Mul.into(), &of[..2]);
            run(Binary::Add.into(), &[product, of[2]])
        }
        Operation::SumOfProducts => {
            let products = [run(Binary::Mul.into(), &of[..2]), run(Binary::Mul.into(), &of[2..])];
            run(Binary::Add.into(), &products)
        }
        Operation::Apply(form, function) => applied(form, function, &of, run),
    }
}

fn applied(
    form: Form,
    function: Function,
    of: &[Register],
    run: &mut impl FnMut(Op, &[Register]) -> Register,
) -> Register {
    let (mut argument, mut others) = (of[0], &of[1..]);
    if matches!(form, Form::OfSum | Form::OfSums | Form::OfSumTimes | Form::OfSumBetween) {
        (argument, others) = (run(Binary::Add.into(), &of[..2]), &of[2..]);
    }
    if form == Form::OfSums {
        argument = run(Binary::Add.into(), &[argument, of[2]]);
    }
    let result = run(function.into(), &[argument]);
    match form {
        Form::Plain | Form::OfSum | Form::OfSums => result,
        Form::Times | Form::OfSumTimes => run(Binary::Mul.into(), &[result, others[0]]),
        Form::Between | Form::OfSumBetween => {
            let difference = run(Op::Binary(Binary::Sub), others);
            let product = run(Binary::Mul.into(), &[result, difference]);
            run(Binary::Add.into(), &[others[1], product])
        }
    }
}
