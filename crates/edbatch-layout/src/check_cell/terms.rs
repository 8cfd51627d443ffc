//! Terms: symbolic values of tensor elements, over the elements that a call reads.

use std::collections::HashMap;

use edbatch_graph::{Op, ParameterId, Reduction, Slope};

use crate::elementwise::Function;

/// A hash-consed expression: two terms are equal if and only if their expressions are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Term(u32);

/// The expression of a term.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Expression {
    /// An element of the row that the call names at a table port.
    Table { table: u16, element: u32 },
    /// An element of the value at a port.
    Port { port: u16, element: u32 },
    /// An element of the reduced values at a port that takes any number of them.
    Reduced { port: u16, element: u32, by: Reduction },
    /// An element of a parameter.
    Parameter { id: ParameterId, element: u32 },
    /// A number, by its bits.
    Constant(u32),
    /// A list of terms.
    List(Vec<Term>),
    /// The dot product of a row and a column, lists of equal length. [`Terms::product`] sorts
    /// them: multiplication commutes.
    Dot(Term, Term),
    /// The sum of a list.
    Fold(Term),
    /// An element divided by the number of values at a port.
    Share { port: u16, of: Term },
    /// An operation on one element.
    Unary(Unary, Term),
    /// An element times a number, by its bits.
    Scale(u32, Term),
    /// An operation on two elements. [`Terms::binary`] sorts the elements if the operation
    /// commutes.
    Binary(Binary, Term, Term),
    /// An element of the softmax of a list, or of its logarithm.
    Softmax { list: Term, element: u32, logarithm: bool },
}

/// An operation on one element.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Unary {
    /// Its negative.
    Neg,
    /// A function of it.
    Apply(Function),
}

/// An operation on two elements.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)] // Each is the operation of the same name in `edbatch_graph::Op`.
pub(super) enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    Slope(Slope),
}

/// All terms so far.
#[derive(Default)]
pub(super) struct Terms {
    known: HashMap<Expression, Term>,
}

impl Terms {
    /// Returns the term of an expression.
    pub(super) fn of(&mut self, expression: Expression) -> Term {
        let next = Term(self.known.len() as u32);
        *self.known.entry(expression).or_insert(next)
    }

    /// Applies an operation to two elements. Addition and multiplication commute bit by bit.
    pub(super) fn binary(&mut self, operation: Binary, a: Term, b: Term) -> Term {
        let commutes = matches!(operation, Binary::Add | Binary::Mul);
        let (a, b) = if commutes && b < a { (b, a) } else { (a, b) };
        self.of(Expression::Binary(operation, a, b))
    }

    /// Multiplies matrices (m, k) and (k, n). The result is row-major.
    pub(super) fn product(&mut self, left: &[Term], right: &[Term], k: usize) -> Vec<Term> {
        let n = right.len().checked_div(k).unwrap_or(0);
        let column = |j: usize| right.iter().copied().skip(j).step_by(n).collect();
        let columns: Vec<Vec<Term>> = (0..n).map(column).collect();
        let columns: Vec<Term> =
            columns.into_iter().map(|column| self.of(Expression::List(column))).collect();
        let mut products = Vec::new();
        for row in left.chunks_exact(k.max(1)) {
            let row = self.of(Expression::List(row.to_vec()));
            let dot = |&column: &Term| Expression::Dot(row.min(column), row.max(column));
            products.extend(columns.iter().map(|column| self.of(dot(column))));
        }
        products
    }

    /// Returns the softmax of a vector, or its logarithm.
    pub(super) fn softmax(&mut self, vector: &[Term], logarithm: bool) -> Vec<Term> {
        let list = self.of(Expression::List(vector.to_vec()));
        let element = |element| self.of(Expression::Softmax { list, element, logarithm });
        (0..vector.len() as u32).map(element).collect()
    }

    /// Sums each row of a matrix with this number of columns.
    pub(super) fn fold(&mut self, matrix: &[Term], columns: usize) -> Vec<Term> {
        let row = |row: &[Term]| {
            let list = self.of(Expression::List(row.to_vec()));
            self.of(Expression::Fold(list))
        };
        matrix.chunks_exact(columns.max(1)).map(row).collect()
    }

    /// Divides elements by the number of values at a port.
    pub(super) fn share(&mut self, port: u16, elements: &[Term]) -> Vec<Term> {
        elements.iter().map(|&of| self.of(Expression::Share { port, of })).collect()
    }

    /// Multiplies an element by a number.
    pub(super) fn scale(&mut self, factor: f32, element: Term) -> Term {
        self.of(Expression::Scale(factor.to_bits(), element))
    }

    /// Applies an element-wise operation to one element of each operand; `None` for other
    /// operations.
    pub(super) fn elementwise(&mut self, op: Op, operands: &[Term]) -> Option<Term> {
        let unary = match op {
            Op::Neg => Unary::Neg,
            Op::Sigmoid => Unary::Apply(Function::Sigmoid),
            Op::Tanh => Unary::Apply(Function::Tanh),
            Op::Relu => Unary::Apply(Function::Relu),
            Op::Exp => Unary::Apply(Function::Exp),
            Op::Log => Unary::Apply(Function::Log),
            Op::Scale(factor) => return Some(self.scale(factor, *operands.first()?)),
            op => {
                let binary = match op {
                    Op::Add => Binary::Add,
                    Op::Sub => Binary::Sub,
                    Op::Mul => Binary::Mul,
                    Op::Div => Binary::Div,
                    Op::Slope(slope) => Binary::Slope(slope),
                    _ => return None,
                };
                return Some(self.binary(binary, *operands.first()?, *operands.get(1)?));
            }
        };
        Some(self.of(Expression::Unary(unary, *operands.first()?)))
    }
}
