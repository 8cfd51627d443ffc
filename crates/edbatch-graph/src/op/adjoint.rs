//! Operations that only adjoint cells have.

use std::fmt;

use super::named::named;
use crate::Shape;

/// An operation of an adjoint cell. Cells that compute gradients have these beside all others.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum AdjointOp {
    /// A gradient times the slope of an activation function: `g ∘ f'(x)`, computed from `g` and
    /// from the function's result `f(x)`.
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
    /// For a query and the gradient g of the result of [`Op::Attention`](crate::Op::Attention): the
    /// gradient of the query; then for each head the log-sum-exp of the scores; then for each head
    /// `g · y`, where y is the result.
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

named! {
    /// An activation function, for [`AdjointOp::Slope`].
    pub enum Slope {
        /// For y = sigmoid x: `g ∘ (1 - y) ∘ y`.
        Sigmoid = "slope of sigmoid",
        /// For y = tanh x: `g ∘ (1 - y ∘ y)`.
        Tanh = "slope of tanh",
        /// For y = max(x, 0): `g` where `y > 0`, else 0.
        Relu = "slope of relu",
    }
}

impl fmt::Display for AdjointOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slope(slope) => write!(f, "{slope}"),
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
