//! The fields of an adjoint's record, and what adjoints add to a network.

use std::collections::HashMap;

use super::pair::Pair;
use super::{GradientRecords, Sum};
use crate::network::{Field, MAX_ITEMS, Record};
use crate::{
    Arity, Cell, CellError, Instruction, Kind, Network, ParameterSum, Port, RecordId, Table, Var,
};

/// The fields of an adjoint's record, and their variables.
#[derive(Default)]
pub(super) struct Fields {
    names: Vec<String>,
    pub(super) vars: Vec<Var>,
}

impl Fields {
    pub(super) fn push(&mut self, name: String, var: Var) -> u16 {
        self.names.push(name);
        self.vars.push(var);
        (self.vars.len() - 1) as u16
    }

    pub(super) fn len(&self) -> u16 {
        self.vars.len() as u16
    }

    /// Adds the variables that a gradient of values at a port reads.
    pub(super) fn pair(&mut self, pair: &Pair<Var>) -> Pair<u16> {
        pair.map(|var| match self.vars.iter().position(|&other| other == var) {
            Some(known) => known as u16,
            None => self.push(format!("pair {var}"), var),
        })
    }

    /// Adds the variables of sums, each once.
    pub(super) fn sums(&mut self, sums: &[Sum]) -> Vec<ParameterSum> {
        let known = self.vars.iter().copied().zip(0..);
        // A variable that is a field already is not added again.
        let mut known: HashMap<Var, u16> = known.collect();
        let mut field =
            |var: Var| *known.entry(var).or_insert_with(|| self.push(format!("sum {var}"), var));
        let sum = |sum: &Sum| match *sum {
            Sum::Products { parameter, delta, x, pairs } => {
                let (delta, x) = (field(delta), field(x));
                ParameterSum::Products { parameter, delta, x, pairs }
            }
            Sum::Elements { parameter, from } => {
                ParameterSum::Elements { parameter, from: field(from) }
            }
        };
        sums.iter().map(sum).collect()
    }
}

/// The records and cells that adjoints add to a network.
pub(super) struct Additions<'a> {
    pub(super) network: &'a mut Network,
    /// The forward cell, and its number.
    pub(super) cell: &'a Cell,
    pub(super) kind: Kind,
    pub(super) gradients: &'a mut GradientRecords,
}

impl Additions<'_> {
    pub(super) fn error(&self, limit: &str) -> CellError {
        CellError::new(self.cell.name(), "adjoint", &[], limit)
    }

    pub(super) fn record(&mut self, name: &str, fields: Vec<Field>) -> Result<RecordId, CellError> {
        let records = &self.network.declarations.records;
        if fields.len() > MAX_ITEMS {
            return Err(self.error("at most 65536 fields"));
        }
        let Ok(id) = u16::try_from(records.len()) else {
            return Err(self.error("at most 65536 records in the network"));
        };
        self.network.declarations.records.push(Record { name: name.into(), fields });
        Ok(RecordId(id))
    }

    /// Extends the forward cell's row by the variables that its calls save.
    pub(super) fn row(&mut self, saved: &[Var]) -> Result<RecordId, CellError> {
        let record = self.cell.record();
        if saved.is_empty() {
            return Ok(record);
        }
        let Record { name, mut fields } = self.network.fields(record).clone();
        let shape = |var: Var| self.cell.instruction(var).shape;
        fields.extend(saved.iter().map(|&var| Field { name: var.to_string(), shape: shape(var) }));
        let row = self.record(&format!("{name}, saved by {}", self.cell.name()), fields)?;
        let forward = &mut self.network.cells[self.kind.index()];
        forward.row = row;
        forward.outputs.extend(saved);
        Ok(row)
    }

    /// Returns the port that takes the gradients of a field of the forward cell's record.
    pub(super) fn gradient_port(&mut self, field: usize) -> Result<Port, CellError> {
        let Record { name, fields } = self.network.fields(self.cell.record());
        let (name, taken) = (format!("gradient of {name}"), fields[field].clone());
        let port = format!("{} gradient", taken.name);
        let key = (self.cell.record(), field);
        let record = match self.gradients.get(&key) {
            Some(&known) => known,
            None => self.record(&name, vec![taken])?,
        };
        self.gradients.insert(key, record);
        Ok(Port { name: port, record, arity: Arity::Many })
    }

    pub(super) fn cell(
        &mut self,
        what: &str,
        tables: Vec<Table>,
        ports: Vec<Port>,
        instructions: Vec<Instruction>,
        Fields { names, vars: outputs }: Fields,
    ) -> Result<Kind, CellError> {
        let name = format!("{} ({what})", self.cell.name());
        let shape = |var: &Var| instructions[var.index()].shape;
        let fields = names.into_iter().zip(outputs.iter().map(shape));
        let fields = fields.map(|(name, shape)| Field { name, shape }).collect();
        let record = self.record(&name, fields)?;
        if ports.len() > MAX_ITEMS || instructions.len() > MAX_ITEMS {
            return Err(self.error("at most 65536 ports and operations"));
        }
        let Ok(kind) = u16::try_from(self.network.cells.len()) else {
            return Err(self.error("at most 65536 cells in the network"));
        };
        let (row, declared) = (record, None);
        let cell = Cell { name, tables, ports, instructions, outputs, record, row, declared };
        self.network.cells.push(cell);
        Ok(Kind(kind))
    }
}
