//! Operations as JSON: `{"op": "reduce", "port": 0, "field": 0, "by": "sum"}`.
//!
//! [`name`] and [`members`] list all operations. A new operation does not compile before both list
//! it, and it needs a line in [`ALL`] to be read.

mod read;
mod write;

use edbatch_graph::{Op, ParameterId, Reduction, Shape};

pub(super) use read::read;
pub(super) use write::write;

/// Returns the name of an operation, or `None` for one that only adjoint cells have.
fn name(op: Op) -> Option<&'static str> {
    Some(match op {
        Op::Input { .. } => "input",
        Op::Reduce { .. } => "reduce",
        Op::Attention { .. } => "attention",
        Op::SoftmaxSum { .. } => "softmax_sum",
        Op::Lookup { .. } => "lookup",
        Op::Parameter(_) => "parameter",
        Op::Constant(_) => "constant",
        Op::MatMul => "matmul",
        Op::Add => "add",
        Op::Sub => "sub",
        Op::Mul => "mul",
        Op::Div => "div",
        Op::Neg => "neg",
        Op::Scale(_) => "scale",
        Op::Sigmoid => "sigmoid",
        Op::Tanh => "tanh",
        Op::Relu => "relu",
        Op::Exp => "exp",
        Op::Log => "log",
        Op::Sqrt => "sqrt",
        Op::Erf => "erf",
        Op::Maximum => "maximum",
        Op::Minimum => "minimum",
        Op::Softmax => "softmax",
        Op::LogSoftmax => "log_softmax",
        Op::LayerNorm(_) => "layer_norm",
        Op::RmsNorm(_) => "rms_norm",
        Op::Dot => "dot",
        Op::Reshape(_) => "reshape",
        Op::Select { .. } => "select",
        Op::Concat => "concat",
        Op::Slice { .. } => "slice",
        Op::Transpose => "transpose",
        Op::Dropout(_) => "dropout",
        Op::Slope(_)
        | Op::Fold(_)
        | Op::Share { .. }
        | Op::Outer
        | Op::Larger
        | Op::Ties { .. }
        | Op::AttentionBack { .. }
        | Op::OneHot { .. } => return None,
    })
}

/// All operations that have a name. Their members are read by [`members`].
pub(super) const ALL: [Op; 34] = [
    Op::Input { port: 0, field: 0 },
    Op::Reduce { port: 0, field: 0, by: Reduction::Sum },
    Op::Attention { port: 0, keys: 0, values: 0, heads: 1 },
    Op::SoftmaxSum { port: 0, scores: 0, values: 0 },
    Op::Lookup { table: 0 },
    Op::Parameter(ParameterId(0)),
    Op::Constant(0.0),
    Op::MatMul,
    Op::Add,
    Op::Sub,
    Op::Mul,
    Op::Div,
    Op::Neg,
    Op::Scale(0.0),
    Op::Sigmoid,
    Op::Tanh,
    Op::Relu,
    Op::Exp,
    Op::Log,
    Op::Sqrt,
    Op::Erf,
    Op::Maximum,
    Op::Minimum,
    Op::Softmax,
    Op::LogSoftmax,
    Op::LayerNorm(0.0),
    Op::RmsNorm(0.0),
    Op::Dot,
    Op::Reshape(Shape::Vector(1)),
    Op::Select { table: 0 },
    Op::Concat,
    Op::Slice { start: 0, rows: 0 },
    Op::Transpose,
    Op::Dropout(0.0),
];

fn reduction_name(by: Reduction) -> &'static str {
    match by {
        Reduction::Sum => "sum",
        Reduction::Mean => "mean",
        Reduction::Max => "max",
        Reduction::LogSumExp => "log_sum_exp",
    }
}

/// All reductions.
const REDUCTIONS: [Reduction; 4] =
    [Reduction::Sum, Reduction::Mean, Reduction::Max, Reduction::LogSumExp];

/// Passes each member of an operation to `to`, which writes it, or returns the member it reads.
fn members<M: Members>(op: Op, to: &mut M) -> Result<Op, M::Error> {
    Ok(match op {
        Op::Input { port, field } => {
            Op::Input { port: to.index("port", port)?, field: to.index("field", field)? }
        }
        Op::Reduce { port, field, by } => Op::Reduce {
            port: to.index("port", port)?,
            field: to.index("field", field)?,
            by: to.reduction(by)?,
        },
        Op::Attention { port, keys, values, heads } => Op::Attention {
            port: to.index("port", port)?,
            keys: to.index("keys", keys)?,
            values: to.index("values", values)?,
            heads: to.count("heads", heads)?,
        },
        Op::SoftmaxSum { port, scores, values } => Op::SoftmaxSum {
            port: to.index("port", port)?,
            scores: to.index("scores", scores)?,
            values: to.index("values", values)?,
        },
        Op::Select { table } => Op::Select { table: to.index("table", table)? },
        Op::LayerNorm(epsilon) => Op::LayerNorm(to.float("eps", epsilon)?),
        Op::RmsNorm(epsilon) => Op::RmsNorm(to.float("eps", epsilon)?),
        Op::Dropout(rate) => Op::Dropout(to.float("rate", rate)?),
        Op::Reshape(shape) => {
            to.shape()?;
            Op::Reshape(shape)
        }
        Op::Lookup { table } => Op::Lookup { table: to.index("table", table)? },
        Op::Parameter(id) => Op::Parameter(to.parameter(id)?),
        Op::Constant(value) => {
            let value = to.float("value", value)?;
            to.shape()?;
            Op::Constant(value)
        }
        Op::Scale(factor) => Op::Scale(to.float("factor", factor)?),
        Op::Slice { start, rows } => {
            Op::Slice { start: to.count("start", start)?, rows: to.count("rows", rows)? }
        }
        Op::MatMul
        | Op::Add
        | Op::Sub
        | Op::Mul
        | Op::Div
        | Op::Neg
        | Op::Sigmoid
        | Op::Tanh
        | Op::Relu
        | Op::Exp
        | Op::Log
        | Op::Sqrt
        | Op::Erf
        | Op::Maximum
        | Op::Minimum
        | Op::Softmax
        | Op::LogSoftmax
        | Op::Dot
        | Op::Concat
        | Op::Transpose
        | Op::Larger
        | Op::Ties { .. }
        | Op::AttentionBack { .. }
        | Op::OneHot { .. }
        | Op::Slope(_)
        | Op::Fold(_)
        | Op::Share { .. }
        | Op::Outer => op,
    })
}

/// Writes or reads the members of an operation.
trait Members {
    type Error;

    fn index(&mut self, name: &'static str, index: u16) -> Result<u16, Self::Error>;
    fn count(&mut self, name: &'static str, count: u32) -> Result<u32, Self::Error>;
    fn float(&mut self, name: &'static str, float: f32) -> Result<f32, Self::Error>;
    fn reduction(&mut self, by: Reduction) -> Result<Reduction, Self::Error>;
    fn parameter(&mut self, id: ParameterId) -> Result<ParameterId, Self::Error>;
    /// The shape of the result.
    fn shape(&mut self) -> Result<(), Self::Error>;
}

const INFINITY: &str = "\"Infinity\"";
const NEG_INFINITY: &str = "\"-Infinity\"";
