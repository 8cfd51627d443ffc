//! The shapes of results.

use super::{AdjointOp, Op};
use crate::Shape;

impl Op {
    /// Infers the shape of the result from the shapes of the operands. Not for
    /// [sources](Self::is_source), which have no operands, nor for [`Attention`](Self::Attention).
    ///
    /// ```
    /// use edbatch_graph::{Op, Shape};
    ///
    /// let (matrix, vector) = (Shape::Matrix(3, 4), Shape::Vector(4));
    /// assert_eq!(Op::MatMul.infer(&[matrix, vector]), Ok(Shape::Vector(3)));
    /// assert!(Op::MatMul.infer(&[vector, matrix]).is_err());
    /// ```
    ///
    /// # Errors
    /// A description of the expected operands.
    pub fn infer(self, operands: &[Shape]) -> Result<Shape, String> {
        use Shape::{Matrix, Vector};
        match (self, operands) {
            (Self::MatMul, &[Matrix(m, k), Vector(n)]) if k == n => Ok(Vector(m)),
            (Self::MatMul, &[Matrix(m, k), Matrix(l, n)]) if k == l => elements(Matrix(m, n)),
            (Self::MatMul, &[Matrix(_, k), right]) => {
                let rows = right.rows_and_columns().0;
                Err(format!("equal inner dimensions, got {k} and {rows}"))
            }
            (Self::MatMul, _) => Err("a matrix on the left".into()),
            (Self::Binary(_) | Self::Adjoint(AdjointOp::Larger), &[a, b]) => broadcast(a, b)
                .ok_or_else(|| {
                    "equal shapes, a vector of one element, or a vector with an element for each \
                     row of a matrix"
                        .into()
                }),
            (Self::Binary(_) | Self::Adjoint(AdjointOp::Larger), _) => {
                Err(format!("two operands, got {}", operands.len()))
            }
            (Self::Dot, &[a, b]) if a == b => Ok(Vector(match a {
                Vector(_) => 1,
                Matrix(rows, _) => rows,
            })),
            (Self::Dot, _) => Err("two operands of equal shapes".into()),
            (Self::Reshape(to), &[from]) if to.is_valid() && to.elements() == from.elements() => {
                Ok(to)
            }
            (Self::Reshape(_), &[from]) => Err(format!("a shape of {} elements", from.elements())),
            (Self::Select { .. }, &[Vector(_)]) => Ok(Vector(1)),
            (Self::Select { .. }, &[Matrix(_, columns)]) => Ok(Vector(columns)),
            (Self::Concat, [first, rest @ ..]) => stack(*first, rest),
            (Self::Concat, []) => Err("at least one operand, got 0".into()),
            (Self::Slice { start, rows }, &[shape]) => slice(shape, start, rows),
            (Self::Transpose, &[Matrix(rows, columns)]) => Ok(Matrix(columns, rows)),
            (Self::Transpose, _) => Err("a matrix".into()),
            (Self::Dropout(_), &[Vector(n)]) => Ok(Vector(n)),
            (Self::Dropout(_), _) => Err("a vector".into()),
            (Self::Adjoint(op), _) => op.infer(operands),
            (_, &[shape]) if self.is_elementwise() || matches!(self, Self::Normalize(_)) => {
                Ok(shape)
            }
            _ => Err(format!("one operand, got {}", operands.len())),
        }
    }
}

impl AdjointOp {
    fn infer(self, operands: &[Shape]) -> Result<Shape, String> {
        use Shape::Vector;
        match (self, operands) {
            (Self::Slope(_), &[a, b]) if a == b => Ok(a),
            (Self::Slope(_), _) => Err("two operands of equal shapes".into()),
            (Self::Fold(to), &[from]) if broadcast(from, to) == Some(from) => Ok(to),
            (Self::Fold(_), _) => Err("an operand that the result broadcasts to".into()),
            (Self::Share { .. } | Self::Ties { .. }, &[shape]) => Ok(shape),
            (Self::AttentionBack { heads, .. }, &[Vector(query), Vector(_)]) => {
                let width = query as usize + 2 * heads as usize;
                Shape::new(&[width]).ok_or_else(|| "fewer than 2^31 elements".into())
            }
            (Self::AttentionBack { .. }, _) => Err("a query and a gradient".into()),
            (Self::Outer, &[Vector(m), Vector(n)]) => elements(Shape::Matrix(m, n)),
            (Self::Outer, _) => Err("two vectors".into()),
            _ => Err(format!("one operand, got {}", operands.len())),
        }
    }
}

/// Infers the shape of [`Op::Attention`] from the shapes of the query and of the fields.
pub(crate) fn attention_shape(
    heads: u32,
    [query, keys, values]: [Shape; 3],
) -> Result<Shape, String> {
    let is_divided = |shape| matches!(shape, Shape::Vector(n) if heads > 0 && n % heads == 0);
    if query == keys && is_divided(query) && is_divided(values) {
        return Ok(values);
    }
    Err(format!(
        "a query and keys of equal widths, and values: vectors that {heads} heads divide evenly"
    ))
}

/// Infers the shape of [`Op::SoftmaxSum`] from the shapes of the fields.
pub(crate) fn softmax_sum_shape(scores: Shape, values: Shape) -> Result<Shape, String> {
    match (scores, values) {
        (Shape::Vector(heads), Shape::Vector(n)) if n % heads == 0 => Ok(values),
        _ => Err("a vector of scores whose number of elements divides that of the values".into()),
    }
}

fn broadcast(a: Shape, b: Shape) -> Option<Shape> {
    use Shape::{Matrix, Vector};
    match (a, b) {
        _ if a == b => Some(a),
        (wide, Vector(1)) | (Vector(1), wide) => Some(wide),
        (Matrix(rows, columns), Vector(n)) | (Vector(n), Matrix(rows, columns)) => {
            (n == rows).then_some(Matrix(rows, columns))
        }
        _ => None,
    }
}

fn stack(first: Shape, rest: &[Shape]) -> Result<Shape, String> {
    let columns = first.rows_and_columns().1;
    let mut rows = first.rows_and_columns().0;
    for shape in rest {
        if std::mem::discriminant(shape) != std::mem::discriminant(&first)
            || shape.rows_and_columns().1 != columns
        {
            return Err("only vectors, or only matrices with equal numbers of columns".into());
        }
        rows += shape.rows_and_columns().0;
    }
    let dims = [rows, columns];
    let dims = if matches!(first, Shape::Vector(_)) { &dims[..1] } else { &dims[..] };
    Shape::new(dims).ok_or_else(|| "fewer than 2^31 elements".into())
}

fn slice(shape: Shape, start: u32, rows: u32) -> Result<Shape, String> {
    let available = shape.rows_and_columns().0 as u64;
    if rows == 0 || u64::from(start) + u64::from(rows) > available {
        return Err(format!("a nonempty range of rows within 0..{available}"));
    }
    Ok(match shape {
        Shape::Vector(_) => Shape::Vector(rows),
        Shape::Matrix(_, columns) => Shape::Matrix(rows, columns),
    })
}

fn elements(shape: Shape) -> Result<Shape, String> {
    let (rows, columns) = shape.rows_and_columns();
    Shape::new(&[rows, columns]).ok_or_else(|| "fewer than 2^31 elements".into())
}
