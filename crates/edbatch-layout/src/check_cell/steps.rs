//! Evaluates the steps of a compiled cell symbolically.

use edbatch_graph::{Arity, Binary};

use super::Checked;
use super::memory::Memory;
use super::terms::{Expression, Term, Terms};
use crate::cell_plan::{Base, CellStep, Mode, Place, RowKernel, RowStep, Scores, Weight};
use crate::elementwise::{Assignment, Elementwise, Form, Operation};

/// Evaluates a step, and writes its results to the memory.
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
        CellStep::Elementwise { width, ref inputs, ref outputs, ref program } => {
            elementwise(program, width as usize, (inputs, outputs), memory, terms)
        }
        CellStep::Attention { .. } | CellStep::AttentionBack { .. } => {
            attention(step, memory, terms)
        }
        CellStep::Rows(step) => rows(step, memory, terms),
    }
}

/// Evaluates attention over the values at a port, or its gradient.
fn attention(step: &CellStep, memory: &mut Memory<'_>, terms: &mut Terms) -> Checked {
    match *step {
        CellStep::Attention { port, scores, values, heads, width, out } => {
            memory.may_write(out, width as usize)?;
            memory.may_read(Base::Port(port))?;
            memory.fields(port, Arity::Many, values, width as usize)?;
            let divides = |width: u32| heads > 0 && width.is_multiple_of(heads);
            let query = match scores {
                Scores::Field(scores) => {
                    memory.fields(port, Arity::Many, scores, heads as usize)?;
                    None
                }
                Scores::Keys { query, keys, width } => {
                    memory.fields(port, Arity::Many, keys, width as usize)?;
                    if !divides(width) {
                        return Err(format!("{heads} heads of {width} elements"));
                    }
                    Some(memory.read(query, width as usize, terms)?)
                }
            };
            if !divides(width) {
                return Err(format!("{heads} heads of {width} elements"));
            }
            let (Scores::Field(first) | Scores::Keys { keys: first, .. }) = scores;
            let sums = terms.attention(port, (query.as_deref(), first), (heads, values, width));
            memory.write(out, &sums)
        }
        CellStep::AttentionBack { of, query, gradient, out } => {
            let (keys, values) = (of.keys.1 as usize, of.values.1 as usize);
            let divides = |width: u32| of.heads > 0 && width.is_multiple_of(of.heads);
            if !divides(of.keys.1) || !divides(of.values.1) {
                return Err(format!("{} heads of {keys} and {values} elements", of.heads));
            }
            memory.may_write(out, keys + 2 * of.heads as usize)?;
            memory.may_read(Base::Port(of.port))?;
            memory.fields(of.port, Arity::Many, of.keys.0, keys)?;
            memory.fields(of.port, Arity::Many, of.values.0, values)?;
            let query = memory.read(query, keys, terms)?;
            let gradient = memory.read(gradient, values, terms)?;
            memory.write(out, &terms.attention_back(of, &query, &gradient))
        }
        _ => unreachable!("called for attention"),
    }
}

/// Evaluates a step on the rows of a matrix. All operands are read as the signature says.
fn rows(step: RowStep, memory: &mut Memory<'_>, terms: &mut Terms) -> Checked {
    let RowStep { kernel, rows, columns, out, .. } = step;
    memory.may_write(out, step.written() as usize)?;
    match kernel {
        RowKernel::Select(table) => memory.index(table, rows)?,
        RowKernel::OneHot(table) => memory.index(table, columns)?,
        RowKernel::Share(port) => {
            memory.may_read(Base::Port(port))?;
            memory.many(port)?;
        }
        RowKernel::Ties { port, field } => {
            memory.may_read(Base::Port(port))?;
            memory.fields(port, Arity::Many, field, step.written() as usize)?;
        }
        _ => {}
    }
    let mut operands = Vec::new();
    for (&place, &extent) in step.operands().iter().zip(kernel.signature().operands) {
        operands.push(memory.read(place, step.elements(extent) as usize, terms)?);
    }
    let width = columns as usize;
    let result = match (kernel, &operands[..]) {
        (RowKernel::Normalize(by), [matrix]) => terms.normalize(by, matrix, width),
        (RowKernel::Dot, [left, right]) => terms.dot(left, right, width),
        (RowKernel::Fold, [matrix]) => terms.fold(matrix, width),
        (RowKernel::Transpose, [matrix]) => {
            let at = |i: usize| matrix[i % rows as usize * width + i / rows as usize];
            (0..matrix.len()).map(at).collect()
        }
        (RowKernel::Expand, [column]) => {
            column.iter().flat_map(|&term| std::iter::repeat_n(term, width)).collect()
        }
        (RowKernel::Copy, [copied]) => copied.clone(),
        (RowKernel::Fill(value), []) => {
            let constant = terms.of(Expression::Constant(value.to_bits()));
            vec![constant; step.written() as usize]
        }
        (RowKernel::Select(table), [matrix]) => terms.select(table, matrix, columns),
        (RowKernel::OneHot(table), []) => terms.one_hot(table, columns),
        (RowKernel::Share(port), [tensor]) => terms.share(port, tensor),
        (RowKernel::Ties { port, field }, [like]) => terms.ties(port, field, like),
        _ => unreachable!("the signature says how many operands there are"),
    };
    memory.write(out, &result)
}

/// Stacks weights with `width` columns and a total of `rows` rows.
fn stacked(
    weights: &[Weight],
    (rows, width): (u32, u32),
    memory: &mut Memory<'_>,
    terms: &mut Terms,
) -> Checked<Vec<Term>> {
    let mut stacked = Vec::new();
    for &weight in weights {
        let parameters = memory.program().network().parameters();
        let id = weight.parameter().0 as usize;
        let parameter = parameters.get(id).ok_or("the weight does not exist")?;
        let columns = weight.rows_and_columns(&parameter.dims).map(|(_, columns)| columns);
        if columns != Some(width as usize) {
            let (got, name) = (&parameter.dims, &parameter.name);
            return Err(format!(
                "{weight}: parameter {name} has shape {got:?}, expected {width} columns in the \
                 weight"
            ));
        }
        let place = Place { base: Base::Parameter(weight), offset: 0 };
        stacked.extend(memory.read(place, parameter.elements(), terms)?);
    }
    let got = stacked.len().checked_div(width as usize).unwrap_or(0);
    if got != rows as usize {
        return Err(format!("weights of {got} rows, expected {rows}"));
    }
    Ok(stacked)
}

/// Adds a product to `start`, if given. `start` has an element for each row of the product.
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

/// Runs an element-wise program: loads all inputs, computes, then stores all outputs.
fn elementwise(
    program: &Elementwise,
    width: usize,
    (inputs, outputs): (&[Place], &[Place]),
    memory: &mut Memory<'_>,
    terms: &mut Terms,
) -> Checked {
    if (inputs.len(), outputs.len()) != (program.inputs(), program.outputs()) {
        let (expected, got) = (program.inputs(), inputs.len());
        let (outputs, to) = (program.outputs(), outputs.len());
        return Err(format!(
            "expected {expected} input places and {outputs} output places, got {got} and {to}"
        ));
    }
    if !outputs.is_sorted() {
        return Err("expected outputs in ascending order".into());
    }
    let count = inputs.len() + outputs.len() + program.temporaries();
    let mut registers: Vec<Option<Vec<Term>>> = vec![None; count];
    for (&input, register) in inputs.iter().zip(&mut registers) {
        *register = Some(memory.read(input, width, terms)?);
    }
    for assignment in program.assignments() {
        let result = assigned(assignment, width, &registers, terms);
        let result = result.ok_or_else(|| format!("{assignment}: reads an empty register"))?;
        match registers.get_mut(assignment.result.index()) {
            Some(register) if assignment.result.index() >= inputs.len() => *register = Some(result),
            _ => return Err(format!("{assignment}: writes an invalid register")),
        }
    }
    for (&place, register) in outputs.iter().zip(&registers[inputs.len()..]) {
        let stored = register.as_ref().ok_or_else(|| format!("no value to store at {place}"))?;
        memory.write(place, stored)?;
    }
    Ok(())
}

/// Returns the result of an assignment, if all registers that it reads were written.
fn assigned(
    assignment: &Assignment,
    width: usize,
    registers: &[Option<Vec<Term>>],
    terms: &mut Terms,
) -> Option<Vec<Term>> {
    let operands = assignment.operands().iter();
    let operands = operands.map(|register| registers.get(register.index())?.as_ref());
    let operands: Vec<&Vec<Term>> = operands.collect::<Option<_>>()?;
    let element = |element: usize| {
        let of_element: Vec<Term> = operands.iter().map(|operand| operand[element]).collect();
        value(assignment.operation, &of_element, terms)
    };
    (0..width).map(element).collect()
}

/// Applies, one by one, the cell operations that were fused into a program's operation.
fn value(operation: Operation, operands: &[Term], terms: &mut Terms) -> Option<Term> {
    Some(match (operation, operands) {
        (Operation::Copy, &[a]) => a,
        (Operation::Binary(binary), &[a, b]) => terms.binary(binary, a, b),
        (Operation::Larger, &[a, b]) => terms.of(Expression::Larger(a, b)),
        (Operation::Slope(slope), &[a, b]) => terms.of(Expression::Slope(slope, a, b)),
        (Operation::SlopeOfProduct(slope), &[a, b, c]) => {
            let product = terms.binary(Binary::Mul, a, b);
            terms.of(Expression::Slope(slope, product, c))
        }
        (Operation::Neg, &[a]) => terms.of(Expression::Neg(a)),
        (Operation::Scale(factor), &[a]) => terms.scale(factor, a),
        (Operation::ScaledSum(factor), &[a, b]) => {
            let sum = terms.binary(Binary::Add, a, b);
            terms.scale(factor, sum)
        }
        (Operation::AddProduct, &[a, b, c]) => {
            let product = terms.binary(Binary::Mul, a, b);
            terms.binary(Binary::Add, product, c)
        }
        (Operation::SumOfProducts, &[a, b, c, d]) => {
            let (left, right) = (terms.binary(Binary::Mul, a, b), terms.binary(Binary::Mul, c, d));
            terms.binary(Binary::Add, left, right)
        }
        (Operation::Apply(form, function), operands) => {
            let (argument, others) = argument(form, operands, terms)?;
            let applied = terms.of(Expression::Apply(function, argument));
            around(form, applied, others, terms)?
        }
        _ => return None,
    })
}

/// Returns the argument of a form's function, and the operands that are not part of it.
fn argument<'a>(form: Form, operands: &'a [Term], terms: &mut Terms) -> Option<(Term, &'a [Term])> {
    Some(match (form, operands) {
        (Form::Plain | Form::Times | Form::Between, [a, others @ ..]) => (*a, others),
        (Form::OfSum | Form::OfSumTimes | Form::OfSumBetween, [a, b, others @ ..]) => {
            (terms.binary(Binary::Add, *a, *b), others)
        }
        (Form::OfSums, [a, b, c, others @ ..]) => {
            let sum = terms.binary(Binary::Add, *a, *b);
            (terms.binary(Binary::Add, sum, *c), others)
        }
        _ => return None,
    })
}

/// Applies the operations of a form to the result of its function.
fn around(form: Form, applied: Term, others: &[Term], terms: &mut Terms) -> Option<Term> {
    Some(match (form, others) {
        (Form::Plain | Form::OfSum | Form::OfSums, []) => applied,
        (Form::Times | Form::OfSumTimes, &[factor]) => terms.binary(Binary::Mul, applied, factor),
        (Form::Between | Form::OfSumBetween, &[to, from]) => {
            let difference = terms.binary(Binary::Sub, to, from);
            let product = terms.binary(Binary::Mul, applied, difference);
            terms.binary(Binary::Add, from, product)
        }
        _ => return None,
    })
}
