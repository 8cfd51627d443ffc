//! Writes an operation as JSON.

use std::fmt::Display;

use edbatch_graph::{Instruction, Network, Op, ParameterId, Reduction, Shape};

use super::{INFINITY, Members, NEG_INFINITY, members};
use crate::json_text::{list, quoted};

/// Writes an operation. The error says what was expected.
pub(in crate::network_file) fn write(
    instruction: &Instruction,
    network: &Network,
) -> Result<String, String> {
    let op = instruction.op;
    if matches!(op, Op::Adjoint(_)) {
        return Err("an operation that is not only for adjoint cells".into());
    }
    let text = format!("{{\"op\": \"{}\"", op.name());
    let mut writer = Writer { text, shape: instruction.shape, network };
    members(op, &mut writer)?;
    if !op.is_source() {
        let operands = instruction.operands.iter().map(|var| var.0.to_string());
        writer.member("operands", list(operands));
    }
    Ok(writer.text + "}")
}

struct Writer<'a> {
    text: String,
    shape: Shape,
    network: &'a Network,
}

impl Writer<'_> {
    fn member(&mut self, name: &str, value: impl Display) {
        self.text.push_str(&format!(", \"{name}\": {value}"));
    }
}

impl Members for Writer<'_> {
    type Error = String;

    fn index(&mut self, name: &'static str, index: u16) -> Result<u16, String> {
        self.member(name, index);
        Ok(index)
    }

    fn count(&mut self, name: &'static str, count: u32) -> Result<u32, String> {
        self.member(name, count);
        Ok(count)
    }

    fn float(&mut self, name: &'static str, float: f32) -> Result<f32, String> {
        match float {
            f32::INFINITY => self.member(name, INFINITY),
            f32::NEG_INFINITY => self.member(name, NEG_INFINITY),
            _ if float.is_nan() => return Err(format!("a {name} other than NaN")),
            // Debug writes the shortest text that reads back to the same bits.
            _ => self.member(name, format_args!("{float:?}")),
        }
        Ok(float)
    }

    fn reduction(&mut self, by: Reduction) -> Result<Reduction, String> {
        self.member("by", quoted(by.name()));
        Ok(by)
    }

    fn parameter(&mut self, id: ParameterId) -> Result<ParameterId, String> {
        self.member("name", quoted(&self.network.parameter(id).name));
        Ok(id)
    }

    fn shape(&mut self) -> Result<(), String> {
        self.member("shape", self.shape);
        Ok(())
    }
}
