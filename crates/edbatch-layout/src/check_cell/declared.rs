//! Evaluates the declaration of a cell symbolically.

use edbatch_graph::{AdjointOp, Instruction, Kind, Op, Shape};

use super::terms::{Expression, Term, Terms};
use crate::cell_plan::AttentionFields;
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
        Op::Normalize(by) => {
            // By rows: a vector is one.
            let columns = match shape {
                Shape::Vector(n) | Shape::Matrix(_, n) => *n as usize,
            };
            terms.normalize(by, &operands[0].elements, columns)
        }
        Op::Dot => {
            let columns = operands[0].elements.len() / shape.elements();
            terms.dot(&operands[0].elements, &operands[1].elements, columns)
        }
        Op::Reshape(_) => operands[0].elements.clone(),
        Op::Select { table } => terms.select(table, &operands[0].elements, count),
        Op::Adjoint(AdjointOp::OneHot { table }) => terms.one_hot(table, count),
        Op::Adjoint(AdjointOp::Ties { port, field }) => {
            terms.ties(port, offset(port, field), &operands[0].elements)
        }
        Op::Adjoint(AdjointOp::AttentionBack { port, keys, values, heads }) => {
            let record = program.network()[kind].ports()[usize::from(port)].record;
            let widths = &program.record(record).widths;
            let field = |field: u16| (offset(port, field), widths[usize::from(field)]);
            let of = AttentionFields { port, keys: field(keys), values: field(values), heads };
            terms.attention_back(of, &operands[0].elements, &operands[1].elements)
        }
        Op::Attention { port, keys, values, heads } => {
            let query = Some(&*operands[0].elements);
            let (keys, values) = (offset(port, keys), offset(port, values));
            terms.attention(port, (query, keys), (heads, values, count))
        }
        Op::SoftmaxSum { port, scores, values } => {
            let record = program.network()[kind].ports()[usize::from(port)].record;
            let heads = program.record(record).widths[usize::from(scores)];
            let (scores, values) = (offset(port, scores), offset(port, values));
            terms.attention(port, (None, scores), (heads, values, count))
        }
        // A product with one term in each sum.
        Op::Adjoint(AdjointOp::Outer) => {
            terms.product(&operands[0].elements, &operands[1].elements, 1)
        }
        Op::Adjoint(AdjointOp::Fold(to)) => {
            let elements = &operands[0].elements;
            terms.fold(elements, elements.len() / to.elements())
        }
        Op::Adjoint(AdjointOp::Share { port }) => terms.share(port, &operands[0].elements),
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
