//! What each form of step does to a memory of terms.

use edbatch_graph::{Arity, Op, ParameterId};

use super::Checked;
use super::memory::Memory;
use super::terms::{Binary, Expression, Term, Terms};
use crate::cell_plan::{Base, CellStep, Elementwise, Mode, Place, Register, Scalar};

/// Carries out a step.
pub(super) fn run(step: &CellStep, memory: &mut Memory<'_>, terms: &mut Terms) -> Checked {
    memory.begin_step();
    let area = |rows: u32, columns: u32| rows as usize * columns as usize;
    match *step {
        CellStep::Reduce { port, from, width, by, out } => {
            memory.may_read(Base::Port(port))?;
            memory.fields(port, Arity::Many, from, width as usize)?;
            let element = |i| terms.of(Expression::Reduced { port, element: from + i, by });
            let result: Vec<Term> = (0..width).map(element).collect();
            memory.write(out, &result)
        }
        CellStep::Product { ref weights, rows, width, x, out, mode } => {
            memory.may_write(out, rows as usize)?;
            let weights = stacked(weights, (rows, width), memory, terms)?;
            let x = memory.read(x, width as usize, terms)?;
            let product = terms.product(&weights, &x, width as usize);
            let start = match mode {
                Mode::Set => None,
                Mode::Add => Some(memory.read_own(out, rows as usize, terms)?),
                Mode::From(start) => Some(memory.read(start, rows as usize, terms)?),
            };
            memory.write(out, &added(start, product, 1, terms))
        }
        CellStep::MatMul { left, ref right, bias, m, k, n, out } => {
            memory.may_write(out, area(m, n))?;
            let pieces: usize = right.iter().map(|&(_, rows)| rows as usize).sum();
            if pieces != k as usize {
                return Err(format!("pieces of {pieces} rows, expected {k}"));
            }
            let left = memory.read(left, area(m, k), terms)?;
            let mut stacked = Vec::new();
            for &(piece, rows) in right {
                stacked.extend(memory.read(piece, area(rows, n), terms)?);
            }
            let product = terms.product(&left, &stacked, k as usize);
            let bias = match bias {
                Some(bias) => Some(memory.read(bias, m as usize, terms)?),
                None => None,
            };
            memory.write(out, &added(bias, product, n as usize, terms))
        }
        CellStep::Elementwise(ref program) => elementwise(program, memory, terms),
        CellStep::Softmax { from, width, out, logarithm } => {
            let vector = memory.read(from, width as usize, terms)?;
            memory.write(out, &terms.softmax(&vector, logarithm))
        }
        CellStep::Copy { from, width, out } => {
            let copied = memory.read(from, width as usize, terms)?;
            memory.write(out, &copied)
        }
        CellStep::Expand { from, rows, columns, out } => {
            memory.may_write(out, area(rows, columns))?;
            let read = memory.read(from, rows as usize, terms)?;
            let repeat = |&term| std::iter::repeat_n(term, columns as usize);
            let expanded: Vec<Term> = read.iter().flat_map(repeat).collect();
            memory.write(out, &expanded)
        }
        CellStep::Transpose { from, rows, columns, out } => {
            let read = memory.read(from, area(rows, columns), terms)?;
            let (rows, columns) = (rows as usize, columns as usize);
            let at = |i: usize| read[i % rows * columns + i / rows];
            let transposed: Vec<Term> = (0..read.len()).map(at).collect();
            memory.write(out, &transposed)
        }
        CellStep::Fill { value, width, out } => {
            memory.may_write(out, width as usize)?;
            let constant = terms.of(Expression::Constant(value.to_bits()));
            memory.write(out, &vec![constant; width as usize])
        }
    }
}

/// Weights of `width` columns, one under the other: `rows` together.
fn stacked(
    weights: &[ParameterId],
    (rows, width): (u32, u32),
    memory: &mut Memory<'_>,
    terms: &mut Terms,
) -> Checked<Vec<Term>> {
    let mut stacked = Vec::new();
    for &id in weights {
        let parameters = memory.program().network().parameters();
        let parameter = parameters.get(id.0 as usize).ok_or("there is no such weight")?;
        if parameter.dims.len() != 2 || parameter.dims[1] != width as usize {
            let got = &parameter.dims;
            return Err(format!("weight {} of {got:?}, expected {width} columns", parameter.name));
        }
        let place = Place { base: Base::Parameter(id), offset: 0 };
        stacked.extend(memory.read(place, parameter.elements(), terms)?);
    }
    let got = stacked.len().checked_div(width as usize).unwrap_or(0);
    if got != rows as usize {
        return Err(format!("weights of {got} rows, expected {rows}"));
    }
    Ok(stacked)
}

/// A product, each element added to that of its row in `start`, if there is one.
fn added(
    start: Option<Vec<Term>>,
    mut product: Vec<Term>,
    columns: usize,
    terms: &mut Terms,
) -> Vec<Term> {
    if let Some(start) = start {
        for (index, element) in product.iter_mut().enumerate() {
            *element = terms.binary(Binary::Add, start[index / columns], *element);
        }
    }
    product
}

/// A program: loads, computes and stores in that order, a whole tensor in each register.
fn elementwise(program: &Elementwise, memory: &mut Memory<'_>, terms: &mut Terms) -> Checked {
    let mut registers: Vec<Vec<Term>> = Vec::new();
    for &input in &program.inputs {
        registers.push(memory.read(input, program.width as usize, terms)?);
    }
    for &instruction in &program.instructions {
        let (op, operands) = operation(instruction);
        let missing = |register: &&Register| usize::from(**register) >= registers.len();
        if let Some(register) = operands.iter().find(missing) {
            return Err(format!("register r{register} is read before it is written"));
        }
        let result = (0..program.width as usize).map(|element| {
            let of = |&register: &Register| registers[usize::from(register)][element];
            let operands: Vec<Term> = operands.iter().map(of).collect();
            terms.elementwise(op, &operands).expect("an element-wise operation")
        });
        let result: Vec<Term> = result.collect();
        registers.push(result);
    }
    for &(register, place) in &program.outputs {
        let stored = registers.get(usize::from(register));
        memory.write(place, stored.ok_or_else(|| format!("there is no register r{register}"))?)?;
    }
    Ok(())
}

/// The operation of an instruction, and the registers that it reads.
fn operation(instruction: Scalar) -> (Op, Vec<Register>) {
    match instruction {
        Scalar::Add(a, b) => (Op::Add, vec![a, b]),
        Scalar::Sub(a, b) => (Op::Sub, vec![a, b]),
        Scalar::Mul(a, b) => (Op::Mul, vec![a, b]),
        Scalar::Div(a, b) => (Op::Div, vec![a, b]),
        Scalar::Neg(a) => (Op::Neg, vec![a]),
        Scalar::Scale(a, factor) => (Op::Scale(factor), vec![a]),
        Scalar::Sigmoid(a) => (Op::Sigmoid, vec![a]),
        Scalar::Tanh(a) => (Op::Tanh, vec![a]),
        Scalar::Relu(a) => (Op::Relu, vec![a]),
        Scalar::Exp(a) => (Op::Exp, vec![a]),
        Scalar::Log(a) => (Op::Log, vec![a]),
    }
}
