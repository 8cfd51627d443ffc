//! Writes an operation as JSON.

use std::fmt::Write;

use edbatch_graph::{Instruction, Network, Op, ParameterId, Reduction, Shape};

use super::{INFINITY, Members, NEG_INFINITY, members};

pub(in crate::network_file) const WRITING: &str = "writing to memory succeeds";

/// Writes an operation. The error says what was expected.
pub(in crate::network_file) fn write(
    out: &mut String,
    instruction: &Instruction,
    network: &Network,
) -> Result<(), String> {
    let op = instruction.op;
    if matches!(op, Op::Adjoint(_)) {
        return Err("an operation that is not only for adjoint cells".into());
    }
    write!(out, "{{\"op\": \"{}\"", op.name()).expect(WRITING);
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
    type Error = String;

    fn index(&mut self, name: &'static str, index: u16) -> Result<u16, String> {
        write!(self.out, ", \"{name}\": {index}").expect(WRITING);
        Ok(index)
    }

    fn count(&mut self, name: &'static str, count: u32) -> Result<u32, String> {
        write!(self.out, ", \"{name}\": {count}").expect(WRITING);
        Ok(count)
    }

    fn float(&mut self, name: &'static str, float: f32) -> Result<f32, String> {
        // Debug writes the shortest text that reads back to the same bits.
        match float {
            f32::INFINITY => write!(self.out, ", \"{name}\": {INFINITY}"),
            f32::NEG_INFINITY => write!(self.out, ", \"{name}\": {NEG_INFINITY}"),
            _ if float.is_nan() => {
                return Err(format!("a {name} other than NaN"));
            }
            _ => write!(self.out, ", \"{name}\": {float:?}"),
        }
        .expect(WRITING);
        Ok(float)
    }

    fn reduction(&mut self, by: Reduction) -> Result<Reduction, String> {
        write!(self.out, ", \"by\": \"{}\"", by.name()).expect(WRITING);
        Ok(by)
    }

    fn parameter(&mut self, id: ParameterId) -> Result<ParameterId, String> {
        let name = quoted(&self.network.parameter(id).name);
        write!(self.out, ", \"name\": {name}").expect(WRITING);
        Ok(id)
    }

    fn shape(&mut self) -> Result<(), String> {
        write!(self.out, ", \"shape\": {}", self.shape).expect(WRITING);
        Ok(())
    }
}

pub(in crate::network_file) fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(", "))
}

pub(in crate::network_file) fn quoted(name: &str) -> String {
    serde_json::to_string(name).expect("text becomes JSON")
}
