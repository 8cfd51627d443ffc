//! The operations of a cell: a closed set, so that backends can compile all of them.

mod adjoint;
mod elementwise;
mod infer;
mod named;

use std::fmt;

use crate::{ParameterId, Shape};
pub use adjoint::{AdjointOp, Slope};
pub use elementwise::{Binary, Function};
pub(crate) use infer::{attention_shape, softmax_sum_shape};
use named::named;

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
    /// The element of a vector, or the row of a matrix, whose index the call names.
    Select {
        /// Index of the index port among the cell's table ports.
        table: u16,
    },
    /// A whole parameter.
    Parameter(ParameterId),
    /// A tensor filled with one number.
    Constant(f32),
    /// `a · b`: matrix times vector or matrix times matrix.
    MatMul,
    /// The inner product of two vectors, or of each pair of rows of two matrices.
    Dot,
    /// `-a`.
    Neg,
    /// `s · a` for a number `s` known when the cell is declared.
    Scale(f32),
    /// A function of each element.
    Apply(Function),
    /// An operation on two tensors, element by element.
    Binary(Binary),
    /// A softmax or a norm of a vector, or of each row of a matrix.
    Normalize(Normalization),
    /// The same elements in row-major order, as a tensor of this shape.
    Reshape(Shape),
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
    /// An operation that only adjoint cells have.
    Adjoint(AdjointOp),
}

named! {
    /// The reduction of the values at a port to one tensor per field.
    ///
    /// Values are combined from left to right in argument order. A call has at least one value.
    pub enum Reduction {
        /// `v₀ + v₁ + …`
        Sum = "sum",
        /// The sum divided by the number of values.
        Mean = "mean",
        /// The element-wise maximum.
        Max = "max",
        /// `ln(exp v₀ + exp v₁ + …)`, element by element, without overflow.
        LogSumExp = "log_sum_exp",
    }
}

/// A softmax or a norm of a vector x, or of each row x of a matrix.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Normalization {
    /// `exp(x - max x) / Σ exp(x - max x)`
    Softmax,
    /// The logarithm of [`Softmax`](Self::Softmax), computed in log space.
    LogSoftmax,
    /// `(x - mean x) / √(var x + ε)`, where var is the mean of the squared differences from the
    /// mean. The number is ε.
    LayerNorm(f32),
    /// `x / √(mean x² + ε)`. The number is ε.
    RmsNorm(f32),
}

impl Op {
    /// Returns one operation of each name that a declared cell can have, with any numbers.
    pub fn all() -> impl Iterator<Item = Self> {
        let sources = [
            Self::Input { port: 0, field: 0 },
            Self::Reduce { port: 0, field: 0, by: Reduction::Sum },
            Self::Attention { port: 0, keys: 0, values: 0, heads: 1 },
            Self::SoftmaxSum { port: 0, scores: 0, values: 0 },
            Self::Lookup { table: 0 },
            Self::Parameter(ParameterId(0)),
            Self::Constant(0.0),
            Self::MatMul,
            Self::Dot,
            Self::Neg,
            Self::Scale(0.0),
        ];
        let shapes = [
            Self::Reshape(Shape::Vector(1)),
            Self::Select { table: 0 },
            Self::Concat,
            Self::Slice { start: 0, rows: 0 },
            Self::Transpose,
            Self::Dropout(0.0),
        ];
        let elementwise = Binary::ALL.iter().copied().map(Self::Binary);
        let elementwise = elementwise.chain(Function::ALL.iter().copied().map(Self::Apply));
        let by_rows = Normalization::ALL.iter().copied().map(Self::Normalize);
        sources.into_iter().chain(elementwise).chain(by_rows).chain(shapes)
    }

    /// Returns the name in files and in messages. Operations of adjoint cells are in no file, and
    /// have one name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Input { .. } => "input",
            Self::Reduce { .. } => "reduce",
            Self::Attention { .. } => "attention",
            Self::SoftmaxSum { .. } => "softmax_sum",
            Self::Lookup { .. } => "lookup",
            Self::Select { .. } => "select",
            Self::Parameter(_) => "parameter",
            Self::Constant(_) => "constant",
            Self::MatMul => "matmul",
            Self::Dot => "dot",
            Self::Neg => "neg",
            Self::Scale(_) => "scale",
            Self::Apply(function) => function.name(),
            Self::Binary(binary) => binary.name(),
            Self::Normalize(by) => by.name(),
            Self::Reshape(_) => "reshape",
            Self::Concat => "concat",
            Self::Slice { .. } => "slice",
            Self::Transpose => "transpose",
            Self::Dropout(_) => "dropout",
            Self::Adjoint(_) => "adjoint",
        }
    }

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
                | Self::Parameter(_)
                | Self::Constant(_)
                | Self::Adjoint(AdjointOp::OneHot { .. })
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
            | Self::Adjoint(
                AdjointOp::Ties { port, .. }
                | AdjointOp::AttentionBack { port, .. }
                | AdjointOp::Share { port },
            ) => Some(port),
            _ => None,
        }
    }

    /// Returns true if element `i` of the result depends only on element `i` of the (broadcast)
    /// operands.
    #[must_use]
    pub fn is_elementwise(self) -> bool {
        matches!(
            self,
            Self::Neg
                | Self::Scale(_)
                | Self::Apply(_)
                | Self::Binary(_)
                | Self::Adjoint(AdjointOp::Larger | AdjointOp::Slope(_))
        )
    }
}

impl Normalization {
    /// One of each, with any ε.
    pub const ALL: [Self; 4] =
        [Self::Softmax, Self::LogSoftmax, Self::LayerNorm(0.0), Self::RmsNorm(0.0)];

    /// Returns the name in files and in messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Softmax => "softmax",
            Self::LogSoftmax => "log_softmax",
            Self::LayerNorm(_) => "layer_norm",
            Self::RmsNorm(_) => "rms_norm",
        }
    }

    /// Returns ε, if it has one.
    #[must_use]
    pub const fn epsilon(self) -> Option<f32> {
        match self {
            Self::Softmax | Self::LogSoftmax => None,
            Self::LayerNorm(epsilon) | Self::RmsNorm(epsilon) => Some(epsilon),
        }
    }
}

macro_rules! from {
    ($($Group:ident => $Variant:ident),*) => {$(
        impl From<$Group> for Op {
            fn from(op: $Group) -> Self {
                Self::$Variant(op)
            }
        }
    )*};
}

from!(Function => Apply, Binary => Binary, Normalization => Normalize, AdjointOp => Adjoint);

/// The name and the numbers, for messages and drawings.
impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input { port, field } => write!(f, "input {port}.{field}"),
            Self::Reduce { port, field, by } => write!(f, "reduce {port}.{field} by {by}"),
            Self::Attention { port, keys, values, heads } => write!(
                f,
                "attention over input {port}, keys {keys}, values {values}, {heads} heads"
            ),
            Self::SoftmaxSum { port, scores, values } => {
                write!(f, "softmax_sum over input {port}, scores {scores}, values {values}")
            }
            Self::Lookup { table } => write!(f, "lookup {table}"),
            Self::Select { table } => write!(f, "select by index {table}"),
            Self::Parameter(id) => write!(f, "parameter {}", id.0),
            Self::Constant(value) => write!(f, "constant {value}"),
            Self::Scale(factor) => write!(f, "scale by {factor}"),
            Self::Normalize(by) => write!(f, "{by}"),
            Self::Reshape(shape) => write!(f, "reshape to {shape}"),
            Self::Slice { start, rows } => {
                write!(f, "slice {start}..{}", u64::from(*start) + u64::from(*rows))
            }
            Self::Dropout(rate) => write!(f, "dropout {rate}"),
            Self::Adjoint(op) => write!(f, "{op}"),
            op => f.write_str(op.name()),
        }
    }
}

impl fmt::Display for Normalization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        self.epsilon().map_or(Ok(()), |epsilon| write!(f, "({epsilon})"))
    }
}
