//! What a call must look like, and how it can fail to.

use std::fmt;

use crate::{Kind, Network, RecordId, Source, Value};

/// What [`Graph::call`](crate::Graph::call) checks of all cells: flat, near, and without a pointer
/// to follow, for it is read at every call.
#[derive(Clone, Debug)]
pub(crate) struct Signatures {
    cells: Vec<Signature>,
    /// The record that each cell produces.
    records: Vec<RecordId>,
    /// Rows of every table, cell after cell.
    table_rows: Vec<u32>,
    /// The record at every port, cell after cell.
    ports: Vec<RecordId>,
}

#[derive(Clone, Copy, Debug)]
struct Signature {
    first_table: u32,
    first_port: u32,
    tables: u32,
    ports: u32,
    variadic: bool,
}

impl Signatures {
    pub(crate) fn new(network: &Network) -> Self {
        let (mut cells, mut table_rows, mut ports) = (Vec::new(), Vec::new(), Vec::new());
        for cell in network.cells() {
            cells.push(Signature {
                first_table: table_rows.len() as u32,
                first_port: ports.len() as u32,
                tables: cell.tables().len() as u32,
                ports: cell.ports().len() as u32,
                variadic: cell.is_variadic(),
            });
            table_rows.extend(cell.tables().iter().map(|table| table.rows));
            ports.extend(cell.ports().iter().map(|port| port.record));
        }
        Self {
            cells,
            records: network.cells().iter().map(|cell| cell.record()).collect(),
            table_rows,
            ports,
        }
    }

    /// Number of cells.
    pub(crate) fn len(&self) -> usize {
        self.cells.len()
    }

    /// How many tables a cell reads a row of.
    #[inline]
    pub(crate) fn tables(&self, cell: Kind) -> usize {
        self.cells[cell.index()].tables as usize
    }

    /// The record that a cell produces.
    #[inline]
    pub(crate) fn record(&self, cell: Kind) -> RecordId {
        self.records[cell.index()]
    }

    /// Whether a call fits its cell, in a graph of these nodes and given values.
    #[inline]
    pub(crate) fn check(
        &self,
        cell: Kind,
        rows: &[u32],
        values: &[Value],
        nodes: &[Kind],
        given: &[RecordId],
    ) -> Result<(), Misfit> {
        let Some(signature) = self.cells.get(cell.index()) else {
            return Err(Misfit::NoSuchCell);
        };
        let first = signature.first_table as usize;
        let tables = &self.table_rows[first..first + signature.tables as usize];
        if rows.len() != tables.len() {
            return Err(Misfit::Rows);
        }
        for (table, (row, rows)) in rows.iter().zip(tables).enumerate() {
            if row >= rows {
                return Err(Misfit::Row { table });
            }
        }

        let first = signature.first_port as usize;
        let ports = &self.ports[first..first + signature.ports as usize];
        if values.len() != ports.len() && !(signature.variadic && values.len() > ports.len()) {
            return Err(Misfit::Values);
        }
        let is = |value: Value, expected: RecordId| match value.source() {
            Source::Node(node) => nodes
                .get(node.index())
                .is_some_and(|kind| self.records[kind.index()] == expected),
            Source::Given(index) => given.get(index) == Some(&expected),
        };
        for (position, (&value, &port)) in values.iter().zip(ports).enumerate() {
            if !is(value, port) {
                return Err(Misfit::Value { position });
            }
        }
        if values.len() > ports.len() {
            // What is beyond the last port is at the last port, which takes any number.
            let last = ports[ports.len() - 1];
            for (position, &value) in values.iter().enumerate().skip(ports.len()) {
                if !is(value, last) {
                    return Err(Misfit::Value { position });
                }
            }
        }
        Ok(())
    }
}

/// What does not fit, in as few words as the fast path can carry.
pub(crate) enum Misfit {
    NoSuchCell,
    Rows,
    Row { table: usize },
    Values,
    Value { position: usize },
}

impl Misfit {
    /// The whole story of a call that was refused.
    #[cold]
    pub(crate) fn explain(
        self,
        network: &Network,
        cell: Kind,
        rows: &[u32],
        values: &[Value],
        record_of: impl Fn(Value) -> Option<RecordId>,
    ) -> CallError {
        let Some(called) = network.cells().get(cell.index()) else {
            let cells = network.cells().len();
            return CallError {
                cell: cell.to_string(),
                message: format!("does not exist: the network has {cells} cells"),
            };
        };
        let message = match self {
            Self::NoSuchCell => unreachable!("the network has the cell"),
            Self::Rows => {
                let expected = count(called.tables().len(), "row");
                format!("expected {expected} of tables, got {}", rows.len())
            }
            Self::Row { table } => {
                let (row, table) = (rows[table], &called.tables()[table]);
                let (name, rows) = (&table.name, table.rows);
                format!("{name}: row {row} does not exist: the table has {rows}")
            }
            Self::Values => {
                let least = if called.is_variadic() {
                    "at least "
                } else {
                    ""
                };
                let expected = count(called.ports().len(), "value");
                format!("expected {least}{expected}, got {}", values.len())
            }
            Self::Value { position } => {
                let port = position.min(called.ports().len() - 1);
                let (value, port) = (values[position], &called.ports()[port]);
                let (name, expected) = (&port.name, &network.fields(port.record).name);
                match record_of(value) {
                    Some(got) => {
                        let got = &network.fields(got).name;
                        format!("{name}: expected a value of record {expected}, got one of {got}")
                    }
                    None => format!(
                        "{name}: expected a value of this graph, got {:?}; a value that is used \
                         after an await must be carried across it",
                        value.source()
                    ),
                }
            }
        };
        CallError {
            cell: called.name().into(),
            message,
        }
    }
}

fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// Why a call does not fit its cell.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CallError {
    /// The cell's name.
    pub cell: String,
    /// What was expected and what was got.
    pub message: String,
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "call of {}: {}", self.cell, self.message)
    }
}

impl std::error::Error for CallError {}
