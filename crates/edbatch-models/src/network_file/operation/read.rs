//! Reads an operation from JSON.

use std::collections::HashMap;
use std::fmt;

use edbatch_graph::{Instruction, Op, ParameterId, Reduction, Shape, Var};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::{INFINITY, Members, NEG_INFINITY, members};
use crate::JsonFault;
use crate::json_fault::{mismatch, number_of_text};
use crate::network_file::items::{Dims, Items, Name};
use crate::network_file::text::Text;

/// The maximum number of operands of an operation.
const MAX_OPERANDS: usize = 1 << 12;

/// The maximum number of members of an operation, including unknown ones.
const MAX_MEMBERS: usize = 16;

/// Reads an operation. Its shape is inferred later, except for constants. `of` is its place, in
/// error messages.
pub(in crate::network_file) fn read(
    text: Text<'_>,
    parameters: &HashMap<String, ParameterId>,
    raw: &RawValue,
    of: String,
) -> Result<Instruction, JsonFault> {
    let object = text.parse(raw, "{\"op\": \"…\", …}");
    let Object(left) = object.map_err(|fault: JsonFault| fault.within(&of))?;
    let mut reader =
        Reader { text, parameters, raw, of, left, taken: vec![], shape: Shape::Vector(1) };
    let Name(wanted) = reader.take("op")?;
    let Some(op) = Op::all().find(|op| op.name() == wanted) else {
        let known: Vec<&str> = Op::all().map(Op::name).collect();
        let expected = format!("an operation of version 1: {}", known.join(", "));
        return Err(reader.fault(expected, format!("{wanted:?}")));
    };
    reader.of = format!("{}, {wanted}", reader.of);
    let mut op = members(op, &mut reader)?;
    if let Op::Reshape(to) = &mut op {
        *to = reader.shape;
    }
    let operands = match op.is_source() {
        true => Vec::new(),
        false => reader.take::<Items<u32, MAX_OPERANDS>>("operands")?.0,
    };
    if let Some((member, _)) = reader.left.first() {
        let expected = format!("only the members {:?}", reader.taken);
        return Err(reader.fault(expected, format!("the member {member:?}")));
    }
    let operands = operands.into_iter().map(Var).collect();
    Ok(Instruction { op, operands, shape: reader.shape })
}

/// The members of an operation, before its name says how they are read.
struct Object<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Object<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(Self(Vec::new()))
    }
}

impl<'de> Visitor<'de> for Object<'de> {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an operation, {\"op\": \"…\", …}")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Self, A::Error> {
        while let Some(Name(member)) = map.next_key()? {
            if self.0.iter().any(|(known, _)| *known == member) {
                let expected = format_args!("the member {member:?} once");
                return Err(mismatch(expected, "it a second time"));
            }
            if self.0.len() == MAX_MEMBERS {
                return Err(mismatch(format_args!("at most {MAX_MEMBERS} members"), "more"));
            }
            self.0.push((member, map.next_value()?));
        }
        Ok(self)
    }
}

struct Reader<'a> {
    text: Text<'a>,
    parameters: &'a HashMap<String, ParameterId>,
    raw: &'a RawValue,
    /// The place, in error messages.
    of: String,
    /// The members that were not taken yet.
    left: Vec<(String, &'a RawValue)>,
    taken: Vec<&'static str>,
    /// The shape of a constant or of a reshaped tensor.
    shape: Shape,
}

impl<'a> Reader<'a> {
    fn take<T: Deserialize<'a>>(&mut self, member: &'static str) -> Result<T, JsonFault> {
        let Some(index) = self.left.iter().position(|(name, _)| name == member) else {
            let left = self.left.iter().map(|(name, _)| name.as_str());
            let found: Vec<&str> = self.taken.iter().copied().chain(left).collect();
            return Err(self.fault(format!("the member {member:?}"), format!("{found:?}")));
        };
        self.taken.push(member);
        let value = self.text.parse(self.left.remove(index).1, &format!("a value for `{member}`"));
        value.map_err(|fault| fault.within(&self.of))
    }

    fn fault(&self, expected: String, got: String) -> JsonFault {
        self.text.fault(self.raw, expected, got).within(&self.of)
    }
}

impl Members for Reader<'_> {
    type Error = JsonFault;

    fn index(&mut self, name: &'static str, _: u16) -> Result<u16, JsonFault> {
        self.take(name)
    }

    fn count(&mut self, name: &'static str, _: u32) -> Result<u32, JsonFault> {
        self.take(name)
    }

    fn float(&mut self, name: &'static str, _: f32) -> Result<f32, JsonFault> {
        self.take(name).map(|Float(float)| float)
    }

    fn reduction(&mut self, _: Reduction) -> Result<Reduction, JsonFault> {
        let Name(name) = self.take("by")?;
        Reduction::ALL.iter().copied().find(|by| by.name() == &*name).ok_or_else(|| {
            let known: Vec<&str> = Reduction::ALL.iter().map(|by| by.name()).collect();
            let expected = format!("a reduction of version 1: {}", known.join(", "));
            self.fault(expected, format!("{name:?}"))
        })
    }

    fn parameter(&mut self, _: ParameterId) -> Result<ParameterId, JsonFault> {
        let name = self.take("name")?;
        self.text.named(self.parameters, &name, "parameter", self.raw, &self.of)
    }

    fn shape(&mut self) -> Result<(), JsonFault> {
        let dims: Dims = self.take("shape")?;
        self.shape = self.text.shape(self.raw, &dims, &self.of)?;
        Ok(())
    }
}

/// A number, or an infinity as text.
struct Float(f32);

impl<'de> Deserialize<'de> for Float {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match <&RawValue>::deserialize(from)?.get() {
            INFINITY => Ok(Self(f32::INFINITY)),
            NEG_INFINITY => Ok(Self(f32::NEG_INFINITY)),
            number => number_of_text(number).map(Self),
        }
    }
}
