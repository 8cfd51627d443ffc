//! Operations as JSON: `{"op": "reduce", "port": 0, "field": 0, "by": "sum"}`.
//!
//! [`name`] and [`members`] list all operations. A new operation does not compile before both list
//! it, and it needs a line in [`ALL`] to be read.

use std::fmt::Write;

use edbatch_graph::{Instruction, Network, Op, ParameterId, Reduction, Shape};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::{Dims, Items, Name, WRITING, list, quoted};
use crate::json_fault::number_of_text;

/// The maximum number of operands of an operation.
const MAX_OPERANDS: usize = 1 << 12;

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
fn members(op: Op, to: &mut impl Members) -> Result<Op, Mismatch> {
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
    fn index(&mut self, name: &'static str, index: u16) -> Result<u16, Mismatch>;
    fn count(&mut self, name: &'static str, count: u32) -> Result<u32, Mismatch>;
    fn float(&mut self, name: &'static str, float: f32) -> Result<f32, Mismatch>;
    fn reduction(&mut self, by: Reduction) -> Result<Reduction, Mismatch>;
    fn parameter(&mut self, id: ParameterId) -> Result<ParameterId, Mismatch>;
    /// The shape of the result.
    fn shape(&mut self) -> Result<(), Mismatch>;
}

/// The error of an operation.
pub(super) struct Mismatch {
    pub(super) expected: String,
    pub(super) got: String,
}

impl Mismatch {
    fn new(expected: impl Into<String>, got: impl Into<String>) -> Self {
        Self { expected: expected.into(), got: got.into() }
    }
}

/// Writes an operation.
pub(super) fn write(
    out: &mut String,
    instruction: &Instruction,
    network: &Network,
) -> Result<(), Mismatch> {
    let op = instruction.op;
    let Some(name) = name(op) else {
        return Err(Mismatch::new("an operation that is not only for adjoint cells", "one"));
    };
    write!(out, "{{\"op\": \"{name}\"").expect(WRITING);
    members(op, &mut Writer { out, shape: instruction.shape, network })?;
    if !op.is_source() {
        let operands = list(instruction.operands.iter().map(|var| var.0.to_string()));
        write!(out, ", \"operands\": {operands}").expect(WRITING);
    }
    out.push('}');
    Ok(())
}

struct Writer<'a> {
    out: &'a mut String,
    shape: Shape,
    network: &'a Network,
}

impl Members for Writer<'_> {
    fn index(&mut self, name: &'static str, index: u16) -> Result<u16, Mismatch> {
        write!(self.out, ", \"{name}\": {index}").expect(WRITING);
        Ok(index)
    }

    fn count(&mut self, name: &'static str, count: u32) -> Result<u32, Mismatch> {
        write!(self.out, ", \"{name}\": {count}").expect(WRITING);
        Ok(count)
    }

    fn float(&mut self, name: &'static str, float: f32) -> Result<f32, Mismatch> {
        // Debug writes the shortest text that reads back to the same bits.
        match float {
            f32::INFINITY => write!(self.out, ", \"{name}\": {INFINITY}"),
            f32::NEG_INFINITY => write!(self.out, ", \"{name}\": {NEG_INFINITY}"),
            _ if float.is_nan() => {
                return Err(Mismatch::new(format!("a {name} other than NaN"), "NaN"));
            }
            _ => write!(self.out, ", \"{name}\": {float:?}"),
        }
        .expect(WRITING);
        Ok(float)
    }

    fn reduction(&mut self, by: Reduction) -> Result<Reduction, Mismatch> {
        write!(self.out, ", \"by\": \"{}\"", reduction_name(by)).expect(WRITING);
        Ok(by)
    }

    fn parameter(&mut self, id: ParameterId) -> Result<ParameterId, Mismatch> {
        let name = quoted(&self.network.parameter(id).name);
        write!(self.out, ", \"name\": {name}").expect(WRITING);
        Ok(id)
    }

    fn shape(&mut self) -> Result<(), Mismatch> {
        write!(self.out, ", \"shape\": {}", self.shape).expect(WRITING);
        Ok(())
    }
}

const INFINITY: &str = "\"Infinity\"";
const NEG_INFINITY: &str = "\"-Infinity\"";

/// An operation that was read. Parameters have a name in the file, and not yet a number.
pub(super) struct Operation {
    pub(super) op: Op,
    pub(super) parameter: Option<Name>,
    /// The shape of a constant or of a reshaped tensor.
    pub(super) shape: Option<Dims>,
    pub(super) operands: Vec<u32>,
}

/// The members of any operation.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Object {
    op: Name,
    #[serde(default, deserialize_with = "present")]
    port: Option<u16>,
    #[serde(default, deserialize_with = "present")]
    field: Option<u16>,
    #[serde(default, deserialize_with = "present")]
    keys: Option<u16>,
    #[serde(default, deserialize_with = "present")]
    values: Option<u16>,
    #[serde(default, deserialize_with = "present")]
    scores: Option<u16>,
    #[serde(default, deserialize_with = "present")]
    heads: Option<u32>,
    #[serde(default, deserialize_with = "present")]
    eps: Option<Float>,
    #[serde(default, deserialize_with = "present")]
    by: Option<Name>,
    #[serde(default, deserialize_with = "present")]
    table: Option<u16>,
    #[serde(default, deserialize_with = "present")]
    name: Option<Name>,
    #[serde(default, deserialize_with = "present")]
    value: Option<Float>,
    #[serde(default, deserialize_with = "present")]
    factor: Option<Float>,
    rate: Option<Float>,
    #[serde(default, deserialize_with = "present")]
    shape: Option<Dims>,
    #[serde(default, deserialize_with = "present")]
    start: Option<u32>,
    #[serde(default, deserialize_with = "present")]
    rows: Option<u32>,
    #[serde(default, deserialize_with = "present")]
    operands: Option<Items<u32, MAX_OPERANDS>>,
}

/// Reads a member that is there. Without this function, `null` would count as a missing member.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

impl Operation {
    /// Takes the members of an operation. The error says what was expected, and what was found.
    pub(super) fn of(mut object: Object) -> Result<Self, Mismatch> {
        let found = ALL.into_iter().find(|&op| name(op) == Some(&object.op.0));
        let Some(op) = found else {
            let known: Vec<&str> = ALL.into_iter().filter_map(name).collect();
            let expected = format!("an operation of version 1: {}", known.join(", "));
            return Err(Mismatch::new(expected, format!("{:?}", object.op.0)));
        };
        let mut reader = Reader { object: &mut object, parameter: None, shape: None };
        let op = members(op, &mut reader)?;
        let operands = match op.is_source() {
            true => Vec::new(),
            false => reader.take("operands", |object| &mut object.operands)?.0,
        };
        let Reader { parameter, shape, .. } = reader;
        match object.surplus() {
            Some(member) => {
                let expected = format!("only the members of operation {:?}", object.op.0);
                Err(Mismatch::new(expected, format!("the member `{member}`")))
            }
            None => Ok(Self { op, parameter, shape, operands }),
        }
    }
}

impl Object {
    /// Returns the name of a member that was not taken.
    fn surplus(&self) -> Option<&'static str> {
        let left = [
            ("port", self.port.is_some()),
            ("field", self.field.is_some()),
            ("keys", self.keys.is_some()),
            ("values", self.values.is_some()),
            ("scores", self.scores.is_some()),
            ("heads", self.heads.is_some()),
            ("eps", self.eps.is_some()),
            ("by", self.by.is_some()),
            ("table", self.table.is_some()),
            ("name", self.name.is_some()),
            ("value", self.value.is_some()),
            ("factor", self.factor.is_some()),
            ("rate", self.rate.is_some()),
            ("shape", self.shape.is_some()),
            ("start", self.start.is_some()),
            ("rows", self.rows.is_some()),
            ("operands", self.operands.is_some()),
        ];
        left.into_iter().find_map(|(name, left)| left.then_some(name))
    }
}

struct Reader<'a> {
    object: &'a mut Object,
    parameter: Option<Name>,
    shape: Option<Dims>,
}

impl Reader<'_> {
    fn take<T>(
        &mut self,
        name: &'static str,
        member: impl FnOnce(&mut Object) -> &mut Option<T>,
    ) -> Result<T, Mismatch> {
        member(self.object).take().ok_or_else(|| {
            let got = format!("operation {:?} without it", self.object.op.0);
            Mismatch::new(format!("the member `{name}`"), got)
        })
    }
}

impl Members for Reader<'_> {
    fn index(&mut self, name: &'static str, _: u16) -> Result<u16, Mismatch> {
        self.take(name, |object| match name {
            "port" => &mut object.port,
            "field" => &mut object.field,
            "keys" => &mut object.keys,
            "values" => &mut object.values,
            "scores" => &mut object.scores,
            _ => &mut object.table,
        })
    }

    fn count(&mut self, name: &'static str, _: u32) -> Result<u32, Mismatch> {
        self.take(name, |object| match name {
            "start" => &mut object.start,
            "heads" => &mut object.heads,
            _ => &mut object.rows,
        })
    }

    fn float(&mut self, name: &'static str, _: f32) -> Result<f32, Mismatch> {
        let Float(float) = self.take(name, |object| match name {
            "value" => &mut object.value,
            "eps" => &mut object.eps,
            "rate" => &mut object.rate,
            _ => &mut object.factor,
        })?;
        Ok(float)
    }

    fn reduction(&mut self, _: Reduction) -> Result<Reduction, Mismatch> {
        let Name(name) = self.take("by", |object| &mut object.by)?;
        REDUCTIONS.into_iter().find(|&by| reduction_name(by) == name).ok_or_else(|| {
            let known = REDUCTIONS.map(reduction_name).join(", ");
            Mismatch::new(format!("a reduction of version 1: {known}"), format!("{name:?}"))
        })
    }

    fn parameter(&mut self, id: ParameterId) -> Result<ParameterId, Mismatch> {
        self.parameter = Some(self.take("name", |object| &mut object.name)?);
        Ok(id)
    }

    fn shape(&mut self) -> Result<(), Mismatch> {
        self.shape = Some(self.take("shape", |object| &mut object.shape)?);
        Ok(())
    }
}

/// A number, or an infinity as text.
struct Float(f32);

impl<'de> Deserialize<'de> for Float {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(from)?;
        match raw.get() {
            INFINITY => Ok(Self(f32::INFINITY)),
            NEG_INFINITY => Ok(Self(f32::NEG_INFINITY)),
            number => number_of_text(number).map(Self),
        }
    }
}
