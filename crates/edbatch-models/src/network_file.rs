//! Networks as text: `network.json`, version 1.
//!
//! Records, parameters and cells are referred to by name; tables, ports, fields and operations of a
//! cell by number. Shapes of operations are inferred, not stored. [`Network::add_cell`] checks
//! the cells.

mod operation;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt::{self, Write};

use edbatch_graph::{
    Arity, CellError, CellParts, Instruction, Network, Op, ParameterId, Port, RecordId, Shape,
    Table, Var,
};
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::JsonFault;
use crate::json_fault::{MAX_NAME, check_strings, mismatch};
use operation::{Mismatch, Operation};

/// The version that is written and read.
const VERSION: u64 = 1;

/// The maximum number of bytes of a text.
pub(crate) const MAX_BYTES: usize = 64 << 20;

/// The maximum number of cells.
const MAX_CELLS: usize = 1 << 10;

/// The maximum number of operations of a cell. The time to compile a cell grows with the square of
/// its operations.
const MAX_OPERATIONS: usize = 1 << 11;

/// The maximum number of operations of all cells.
const MAX_ALL_OPERATIONS: usize = 1 << 14;

/// The maximum number of operands of all operations.
const MAX_ALL_OPERANDS: usize = 1 << 20;

/// The maximum number of records, of their fields, of parameters, of initial values, and of tables
/// and ports of all cells.
const MAX_ITEMS: usize = 1 << 16;

/// Reads a network from the text of a `network.json`.
///
/// ```
/// use edbatch_models::{network_from_json, network_to_json};
///
/// let text = r#"{"edbatch_network": 1,
///  "records": [
///   {"name": "state", "fields": [{"name": "h", "shape": [4]}]}],
///  "parameters": [
///   {"name": "w", "shape": [4, 4]}],
///  "initial_values": [],
///  "cells": [
///   {"name": "step", "record": "state",
///    "tables": [],
///    "ports": [{"name": "previous", "record": "state"}],
///    "operations": [
///     {"op": "input", "port": 0, "field": 0},
///     {"op": "parameter", "name": "w"},
///     {"op": "matmul", "operands": [1, 0]},
///     {"op": "tanh", "operands": [2]}],
///    "outputs": [3]}]}
/// "#;
/// let network = network_from_json(text)?;
/// assert_eq!(network.kind_names(), ["step"]);
/// assert_eq!(network_to_json(&network)?, text);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If the text is not a valid network of version 1, or exceeds a limit. The error says where, and
/// what was expected. `docs/networks-as-data.md` has the format and the limits.
pub fn network_from_json(text: &str) -> Result<Network, JsonFault> {
    if text.len() > MAX_BYTES {
        let (expected, got) = (format!("at most {MAX_BYTES} bytes"), format!("{}", text.len()));
        return Err(JsonFault::new(text, 0, expected, got));
    }
    check_strings(text)?;
    let file: File<'_> = serde_json::from_str(text)
        .map_err(|error| version_fault(text).unwrap_or_else(|| fault(text, 0, &error, SYNTAX)))?;
    if file.edbatch_network != VERSION {
        return Err(wrong_version(text, file.edbatch_network));
    }
    let mut reader = Reader::new(text);
    file.records.0.iter().try_for_each(|raw| reader.record(raw))?;
    file.parameters.0.iter().try_for_each(|raw| reader.parameter(raw))?;
    file.initial_values.0.iter().try_for_each(|raw| reader.initial_value(raw))?;
    file.cells.0.iter().try_for_each(|raw| reader.cell(raw))?;
    Ok(reader.network)
}

/// Writes a network as the text of a `network.json`, with a final newline.
///
/// The same network gives the same bytes. Reading them gives an equal network.
///
/// # Errors
/// If the network has adjoint cells, or more than a file may have. The error names the cell and the
/// operation.
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
            operation::write(&mut out, instruction, network).map_err(
                |Mismatch { expected, .. }| {
                    let op = instruction.op;
                    let cell = cell.name();
                    UnwritableNetwork(format!("cell {cell}: v{var}, {op}: expected {expected}"))
                },
            )?;
        }
        let outputs = list(parts.outputs.iter().map(|var| var.0.to_string()));
        write!(out, "],\n   \"outputs\": {outputs}}}").expect(WRITING);
    }
    out.push_str("]}\n");
    // A network over the limits could be written, but not read.
    match network_from_json(&out) {
        Ok(_) => Ok(out),
        Err(fault) => Err(UnwritableNetwork(format!("as text, {fault}"))),
    }
}

const WRITING: &str = "writing to memory succeeds";

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

fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(", "))
}

fn quoted(name: &str) -> String {
    serde_json::to_string(name).expect("text becomes JSON")
}

/// The error of a network that a file cannot hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnwritableNetwork(pub String);

impl fmt::Display for UnwritableNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UnwritableNetwork {}

const SYNTAX: &str = "{\"edbatch_network\": 1, \"records\": […], \"parameters\": […], \
                      \"initial_values\": […], \"cells\": […]}";

/// A whole file. Its items are parsed one by one, so that errors have their place.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File<'a> {
    edbatch_network: u64,
    #[serde(borrow)]
    records: Items<&'a RawValue, MAX_ITEMS>,
    #[serde(borrow)]
    parameters: Items<&'a RawValue, MAX_ITEMS>,
    #[serde(borrow)]
    initial_values: Items<&'a RawValue, MAX_ITEMS>,
    #[serde(borrow)]
    cells: Items<&'a RawValue, MAX_CELLS>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordItem {
    name: Name,
    fields: Items<FieldItem, MAX_ITEMS>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FieldItem {
    name: Name,
    shape: Dims,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ParameterItem {
    name: Name,
    shape: Dims,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InitialItem {
    record: Name,
    parameters: Items<Name, MAX_ITEMS>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CellItem<'a> {
    name: Name,
    record: Name,
    tables: Items<TableItem, MAX_ITEMS>,
    ports: Items<PortItem, MAX_ITEMS>,
    #[serde(borrow)]
    operations: Items<&'a RawValue, MAX_OPERATIONS>,
    outputs: Items<u32, MAX_ITEMS>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TableItem {
    name: Name,
    parameter: Option<Name>,
    /// The size of an index port.
    size: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PortItem {
    name: Name,
    record: Name,
    #[serde(default)]
    many: bool,
}

/// The dimensions of a tensor: at most three, so that more are not stored.
type Dims = Items<usize, 3>;

/// A list of at most `MAX` items.
struct Items<T, const MAX: usize>(Vec<T>);

impl<'de, T: Deserialize<'de>, const MAX: usize> Deserialize<'de> for Items<T, MAX> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct List<T, const MAX: usize>(std::marker::PhantomData<T>);

        impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for List<T, MAX> {
            type Value = Items<T, MAX>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = seq.next_element()? {
                    if items.len() == MAX {
                        return Err(mismatch(
                            format_args!("a list of at most {MAX} items"),
                            "more",
                        ));
                    }
                    items.push(item);
                }
                Ok(Items(items))
            }
        }

        from.deserialize_seq(List(std::marker::PhantomData))
    }
}

/// A name of at most [`MAX_NAME`] bytes, without control characters.
struct Name(String);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let name = String::deserialize(from)?;
        if name.len() > MAX_NAME {
            let bytes = name.len();
            return Err(mismatch(format_args!("a name of at most {MAX_NAME} bytes"), bytes));
        }
        if name.contains(|c: char| c.is_control()) {
            return Err(mismatch("a name without control characters", format_args!("{name:?}")));
        }
        Ok(Self(name))
    }
}

/// The error for a file of another version, even if it has other members.
fn version_fault(text: &str) -> Option<JsonFault> {
    #[derive(Deserialize)]
    struct Version {
        edbatch_network: u64,
    }
    let Version { edbatch_network } = serde_json::from_str(text).ok()?;
    (edbatch_network != VERSION).then(|| wrong_version(text, edbatch_network))
}

fn wrong_version(text: &str, version: u64) -> JsonFault {
    let expected = format!("\"edbatch_network\": {VERSION}, the version that this program reads");
    JsonFault::new(text, 0, expected, version.to_string())
}

fn fault(text: &str, start: usize, error: &serde_json::Error, syntax: &str) -> JsonFault {
    JsonFault::of(text, start, error, syntax)
}

/// The network that has been read so far.
struct Reader<'a> {
    text: &'a str,
    network: Network,
    records: HashMap<String, RecordId>,
    parameters: HashMap<String, ParameterId>,
    /// The numbers of fields, of tables and ports, of operations, and of operands so far.
    fields: usize,
    places: usize,
    operations: usize,
    operands: usize,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            text,
            network: Network::new(),
            records: HashMap::new(),
            parameters: HashMap::new(),
            fields: 0,
            places: 0,
            operations: 0,
            operands: 0,
        }
    }

    /// Parses an item of the file.
    fn parse<'r, T: Deserialize<'r>>(
        &self,
        raw: &'r RawValue,
        syntax: &str,
    ) -> Result<T, JsonFault> {
        serde_json::from_str(raw.get())
            .map_err(|error| fault(self.text, self.start(raw), &error, syntax))
    }

    fn start(&self, raw: &RawValue) -> usize {
        raw.get().as_ptr() as usize - self.text.as_ptr() as usize
    }

    /// The error of a declaration.
    fn invalid(&self, raw: &RawValue, error: &CellError) -> JsonFault {
        let CellError { cell, operation, shapes, expected } = error;
        let shapes: Vec<String> = shapes.iter().map(Shape::to_string).collect();
        let of = if shapes.is_empty() { "" } else { " of " };
        let place = if cell.is_empty() { String::new() } else { format!("cell {cell}: ") };
        let place = format!("{place}{operation}{of}{}", shapes.join(" and "));
        // The expectation in an error of a declaration may also say what was found.
        let (expected, got) = match expected.rsplit_once(", got ") {
            Some((expected, got)) => (expected, format!("{got} ({place})")),
            None => (&**expected, place),
        };
        JsonFault::new(self.text, self.start(raw), expected, got)
    }

    /// Fails if `count` is more than `max`.
    fn count(&self, raw: &RawValue, count: usize, max: usize, what: &str) -> Result<(), JsonFault> {
        if count <= max {
            return Ok(());
        }
        let expected = format!("at most {max} {what}");
        Err(JsonFault::new(self.text, self.start(raw), expected, count.to_string()))
    }

    fn record(&mut self, raw: &RawValue) -> Result<(), JsonFault> {
        let syntax = "{\"name\": \"…\", \"fields\": [{\"name\": \"…\", \"shape\": […]}, …]}";
        let RecordItem { name: Name(name), fields: Items(fields) } = self.parse(raw, syntax)?;
        self.fields += fields.len();
        self.count(raw, self.fields, MAX_ITEMS, "fields in a network")?;
        let mut shapes = Vec::with_capacity(fields.len());
        for FieldItem { name: Name(field), shape } in &fields {
            shapes.push((field.as_str(), self.shape(raw, shape)?));
        }
        let id = self.network.record(&name, shapes).map_err(|error| {
            // The declaration calls it a cell.
            let operation = format!("record {}: {}", error.cell, error.operation);
            self.invalid(raw, &CellError { cell: String::new(), operation, ..error })
        })?;
        self.records.insert(name, id);
        Ok(())
    }

    fn shape(&self, raw: &RawValue, Items(dims): &Dims) -> Result<Shape, JsonFault> {
        Shape::new(dims).ok_or_else(|| {
            let expected = "a shape [n] or [rows, columns] of at least one element and fewer than \
                            2^31";
            JsonFault::new(self.text, self.start(raw), expected, format!("{dims:?}"))
        })
    }

    fn parameter(&mut self, raw: &RawValue) -> Result<(), JsonFault> {
        let syntax = "{\"name\": \"…\", \"shape\": […]}";
        let ParameterItem { name: Name(name), shape: Items(dims) } = self.parse(raw, syntax)?;
        if self.parameters.contains_key(&name) {
            let got = format!("the parameter {name:?} a second time");
            return Err(JsonFault::new(self.text, self.start(raw), "a unique name", got));
        }
        let id = self.network.add_parameter(&name, &dims);
        let id = id.map_err(|error| self.invalid(raw, &error))?;
        self.parameters.insert(name, id);
        Ok(())
    }

    fn initial_value(&mut self, raw: &RawValue) -> Result<(), JsonFault> {
        let syntax = "{\"record\": \"…\", \"parameters\": [\"…\", …]}";
        let InitialItem { record, parameters: Items(names) } = self.parse(raw, syntax)?;
        let record = self.named(&self.records, &record, "record", raw, "an initial value")?;
        for name in &names {
            self.named(&self.parameters, name, "parameter", raw, "an initial value")?;
        }
        let names: Vec<&str> = names.iter().map(|Name(name)| name.as_str()).collect();
        let added = self.network.initial(record, &names).map(drop);
        added.map_err(|error| self.invalid(raw, &error))
    }

    fn cell(&mut self, raw: &RawValue) -> Result<(), JsonFault> {
        let syntax = "{\"name\": \"…\", \"record\": \"…\", \"tables\": […], \"ports\": […], \
                      \"operations\": […], \"outputs\": […]}";
        let item: CellItem<'_> = self.parse(raw, syntax)?;
        let CellItem { name: Name(name), record, tables, ports, operations, outputs } = item;
        self.places += tables.0.len() + ports.0.len();
        self.count(raw, self.places, MAX_ITEMS, "tables and ports in a network")?;
        self.operations += operations.0.len();
        self.count(raw, self.operations, MAX_ALL_OPERATIONS, "operations in a network")?;
        let of = format!("cell {name}");
        let mut parts =
            CellParts::new(&name, self.named(&self.records, &record, "record", raw, &of)?);
        for TableItem { name: Name(table), parameter, size } in tables.0 {
            let of = format!("{of}: table {table}");
            let (parameter, rows) = match (parameter, size) {
                (None, Some(size)) => (None, size),
                (Some(name), None) => {
                    let id = self.named(&self.parameters, &name, "parameter", raw, &of)?;
                    (Some(id), self.network.parameter(id).dims[0] as u32)
                }
                (parameter, _) => {
                    let expected = "a table with a `parameter`, or an index port with a `size`";
                    let got = if parameter.is_some() { "both" } else { "neither" };
                    let (start, got) = (self.start(raw), format!("{got} ({of})"));
                    return Err(JsonFault::new(self.text, start, expected, got));
                }
            };
            parts.tables.push(Table { name: table, parameter, rows });
        }
        for PortItem { name: Name(port), record, many } in ports.0 {
            let of = format!("{of}: port {port}");
            let record = self.named(&self.records, &record, "record", raw, &of)?;
            let arity = if many { Arity::Many } else { Arity::One };
            parts.ports.push(Port { name: port, record, arity });
        }
        for (var, &raw) in operations.0.iter().enumerate() {
            let instruction = self.instruction(raw, &format!("{of}: v{var}"))?;
            self.operands += instruction.operands.len();
            self.count(raw, self.operands, MAX_ALL_OPERANDS, "operands in a network")?;
            parts.instructions.push(instruction);
        }
        parts.outputs = outputs.0.into_iter().map(Var).collect();
        let added = self.network.infer_shapes(&mut parts);
        let added = added.and_then(|()| self.network.add_cell(parts));
        added.map(drop).map_err(|error| {
            // The error of an operation begins with its variable.
            let var = error.operation.strip_prefix('v').and_then(|var| var.split(',').next());
            let var = var.and_then(|var| var.parse::<usize>().ok());
            let operation = var.and_then(|var| operations.0.get(var).copied());
            self.invalid(operation.unwrap_or(raw), &error)
        })
    }

    /// Reads an operation. Its shape is inferred later, except for constants.
    fn instruction(&self, raw: &RawValue, of: &str) -> Result<Instruction, JsonFault> {
        let object = self.parse(raw, "{\"op\": \"…\", …}")?;
        let Operation { mut op, parameter, shape, operands } =
            Operation::of(object).map_err(|Mismatch { expected, got }| {
                JsonFault::new(self.text, self.start(raw), expected, format!("{got} ({of})"))
            })?;
        if let Some(parameter) = parameter {
            op = Op::Parameter(self.named(&self.parameters, &parameter, "parameter", raw, of)?);
        }
        let shape = shape.map_or(Ok(Shape::Vector(1)), |shape| self.shape(raw, &shape))?;
        if let Op::Reshape(to) = &mut op {
            *to = shape;
        }
        Ok(Instruction { op, operands: operands.into_iter().map(Var).collect(), shape })
    }

    fn named<I: Copy>(
        &self,
        known: &HashMap<String, I>,
        Name(name): &Name,
        what: &str,
        raw: &RawValue,
        of: &str,
    ) -> Result<I, JsonFault> {
        known.get(name).copied().ok_or_else(|| {
            let expected = format!("the name of a {what} of this file");
            JsonFault::new(self.text, self.start(raw), expected, format!("{name:?} ({of})"))
        })
    }
}
