//! Writes a network as text.

use std::fmt::Write;

use edbatch_graph::{Arity, Network};

use super::operation::{self, WRITING, list, quoted};
use super::{VERSION, network_from_json};

/// Writes a network as the text of a `network.json`, with a final newline.
///
/// The same network gives the same bytes. Reading them gives an equal network.
///
/// # Errors
/// If the network has adjoint cells, or exceeds a limit of the file format. The error names the
/// cell and the operation.
pub fn network_to_json(network: &Network) -> Result<String, UnwritableNetwork> {
    if network.has_adjoints() {
        return Err(UnwritableNetwork(
            "expected a network without adjoint cells: they are derived again when it is trained, \
             and no file needs them"
                .into(),
        ));
    }
    let mut out = format!("{{\"edbatch_network\": {VERSION},\n \"records\": [");
    let mut separator = Separator::new("");
    for record in network.records() {
        separator.write(&mut out, "\n  ");
        let fields = record.fields.iter().map(|field| {
            format!("{{\"name\": {}, \"shape\": {}}}", quoted(&field.name), field.shape)
        });
        let (name, fields) = (quoted(&record.name), list(fields));
        write!(out, "{{\"name\": {name}, \"fields\": {fields}}}").expect(WRITING);
    }
    out.push_str("],\n \"parameters\": [");
    let mut separator = Separator::new("");
    for parameter in network.parameters() {
        separator.write(&mut out, "\n  ");
        let (name, shape) = (quoted(&parameter.name), &parameter.dims);
        write!(out, "{{\"name\": {name}, \"shape\": {shape:?}}}").expect(WRITING);
    }
    out.push_str("],\n \"initial_values\": [");
    let mut separator = Separator::new("");
    for initial in network.initial_values() {
        separator.write(&mut out, "\n  ");
        let record = quoted(&network.fields(initial.record).name);
        let names = initial.parameters.iter().map(|&id| quoted(&network.parameter(id).name));
        write!(out, "{{\"record\": {record}, \"parameters\": {}}}", list(names)).expect(WRITING);
    }
    out.push_str("],\n \"cells\": [");
    let mut separator = Separator::new("");
    for cell in network.cells() {
        separator.write(&mut out, "\n  ");
        let (name, record) = (quoted(cell.name()), quoted(&network.fields(cell.record()).name));
        write!(out, "{{\"name\": {name}, \"record\": {record},\n   \"tables\": ").expect(WRITING);
        let tables = cell.tables().iter().map(|table| {
            let name = quoted(&table.name);
            match table.parameter {
                Some(parameter) => {
                    let parameter = quoted(&network.parameter(parameter).name);
                    format!("{{\"name\": {name}, \"parameter\": {parameter}}}")
                }
                None => format!("{{\"name\": {name}, \"size\": {}}}", table.rows),
            }
        });
        write!(out, "{},\n   \"ports\": ", list(tables)).expect(WRITING);
        let ports = cell.ports().iter().map(|port| {
            let (name, record) = (quoted(&port.name), quoted(&network.fields(port.record).name));
            let many = if port.arity == Arity::Many { ", \"many\": true" } else { "" };
            format!("{{\"name\": {name}, \"record\": {record}{many}}}")
        });
        write!(out, "{},\n   \"operations\": [", list(ports)).expect(WRITING);
        let mut separator = Separator::new("");
        let parts = cell.to_parts();
        for (var, instruction) in parts.instructions.iter().enumerate() {
            separator.write(&mut out, "\n    ");
            operation::write(&mut out, instruction, network).map_err(|expected| {
                let (op, cell) = (instruction.op, cell.name());
                UnwritableNetwork(format!("cell {cell}: v{var}, {op}: expected {expected}"))
            })?;
        }
        let outputs = list(parts.outputs.iter().map(|var| var.0.to_string()));
        write!(out, "],\n   \"outputs\": {outputs}}}").expect(WRITING);
    }
    out.push_str("]}\n");
    // What the limits exclude would be written, but not read.
    match network_from_json(&out) {
        Ok(_) => Ok(out),
        Err(fault) => Err(UnwritableNetwork(format!("as text, {fault}"))),
    }
}

/// Writes a comma before every item but the first.
struct Separator(&'static str);

impl Separator {
    fn new(first: &'static str) -> Self {
        Self(first)
    }

    fn write(&mut self, out: &mut String, indent: &str) {
        out.push_str(self.0);
        out.push_str(indent);
        self.0 = ",";
    }
}

/// The error of a network that a file cannot hold.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct UnwritableNetwork(pub String);
