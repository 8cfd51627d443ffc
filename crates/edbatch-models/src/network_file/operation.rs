//! Operations as JSON: `{"op": "reduce", "port": 0, "field": 0, "by": "sum"}`.
//!
//! An operation is read by its [name](Op::name), and [`members`] lists what else it has. Operations
//! of adjoint cells are in no file: [`Op::all`] leaves them out.

mod read;
mod write;

use edbatch_graph::{Normalization, Op, ParameterId, Reduction};

pub(super) use read::read;
pub(super) use write::write;

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
        Op::Normalize(Normalization::LayerNorm(epsilon)) => {
            Normalization::LayerNorm(to.float("eps", epsilon)?).into()
        }
        Op::Normalize(Normalization::RmsNorm(epsilon)) => {
            Normalization::RmsNorm(to.float("eps", epsilon)?).into()
        }
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
        | Op::Dot
        | Op::Neg
        | Op::Apply(_)
        | Op::Binary(_)
        | Op::Normalize(Normalization::Softmax | Normalization::LogSoftmax)
        | Op::Concat
        | Op::Transpose
        | Op::Adjoint(_) => op,
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
