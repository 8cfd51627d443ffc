//! Writes a network as text.

use edbatch_graph::{Arity, Cell, Network};

use super::{VERSION, network_from_json, operation};
use crate::json_text::{lines, list, quoted};

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
    let records = network.records().iter().map(|record| {
        let fields = record.fields.iter().map(|field| {
            format!("{{\"name\": {}, \"shape\": {}}}", quoted(&field.name), field.shape)
        });
        format!("{{\"name\": {}, \"fields\": {}}}", quoted(&record.name), list(fields))
    });
    let parameters = network.parameters().iter().map(|parameter| {
        format!("{{\"name\": {}, \"shape\": {:?}}}", quoted(&parameter.name), parameter.dims)
    });
    let initial_values = network.initial_values().iter().map(|initial| {
        let record = quoted(&network.fields(initial.record).name);
        let names = initial.parameters.iter().map(|&id| quoted(&network.parameter(id).name));
        format!("{{\"record\": {record}, \"parameters\": {}}}", list(names))
    });
    let cells = network.cells().iter().map(|cell| write_cell(network, cell));
    let cells = cells.collect::<Result<Vec<_>, _>>()?;
    let text = format!(
        "{{\"edbatch_network\": {VERSION},\n \"records\": {},\n \"parameters\": {},\n \
         \"initial_values\": {},\n \"cells\": {}}}\n",
        lines(records, "  "),
        lines(parameters, "  "),
        lines(initial_values, "  "),
        lines(cells.into_iter(), "  ")
    );
    // What the limits exclude would be written, but not read.
    match network_from_json(&text) {
        Ok(_) => Ok(text),
        Err(fault) => Err(UnwritableNetwork(format!("as text, {fault}"))),
    }
}

fn write_cell(network: &Network, cell: &Cell) -> Result<String, UnwritableNetwork> {
    let record_name = |record| quoted(&network.fields(record).name);
    let (name, record) = (quoted(cell.name()), record_name(cell.record()));
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
    let ports = cell.ports().iter().map(|port| {
        let (name, record) = (quoted(&port.name), record_name(port.record));
        let many = if port.arity == Arity::Many { ", \"many\": true" } else { "" };
        format!("{{\"name\": {name}, \"record\": {record}{many}}}")
    });
    let parts = cell.to_parts();
    let operations = parts.instructions.iter().enumerate().map(|(var, instruction)| {
        operation::write(instruction, network).map_err(|expected| {
            let (op, cell) = (instruction.op, cell.name());
            UnwritableNetwork(format!("cell {cell}: v{var}, {op}: expected {expected}"))
        })
    });
    let operations = operations.collect::<Result<Vec<_>, _>>()?;
    Ok(format!(
        "{{\"name\": {name}, \"record\": {record},\n   \"tables\": {},\n   \"ports\": {},\n   \
         \"operations\": {},\n   \"outputs\": {}}}",
        list(tables),
        list(ports),
        lines(operations.into_iter(), "    "),
        list(parts.outputs.iter().map(|var| var.0.to_string()))
    ))
}

/// The error of a network that a file cannot hold.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct UnwritableNetwork(pub String);
