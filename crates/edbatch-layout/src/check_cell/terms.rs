//! Terms: symbolic values of tensor elements, over the elements that a call reads.

use std::collections::HashMap;

use edbatch_graph::{
    AdjointOp, Binary, Function, Normalization, Op, ParameterId, Reduction, Slope,
};

use crate::cell_plan::AttentionFields;

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
    /// The number of values at a port whose element with this number equals `like`.
    Ties { port: u16, element: u32, like: Term },
    /// An element of [`CellStep::AttentionBack`](crate::CellStep::AttentionBack), for lists of the
    /// query's and the gradient's elements.
    AttentionBack { of: AttentionFields, query: Term, gradient: Term, element: u32 },
    /// The negative of an element.
    Neg(Term),
    /// A function of an element.
    Apply(Function, Term),
    /// An element times a number, by its bits.
    Scale(u32, Term),
    /// An operation on two elements. [`Terms::binary`] sorts the elements if the operation
    /// commutes.
    Binary(Binary, Term, Term),
    /// 1 if the first element is larger, ½ if they are equal, else 0.
    Larger(Term, Term),
    /// An element times the slope of an activation function, computed from the function's result.
    Slope(Slope, Term, Term),
    /// An element of a list after a softmax or norm; `by` is the function's number and ε's bits.
    Normalized { list: Term, element: u32, by: (u8, u32) },
    /// The inner product of two lists, in the order of [`Op::Dot`]. The lists are sorted.
    InnerProduct(Term, Term),
    /// An element of the row that the call names, in a list of rows of this width.
    Selected { list: Term, table: u16, width: u32, element: u32 },
    /// An element of the vector that is 1 at the index that the call names, else 0.
    OneHot { table: u16, element: u32 },
    /// An element of the weighted sum of the values at a port. The weights are the softmax of
    /// element number `scores` of each value, or of the products of a query and the field that
    /// begins there.
    Attended { port: u16, query: Option<Term>, scores: u32, value: u32 },
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

    /// Applies an operation to two elements, which are sorted if it commutes bit by bit.
    pub(super) fn binary(&mut self, operation: Binary, a: Term, b: Term) -> Term {
        let (a, b) = if operation.commutes() && b < a { (b, a) } else { (a, b) };
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

    /// Applies a softmax or a norm to each row of a matrix with this number of columns.
    pub(super) fn normalize(
        &mut self,
        by: Normalization,
        matrix: &[Term],
        columns: usize,
    ) -> Vec<Term> {
        let by = match by {
            Normalization::Softmax => (0, 0),
            Normalization::LogSoftmax => (1, 0),
            Normalization::LayerNorm(epsilon) => (2, epsilon.to_bits()),
            Normalization::RmsNorm(epsilon) => (3, epsilon.to_bits()),
        };
        let mut normalized = Vec::with_capacity(matrix.len());
        for row in matrix.chunks(columns.max(1)) {
            let list = self.of(Expression::List(row.to_vec()));
            let element = |element| self.of(Expression::Normalized { list, element, by });
            normalized.extend((0..row.len() as u32).map(element));
        }
        normalized
    }

    /// Returns the inner products of corresponding rows of two matrices of `columns` columns.
    pub(super) fn dot(&mut self, left: &[Term], right: &[Term], columns: usize) -> Vec<Term> {
        let mut dots = Vec::new();
        for (left, right) in left.chunks(columns.max(1)).zip(right.chunks(columns.max(1))) {
            let left = self.of(Expression::List(left.to_vec()));
            let right = self.of(Expression::List(right.to_vec()));
            dots.push(self.of(Expression::InnerProduct(left.min(right), left.max(right))));
        }
        dots
    }

    /// Returns the row that the call names, of a matrix with `width` columns.
    pub(super) fn select(&mut self, table: u16, matrix: &[Term], width: u32) -> Vec<Term> {
        let list = self.of(Expression::List(matrix.to_vec()));
        let selected = |element| Expression::Selected { list, table, width, element };
        (0..width).map(|element| self.of(selected(element))).collect()
    }

    pub(super) fn one_hot(&mut self, table: u16, width: u32) -> Vec<Term> {
        (0..width).map(|element| self.of(Expression::OneHot { table, element })).collect()
    }

    /// Returns the weighted sums of values at a port: of the `width` elements from `values` on, in
    /// `heads` equal parts. `scores` is the first element of the scores, or of the keys if there
    /// is a query.
    pub(super) fn attention(
        &mut self,
        port: u16,
        (query, scores): (Option<&[Term]>, u32),
        (heads, values, width): (u32, u32, u32),
    ) -> Vec<Term> {
        let heads = heads.max(1);
        let (mut sums, of_value) = (Vec::new(), width / heads);
        for head in 0..heads {
            let part = query.map(|query| query.len() / heads as usize);
            let query = query.zip(part).map(|(query, part)| {
                let first = head as usize * part;
                self.of(Expression::List(query[first..first + part].to_vec()))
            });
            let scores = scores + head * part.unwrap_or(1) as u32;
            for element in 0..of_value {
                let value = values + head * of_value + element;
                sums.push(self.of(Expression::Attended { port, query, scores, value }));
            }
        }
        sums
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

    /// For each i, counts the values at a port whose element `from + i` equals `like[i]`.
    pub(super) fn ties(&mut self, port: u16, from: u32, like: &[Term]) -> Vec<Term> {
        let ties = |(element, &like)| self.of(Expression::Ties { port, element, like });
        (from..).zip(like).map(ties).collect()
    }

    /// Returns the gradient of attention's query, and what the gradients of values need.
    pub(super) fn attention_back(
        &mut self,
        of: AttentionFields,
        query: &[Term],
        gradient: &[Term],
    ) -> Vec<Term> {
        let count = query.len() as u32 + 2 * of.heads;
        let query = self.of(Expression::List(query.to_vec()));
        let gradient = self.of(Expression::List(gradient.to_vec()));
        let element = |element| Expression::AttentionBack { of, query, gradient, element };
        (0..count).map(|index| self.of(element(index))).collect()
    }

    /// Multiplies an element by a number.
    pub(super) fn scale(&mut self, factor: f32, element: Term) -> Term {
        self.of(Expression::Scale(factor.to_bits(), element))
    }

    /// Applies an element-wise operation to one element of each operand; `None` for other
    /// operations.
    pub(super) fn elementwise(&mut self, op: Op, operands: &[Term]) -> Option<Term> {
        let [a, b] = [0, 1].map(|index| operands.get(index).copied());
        Some(match op {
            Op::Neg => self.of(Expression::Neg(a?)),
            Op::Scale(factor) => self.scale(factor, a?),
            Op::Apply(function) => self.of(Expression::Apply(function, a?)),
            Op::Binary(binary) => self.binary(binary, a?, b?),
            Op::Adjoint(AdjointOp::Larger) => self.of(Expression::Larger(a?, b?)),
            Op::Adjoint(AdjointOp::Slope(slope)) => self.of(Expression::Slope(slope, a?, b?)),
            _ => return None,
        })
    }
}
