//! Reads an operation from JSON.

use edbatch_graph::{Op, ParameterId, Reduction};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::{
    ALL, INFINITY, Members, Mismatch, NEG_INFINITY, REDUCTIONS, members, name, reduction_name,
};
use crate::json_fault::number_of_text;
use crate::network_file::items::{Dims, Items, Name, present};

/// The maximum number of operands of an operation.
const MAX_OPERANDS: usize = 1 << 12;

/// An operation that was read. Parameters have a name in the file, and not yet a number.
pub(in crate::network_file) struct Operation {
    pub(in crate::network_file) op: Op,
    pub(in crate::network_file) parameter: Option<Name>,
    /// The shape of a constant or of a reshaped tensor.
    pub(in crate::network_file) shape: Option<Dims>,
    pub(in crate::network_file) operands: Vec<u32>,
}

/// The members of any operation.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::network_file) struct Object {
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
    #[serde(default, deserialize_with = "present")]
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

impl Operation {
    /// Takes the members of an operation. The error says what was expected, and what was found.
    pub(in crate::network_file) fn of(mut object: Object) -> Result<Self, Mismatch> {
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
    /// Returns the name of a member that no one has taken.
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
