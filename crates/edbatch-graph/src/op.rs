//! The operations of a cell: a closed set, so that backends can compile all of them.

use std::fmt;

use crate::{ParameterId, Shape};

/// An operation inside a cell. Its operands are earlier variables of the cell.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Op {
    /// A field of the record at an input port that takes one value.
    Input {
        /// Index of the port in the cell.
        port: u16,
        /// Index of the field in the port's record.
        field: u16,
    },
    /// A field reduced over all values at a port that takes any number of them.
    Reduce {
        /// Index of the port in the cell.
        port: u16,
        /// Index of the field in the port's record.
        field: u16,
        /// The reduction.
        by: Reduction,
    },
    /// Attention of a query over all values at a port that takes any number of them. For each of
    /// `heads` equal parts of query, keys and values: the sum of the values, weighted by the
    /// softmax of the inner products of the query and the keys.
    Attention {
        /// Index of the port in the cell.
        port: u16,
        /// Index of the field with the keys in the port's record.
        keys: u16,
        /// Index of the field with the values in the port's record.
        values: u16,
        /// The number of heads.
        heads: u32,
    },
    /// Like [`Attention`](Self::Attention), but the scores are a field of each value, with one
    /// score for each head.
    SoftmaxSum {
        /// Index of the port in the cell.
        port: u16,
        /// Index of the field with the scores in the port's record.
        scores: u16,
        /// Index of the field with the values in the port's record.
        values: u16,
    },
    /// The table row that the call names.
    Lookup {
        /// Index of the table port in the cell.
        table: u16,
    },
    /// A whole parameter.
    Parameter(ParameterId),
    /// A tensor filled with one number.
    Constant(f32),
    /// `a · b`: matrix times vector or matrix times matrix.
    MatMul,
    /// `a + b`, element by element.
    Add,
    /// `a - b`, element by element.
    Sub,
    /// `a ∘ b`, element by element.
    Mul,
    /// `a / b`, element by element.
    Div,
    /// `-a`.
    Neg,
    /// `s · a` for a number `s` known when the cell is declared.
    Scale(f32),
    /// The logistic function `1 / (1 + exp(-a))`.
    Sigmoid,
    /// The hyperbolic tangent.
    Tanh,
    /// `max(a, 0)`; NaN stays NaN.
    Relu,
    /// The exponential.
    Exp,
    /// The natural logarithm.
    Log,
    /// The square root.
    Sqrt,
    /// The error function, `2/√π ∫ exp(-t²) dt` from 0 to a.
    Erf,
    /// The larger of `a` and `b`, element by element: NaN if one is NaN, `a` if they are equal.
    Maximum,
    /// The smaller of `a` and `b`, element by element: NaN if one is NaN, `a` if they are equal.
    Minimum,
    /// `exp(a - max a) / Σ exp(a - max a)` over all elements of a vector, or of each row of a
    /// matrix.
    Softmax,
    /// The logarithm of [`Softmax`](Self::Softmax), computed in log space.
    LogSoftmax,
    /// `(a - mean a) / √(var a + ε)` over all elements of a vector, or of each row of a matrix,
    /// where var is the mean of the squared differences from the mean. The number is ε.
    LayerNorm(f32),
    /// `a / √(mean a² + ε)` over all elements of a vector, or of each matrix row. The number is ε.
    RmsNorm(f32),
    /// The inner product of two vectors, or of each pair of rows of two matrices.
    Dot,
    /// The same elements in row-major order, as a tensor of this shape.
    Reshape(Shape),
    /// The element of a vector, or the row of a matrix, whose index the call names.
    Select {
        /// Index of the index port among the cell's table ports.
        table: u16,
    },
    /// Operands concatenated along the rows.
    Concat,
    /// A range of rows.
    Slice {
        /// The first row.
        start: u32,
        /// The number of rows.
        rows: u32,
    },
    /// The transpose of a matrix.
    Transpose,
    /// A vector with dropout: training sets each element to 0 with this probability, and multiplies
    /// the others by 1 ÷ (1 − rate). Only in [`CellParts`](crate::CellParts): a cell contains the
    /// equations of inference, and [`Network::masked`](crate::Network::masked) returns the
    /// equations of training.
    Dropout(f32),
    /// A gradient times the slope of an activation function: `g ∘ f'(x)`, computed from `g` and
    /// from the function's result `f(x)`. Only in adjoint cells, like the operations that follow.
    Slope(Slope),
    /// The gradient of an operand that was broadcast: sums to this shape, over the columns of a
    /// matrix or over all elements.
    Fold(Shape),
    /// The operand divided by the number of values at a port that takes any number of them.
    Share {
        /// Index of the port in the cell.
        port: u16,
    },
    /// The outer product of two vectors: the matrix of all `aᵢ · bⱼ`.
    Outer,
    /// 1 where `a > b`, ½ where they are equal, else 0, element by element.
    Larger,
    /// For each element: the number of values at a port whose field has an equal element there.
    Ties {
        /// Index of the port in the cell.
        port: u16,
        /// Index of the field in the port's record.
        field: u16,
    },
    /// For a query and the gradient g of [`Attention`](Self::Attention)'s result: the gradient of
    /// the query; then for each head the log-sum-exp of the scores; then for each head `g · y`,
    /// where y is the result.
    AttentionBack {
        /// Index of the port in the cell.
        port: u16,
        /// Index of the field with the keys in the port's record.
        keys: u16,
        /// Index of the field with the values in the port's record.
        values: u16,
        /// The number of heads.
        heads: u32,
    },
    /// A vector with 1 at the index that the call names, else 0.
    OneHot {
        /// Index of the index port among the cell's table ports.
        table: u16,
    },
}

/// An activation function, for [`Op::Slope`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Slope {
    /// For y = sigmoid x: `g ∘ (1 - y) ∘ y`.
    Sigmoid,
    /// For y = tanh x: `g ∘ (1 - y ∘ y)`.
    Tanh,
    /// For y = max(x, 0): `g` where `y > 0`, else 0.
    Relu,
}

/// The reduction of the values at a port to one tensor per field.
///
/// Values are combined from left to right in argument order. A call has at least one value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Reduction {
    /// `v₀ + v₁ + …`
    Sum,
    /// The sum divided by the number of values.
    Mean,
    /// The element-wise maximum.
    Max,
    /// `ln(exp v₀ + exp v₁ + …)`, element by element, without overflow.
    LogSumExp,
}

impl Op {
    /// Returns true if the operation has no operands: inputs, reductions and weighted sums of
    /// values, lookups, parameters, constants.
    #[must_use]
    pub fn is_source(self) -> bool {
        matches!(
            self,
            Self::Input { .. }
                | Self::Reduce { .. }
                | Self::SoftmaxSum { .. }
                | Self::Lookup { .. }
                | Self::OneHot { .. }
                | Self::Parameter(_)
                | Self::Constant(_)
        )
    }

    /// Returns the port whose values the operation reads or counts.
    #[must_use]
    pub fn port(self) -> Option<u16> {
        match self {
            Self::Input { port, .. }
            | Self::Reduce { port, .. }
            | Self::Attention { port, .. }
            | Self::SoftmaxSum { port, .. }
            | Self::Ties { port, .. }
            | Self::AttentionBack { port, .. }
            | Self::Share { port } => Some(port),
            _ => None,
        }
    }

    /// Returns true if element `i` of the result depends only on element `i` of the (broadcast)
    /// operands.
    #[must_use]
    pub fn is_elementwise(self) -> bool {
        matches!(
            self,
            Self::Add
                | Self::Sub
                | Self::Mul
                | Self::Div
                | Self::Neg
                | Self::Scale(_)
                | Self::Sigmoid
                | Self::Tanh
                | Self::Relu
                | Self::Exp
                | Self::Log
                | Self::Sqrt
                | Self::Erf
                | Self::Maximum
                | Self::Minimum
                | Self::Larger
                | Self::Slope(_)
        )
    }

    /// Returns true for element-wise operations on two operands.
    fn broadcasts(self) -> bool {
        matches!(
            self,
            Self::Add
                | Self::Sub
                | Self::Mul
                | Self::Div
                | Self::Maximum
                | Self::Minimum
                | Self::Larger
        )
    }

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
            (op, &[a, b]) if op.broadcasts() => broadcast(a, b).ok_or_else(|| {
                "equal shapes, a vector of one element, or a vector with an element for each \
                     row of a matrix"
                    .into()
            }),
            (
                Self::Softmax | Self::LogSoftmax | Self::LayerNorm(_) | Self::RmsNorm(_),
                &[shape],
            ) => Ok(shape),
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
            (Self::Outer, &[Vector(m), Vector(n)]) => elements(Matrix(m, n)),
            (Self::Outer, _) => Err("two vectors".into()),
            (op, _) if op.broadcasts() => Err(format!("two operands, got {}", operands.len())),
            (_, &[shape]) if self.is_elementwise() => Ok(shape),
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

/// The usual name of the operation, for error messages and drawings.
impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input { port, field } => write!(f, "input {port}.{field}"),
            Self::Reduce { port, field, by } => write!(f, "{by} of input {port}.{field}"),
            Self::Attention { port, keys, values, heads } => {
                write!(
                    f,
                    "attention over input {port}, keys {keys}, values {values}, {heads} heads"
                )
            }
            Self::SoftmaxSum { port, scores, values } => {
                write!(f, "softmax-sum over input {port}, scores {scores}, values {values}")
            }
            Self::Lookup { table } => write!(f, "lookup in table {table}"),
            Self::Parameter(id) => write!(f, "parameter {}", id.0),
            Self::Constant(value) => write!(f, "constant {value}"),
            Self::MatMul => f.write_str("matmul"),
            Self::Add => f.write_str("add"),
            Self::Sub => f.write_str("subtract"),
            Self::Mul => f.write_str("multiply"),
            Self::Div => f.write_str("divide"),
            Self::Neg => f.write_str("negate"),
            Self::Scale(s) => write!(f, "scale by {s}"),
            Self::Sigmoid => f.write_str("sigmoid"),
            Self::Tanh => f.write_str("tanh"),
            Self::Relu => f.write_str("relu"),
            Self::Exp => f.write_str("exp"),
            Self::Log => f.write_str("log"),
            Self::Sqrt => f.write_str("sqrt"),
            Self::Erf => f.write_str("erf"),
            Self::Maximum => f.write_str("maximum"),
            Self::Minimum => f.write_str("minimum"),
            Self::Softmax => f.write_str("softmax"),
            Self::LogSoftmax => f.write_str("log-softmax"),
            Self::LayerNorm(epsilon) => write!(f, "layer-norm {epsilon}"),
            Self::RmsNorm(epsilon) => write!(f, "rms-norm {epsilon}"),
            Self::Dot => f.write_str("dot"),
            Self::Reshape(shape) => write!(f, "reshape to {shape}"),
            Self::Select { table } => write!(f, "select by index {table}"),
            Self::Concat => f.write_str("concatenate"),
            Self::Slice { start, rows } => {
                write!(f, "slice {start}..{}", u64::from(*start) + u64::from(*rows))
            }
            Self::Transpose => f.write_str("transpose"),
            Self::Dropout(rate) => write!(f, "dropout {rate}"),
            Self::Slope(Slope::Sigmoid) => f.write_str("slope of sigmoid"),
            Self::Slope(Slope::Tanh) => f.write_str("slope of tanh"),
            Self::Slope(Slope::Relu) => f.write_str("slope of relu"),
            Self::Fold(shape) => write!(f, "fold to {shape}"),
            Self::Share { port } => write!(f, "share of input {port}"),
            Self::Outer => f.write_str("outer"),
            Self::Larger => f.write_str("larger"),
            Self::Ties { port, field } => write!(f, "ties of input {port}.{field}"),
            Self::AttentionBack { port, keys, values, heads } => write!(
                f,
                "gradient of attention over input {port}, keys {keys}, values {values}, {heads} \
                 heads"
            ),
            Self::OneHot { table } => write!(f, "one-hot of index {table}"),
        }
    }
}

impl fmt::Display for Reduction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sum => "sum",
            Self::Mean => "mean",
            Self::Max => "max",
            Self::LogSumExp => "log-sum-exp",
        })
    }
}
