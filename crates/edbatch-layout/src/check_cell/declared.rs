//! Evaluates the declaration of a cell symbolically.

use edbatch_graph::{Instruction, Kind, Op, Shape};

use super::terms::{Expression, Term, Terms};
use crate::program::Program;

/// Returns the terms of each field that a call of the cell returns.
pub(super) fn outputs(program: &Program, kind: Kind, terms: &mut Terms) -> Vec<Vec<Term>> {
    let cell = &program.network()[kind];
    let mut vars: Vec<Tensor> = Vec::with_capacity(cell.instructions().len());
    for instruction in cell.instructions() {
        let operands: Vec<&Tensor> =
            instruction.operands.iter().map(|operand| &vars[operand.index()]).collect();
        let elements = evaluate(program, kind, instruction, &operands, terms);
        assert_eq!(elements.len(), instruction.shape.elements(), "shapes were inferred");
        vars.push(Tensor { elements, shape: instruction.shape });
    }
    cell.outputs().iter().map(|output| vars[output.index()].elements.clone()).collect()
}

/// A variable of the cell.
struct Tensor {
    elements: Vec<Term>,
    shape: Shape,
}

fn evaluate(
    program: &Program,
    kind: Kind,
    Instruction { op, shape, .. }: &Instruction,
    operands: &[&Tensor],
    terms: &mut Terms,
) -> Vec<Term> {
    let offset = |port: u16, field: u16| {
        let record = program.network()[kind].ports()[usize::from(port)].record;
        program.record(record).offsets[usize::from(field)]
    };
    let count = shape.elements() as u32;
    let mut sources = |expression: &dyn Fn(u32) -> Expression| {
        (0..count).map(|element| terms.of(expression(element))).collect()
    };
    match *op {
        Op::Input { port, field } => {
            let first = offset(port, field);
            sources(&|element| Expression::Port { port, element: first + element })
        }
        Op::Reduce { port, field, by } => {
            let first = offset(port, field);
            sources(&|element| Expression::Reduced { port, element: first + element, by })
        }
        Op::Lookup { table } => sources(&|element| Expression::Table { table, element }),
        Op::Parameter(id) => sources(&|element| Expression::Parameter { id, element }),
        Op::Constant(value) => sources(&|_| Expression::Constant(value.to_bits())),
        Op::MatMul => {
            let k = operands[0].shape.rows_and_columns().1;
            terms.product(&operands[0].elements, &operands[1].elements, k)
        }
        Op::Softmax => terms.softmax(&operands[0].elements, false),
        Op::LogSoftmax => terms.softmax(&operands[0].elements, true),
        // A product with one term in each sum.
        Op::Outer => terms.product(&operands[0].elements, &operands[1].elements, 1),
        Op::Fold(to) => {
            let elements = &operands[0].elements;
            terms.fold(elements, elements.len() / to.elements())
        }
        Op::Share { port } => terms.share(port, &operands[0].elements),
        Op::Concat => operands.iter().flat_map(|operand| operand.elements.clone()).collect(),
        Op::Slice { start, rows } => {
            let columns = operands[0].shape.rows_and_columns().1;
            let (start, rows) = (start as usize * columns, rows as usize * columns);
            operands[0].elements[start..start + rows].to_vec()
        }
        Op::Transpose => {
            let (rows, columns) = operands[0].shape.rows_and_columns();
            let at = |i: usize| operands[0].elements[i % rows * columns + i / rows];
            (0..rows * columns).map(at).collect()
        }
        op => (0..shape.elements())
            .map(|element| {
                let operands: Vec<Term> =
                    operands.iter().map(|operand| operand.repeated(*shape, element)).collect();
                terms.elementwise(op, &operands).expect("all others are element-wise")
            })
            .collect(),
    }
}

impl Tensor {
    /// Returns the element of this operand for element `element` of an element-wise result. A
    /// single element serves for all of the result, a vector's element for one row of a matrix.
    fn repeated(&self, result: Shape, element: usize) -> Term {
        let columns = result.rows_and_columns().1;
        self.elements[match self.elements.len() {
            1 => 0,
            all if all == result.elements() => element,
            _ => element / columns,
        }]
    }
}
