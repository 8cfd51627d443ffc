//! Builds a network from the items of a file.

use std::collections::HashMap;

use edbatch_graph::{Arity, At, CellParts, Network, ParameterId, Port, RecordId, Table, Var};
use serde_json::value::RawValue;

use super::items::{
    CellItem, FieldItem, InitialItem, Items, Name, ParameterItem, PortItem, RecordItem, TableItem,
};
use super::text::Text;
use super::{MAX_ALL_OPERANDS, MAX_ALL_OPERATIONS, MAX_ITEMS, operation};
use crate::JsonFault;

/// The network that has been read so far.
pub(super) struct Reader<'a> {
    text: Text<'a>,
    pub(super) network: Network,
    records: HashMap<String, RecordId>,
    parameters: HashMap<String, ParameterId>,
    /// The numbers of fields, of tables and ports, of operations, and of operands so far.
    fields: usize,
    places: usize,
    operations: usize,
    operands: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            text: Text(text),
            network: Network::new(),
            records: HashMap::new(),
            parameters: HashMap::new(),
            fields: 0,
            places: 0,
            operations: 0,
            operands: 0,
        }
    }

    pub(super) fn record(&mut self, raw: &RawValue) -> Result<(), JsonFault> {
        let syntax = "{\"name\": \"…\", \"fields\": [{\"name\": \"…\", \"shape\": […]}, …]}";
        let record: RecordItem<'_> = self.text.item(raw, syntax, "record")?;
        let RecordItem { name: Name(name), fields: Items(items) } = record;
        self.fields += items.len();
        self.text.count(raw, self.fields, MAX_ITEMS, "fields in a network")?;
        let mut fields = Vec::with_capacity(items.len());
        for raw in items {
            let syntax = "{\"name\": \"…\", \"shape\": […]}";
            let of = format!("record {name}: field");
            let FieldItem { name: Name(field), shape } = self.text.item(raw, syntax, &of)?;
            let shape = self.text.shape(raw, &shape, &format!("{of} {field}"))?;
            fields.push((field, shape));
        }
        let shapes = fields.iter().map(|(field, shape)| (field.as_str(), *shape));
        let declared = self.network.record(&name, shapes);
        let id = declared.map_err(|error| self.text.invalid(raw, &error))?;
        self.records.insert(name, id);
        Ok(())
    }

    pub(super) fn parameter(&mut self, raw: &RawValue) -> Result<(), JsonFault> {
        let syntax = "{\"name\": \"…\", \"shape\": […]}";
        let parameter = self.text.item(raw, syntax, "parameter")?;
        let ParameterItem { name: Name(name), shape: Items(dims) } = parameter;
        if self.parameters.contains_key(&name) {
            let got = format!("the parameter {name:?} a second time");
            return Err(self.text.fault(raw, "a unique name", got));
        }
        let id = self.network.add_parameter(&name, &dims);
        let id = id.map_err(|error| self.text.invalid(raw, &error))?;
        self.parameters.insert(name, id);
        Ok(())
    }

    pub(super) fn initial_value(&mut self, raw: &RawValue) -> Result<(), JsonFault> {
        let syntax = "{\"record\": \"…\", \"parameters\": [\"…\", …]}";
        let initial = self.text.item(raw, syntax, "an initial value")?;
        let InitialItem { record, parameters: Items(names) } = initial;
        let record = self.text.named(&self.records, &record, "record", raw, "an initial value")?;
        for name in &names {
            self.text.named(&self.parameters, name, "parameter", raw, "an initial value")?;
        }
        let names: Vec<&str> = names.iter().map(|Name(name)| name.as_str()).collect();
        let added = self.network.initial(record, &names).map(drop);
        added.map_err(|error| self.text.invalid(raw, &error))
    }

    pub(super) fn cell(&mut self, raw: &RawValue) -> Result<(), JsonFault> {
        let syntax = "{\"name\": \"…\", \"record\": \"…\", \"tables\": […], \"ports\": […], \
                      \"operations\": […], \"outputs\": […]}";
        let item: CellItem<'_> = self.text.item(raw, syntax, "cell")?;
        let CellItem { name: Name(name), record, tables, ports, operations, outputs } = item;
        self.places += tables.0.len() + ports.0.len();
        self.text.count(raw, self.places, MAX_ITEMS, "tables and ports in a network")?;
        self.operations += operations.0.len();
        self.text.count(raw, self.operations, MAX_ALL_OPERATIONS, "operations in a network")?;
        let of = format!("cell {name}");
        let mut parts =
            CellParts::new(&name, self.text.named(&self.records, &record, "record", raw, &of)?);
        for raw in tables.0 {
            let syntax = "{\"name\": \"…\", \"parameter\": \"…\"}";
            let of = format!("{of}: table");
            let TableItem { name: Name(table), parameter, size } =
                self.text.item(raw, syntax, &of)?;
            let of = format!("{of} {table}");
            let (parameter, rows) = match (parameter, size) {
                (None, Some(size)) => (None, size),
                (Some(name), None) => {
                    let id = self.text.named(&self.parameters, &name, "parameter", raw, &of)?;
                    (Some(id), self.network.parameter(id).dims[0] as u32)
                }
                (parameter, _) => {
                    let expected = "a table with a `parameter`, or an index port with a `size`";
                    let got = if parameter.is_some() { "both" } else { "neither" };
                    return Err(self.text.fault(raw, expected, got).within(&of));
                }
            };
            parts.tables.push(Table { name: table, parameter, rows });
        }
        for raw in ports.0 {
            let syntax = "{\"name\": \"…\", \"record\": \"…\"}";
            let of = format!("{of}: port");
            let PortItem { name: Name(port), record, many } = self.text.item(raw, syntax, &of)?;
            let of = format!("{of} {port}");
            let record = self.text.named(&self.records, &record, "record", raw, &of)?;
            let arity = if many { Arity::Many } else { Arity::One };
            parts.ports.push(Port { name: port, record, arity });
        }
        for (var, &raw) in operations.0.iter().enumerate() {
            let instruction =
                operation::read(self.text, &self.parameters, raw, format!("{of}: v{var}"))?;
            self.operands += instruction.operands.len();
            self.text.count(raw, self.operands, MAX_ALL_OPERANDS, "operands in a network")?;
            parts.instructions.push(instruction);
        }
        parts.outputs = outputs.0.into_iter().map(Var).collect();
        let added = self.network.infer_shapes(&mut parts);
        let added = added.and_then(|()| self.network.add_cell(parts));
        added.map(drop).map_err(|error| {
            let operation = match error.at {
                At::Operation { var: Some(var), .. } => operations.0.get(var.index()).copied(),
                _ => None,
            };
            self.text.invalid(operation.unwrap_or(raw), &error)
        })
    }
}
