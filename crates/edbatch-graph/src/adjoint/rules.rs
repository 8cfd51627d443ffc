//! The gradient of each operation: ḡ is the gradient of the result y, and each operand gets a term.
//!
//! The order in which rules ask for values and push operations is the order of the adjoint's fields
//! and instructions.

mod elementwise;
mod ports;
mod rows;

use super::{Derivation, Sum};
use crate::{AdjointOp, Binary, CellError, Instruction, Op, Shape, Var};

impl Derivation<'_> {
    /// Adds a term to the gradient of each operand of a variable whose gradient is `g`.
    pub(super) fn differentiate(&mut self, var: Var, g: Var) -> Result<(), CellError> {
        let Instruction { op, operands, shape } = self.cell.instruction(var);
        let (op, shape) = (*op, *shape);
        match (op, &operands[..]) {
            (Op::Input { port, field }, _) => {
                self.contributions.entry((port, field)).or_default().push(g);
            }
            (Op::Reduce { port, field, by }, _) => self.reduction((port, field), by, var, g),
            (Op::Attention { port, keys, values, heads }, &[query]) => {
                self.attention(AdjointOp::AttentionBack { port, keys, values, heads }, query, g);
            }
            (Op::SoftmaxSum { port, scores, values }, _) => {
                self.softmax_sum(port, scores, values, var, g);
            }
            (Op::Lookup { table }, _) => {
                self.rows.insert(table, g);
            }
            (Op::Select { table }, &[a]) => self.selected(a, table, g),
            (Op::Parameter(parameter), _) => self.sums.push(Sum::Elements { parameter, from: g }),
            (Op::Constant(_), _) => {}
            (Op::MatMul, &[a, b]) => self.product(a, b, g),
            (Op::Dot, &[a, b]) => self.dot(a, b, g),
            (Op::Neg, &[a]) => self.term_of(a, Op::Neg, &[g]),
            (Op::Scale(factor), &[a]) => self.term_of(a, Op::Scale(factor), &[g]),
            (Op::Apply(function), &[a]) => self.function(function, a, var, g),
            (Op::Binary(binary), &[a, b]) => self.binary(binary, [a, b], var, g),
            (Op::Normalize(by), &[a]) => self.normalization(by, a, var, g),
            (Op::Reshape(_), &[a]) => {
                self.term_of(a, Op::Reshape(self.cell.instruction(a).shape), &[g]);
            }
            (Op::Concat, parts) => {
                let mut start = 0;
                for &operand in parts {
                    let rows = super::rows(self.cell.instruction(operand).shape);
                    self.term_of(operand, Op::Slice { start, rows }, &[g]);
                    start += rows;
                }
            }
            (Op::Slice { start, .. }, &[operand]) => {
                if self.needs[operand.index()] {
                    self.terms[operand.index()].slices.push((start, g));
                }
            }
            (Op::Transpose, &[a]) => self.term_of(a, Op::Transpose, &[g]),
            (Op::Dropout(_), _) => unreachable!("cells are stored without dropout"),
            (Op::Adjoint(_), _) => {
                let expected = "an operation that is not only in adjoint cells";
                return Err(CellError::new(self.cell.name(), op.to_string(), &[shape], expected));
            }
            (op, _) => unreachable!("{op} has all its operands"),
        }
        Ok(())
    }

    /// Adds a term to a variable's gradient, summed where the variable was broadcast.
    fn term(&mut self, operand: Var, term: Var) {
        if !self.needs[operand.index()] {
            return;
        }
        let shape = self.cell.instruction(operand).shape;
        let is_broadcast = self.shape(term) != shape;
        let term = if is_broadcast { self.push(AdjointOp::Fold(shape), &[term]) } else { term };
        self.terms[operand.index()].whole.push(term);
    }

    /// Adds the result of an operation to a variable's gradient, if that is needed.
    fn term_of(&mut self, operand: Var, op: impl Into<Op>, operands: &[Var]) {
        if self.needs[operand.index()] {
            let term = self.push(op, operands);
            self.term(operand, term);
        }
    }

    /// Differentiates the choice of an element or a row by the call's index.
    fn selected(&mut self, operand: Var, table: u16, g: Var) {
        let shape = self.cell.instruction(operand).shape;
        let rows = Shape::Vector(shape.rows_and_columns().0 as u32);
        let one_hot = self.push_source(AdjointOp::OneHot { table }, rows);
        let op = match shape {
            Shape::Vector(_) => Op::Binary(Binary::Mul),
            Shape::Matrix(..) => Op::Adjoint(AdjointOp::Outer),
        };
        self.term_of(operand, op, &[one_hot, g]);
    }

    /// Differentiates y = a · b.
    fn product(&mut self, a: Var, b: Var, g: Var) {
        let left = self.cell.instruction(a);
        let is_vector = matches!(self.cell.instruction(b).shape, Shape::Vector(_));
        let parameter = |var: Var| match self.cell.instruction(var).op {
            Op::Parameter(id) => Some(id),
            _ => None,
        };
        let transposed = match left.op {
            Op::Transpose if is_vector => parameter(left.operands[0]),
            _ => None,
        };
        if let Some(parameter) = parameter(a) {
            if self.needs[a.index()] {
                let x = self.value(b);
                let (delta, x, pairs) = match self.shape(x) {
                    Shape::Vector(_) => (g, x, 1),
                    Shape::Matrix(_, columns) => {
                        let delta = self.push(Op::Transpose, &[g]);
                        (delta, self.transpose(b), columns)
                    }
                };
                self.sums.push(Sum::Products { parameter, delta, x, pairs });
            }
        } else if let Some(parameter) = transposed {
            if self.needs[a.index()] {
                let delta = self.value(b);
                self.sums.push(Sum::Products { parameter, delta, x: g, pairs: 1 });
            }
        } else if self.needs[a.index()] && is_vector {
            let b = self.value(b);
            self.term_of(a, AdjointOp::Outer, &[g, b]);
        } else if self.needs[a.index()] {
            let b = self.transpose(b);
            self.term_of(a, Op::MatMul, &[g, b]);
        }
        if self.needs[b.index()] {
            let a = self.transpose(a);
            self.term_of(b, Op::MatMul, &[a, g]);
        }
    }

    /// Returns the adjoint's variable with the transpose of a forward variable.
    fn transpose(&mut self, var: Var) -> Var {
        let Instruction { op, operands, .. } = self.cell.instruction(var);
        if *op == Op::Transpose {
            return self.value(operands[0]);
        }
        if let Some(&known) = self.transposed.get(&var) {
            return known;
        }
        let value = self.value(var);
        let transposed = self.push(Op::Transpose, &[value]);
        self.transposed.insert(var, transposed);
        transposed
    }
}
