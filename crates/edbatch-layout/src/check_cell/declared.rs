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
    let field = |port, field| field_of(program, kind, port, field);
    let count = shape.elements() as u32;
    let mut sources = |expression: &dyn Fn(u32) -> Expression| {
        (0..count).map(|element| terms.of(expression(element))).collect()
    };
    match *op {
        Op::Input { port, field: of } => {
            let (first, _) = field(port, of);
            sources(&|element| Expression::Port { port, element: first + element })
        }
        Op::Reduce { port, field: of, by } => {
            let (first, _) = field(port, of);
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
        Op::Attention { port, keys, values, heads } => {
            let query = Some(&*operands[0].elements);
            let ((keys, _), (values, _)) = (field(port, keys), field(port, values));
            terms.attention(port, (query, keys), (heads, values, count))
        }
        Op::SoftmaxSum { port, scores, values } => {
            let ((scores, heads), (values, _)) = (field(port, scores), field(port, values));
            terms.attention(port, (None, scores), (heads, values, count))
        }
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
        Op::Adjoint(op) => adjoint(op, &field, *shape, operands, terms),
        op => elementwise(op, *shape, operands, terms),
    }
}

/// Evaluates an operation that only adjoint cells have. `field` returns the start and the width
/// of a field of a port's record.
fn adjoint(
    op: AdjointOp,
    field: &dyn Fn(u16, u16) -> (u32, u32),
    shape: Shape,
    operands: &[&Tensor],
    terms: &mut Terms,
) -> Vec<Term> {
    let elements = |operand: usize| &*operands[operand].elements;
    match op {
        AdjointOp::OneHot { table } => terms.one_hot(table, shape.elements() as u32),
        AdjointOp::Ties { port, field: of } => terms.ties(port, field(port, of).0, elements(0)),
        AdjointOp::AttentionBack { port, keys, values, heads } => {
            let (keys, values) = (field(port, keys), field(port, values));
            let of = AttentionFields { port, keys, values, heads };
            terms.attention_back(of, elements(0), elements(1))
        }
        // A product with one term in each sum.
        AdjointOp::Outer => terms.product(elements(0), elements(1), 1),
        AdjointOp::Fold(to) => terms.fold(elements(0), elements(0).len() / to.elements()),
        AdjointOp::Share { port } => terms.share(port, elements(0)),
        AdjointOp::Slope(_) | AdjointOp::Larger => {
            elementwise(Op::Adjoint(op), shape, operands, terms)
        }
    }
}

fn elementwise(op: Op, shape: Shape, operands: &[&Tensor], terms: &mut Terms) -> Vec<Term> {
    let of_element = |element| {
        let operands: Vec<Term> =
            operands.iter().map(|operand| operand.repeated(shape, element)).collect();
        terms.elementwise(op, &operands).expect("all others are element-wise")
    };
    (0..shape.elements()).map(of_element).collect()
}

/// Returns the start and the width of a field in the rows that a port reads.
fn field_of(program: &Program, kind: Kind, port: u16, field: u16) -> (u32, u32) {
    let record = program.record(program.network()[kind].ports()[usize::from(port)].record);
    (record.offsets[usize::from(field)], record.widths[usize::from(field)])
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
