//! What a call must look like, and how it can fail to.

use std::fmt;

use crate::graph::Node;
use crate::{Cell, Kind, Network, Port, RecordId, Source, Table, Value};

/// What [`Graph::call`](crate::Graph::call) checks, by cell: no more than that, for it is read at
/// every call.
#[derive(Clone, Debug)]
pub(crate) struct Signatures(Vec<Signature>);

#[derive(Clone, Debug)]
struct Signature {
    /// How many rows each table has.
    tables: Box<[u32]>,
    /// The record at each port.
    ports: Box<[RecordId]>,
    /// What the values beyond the last port are, if any may be there.
    surplus: Option<RecordId>,
    record: RecordId,
}

impl Signatures {
    pub(crate) fn new(network: &Network) -> Self {
        let signature = |cell: &Cell| Signature {
            tables: cell.tables().iter().map(|table| table.rows).collect(),
            ports: cell.ports().iter().map(|port| port.record).collect(),
            surplus: cell.ports().last().filter(|_| cell.is_variadic()).map(|port| port.record),
            record: cell.record(),
        };
        Self(network.cells().iter().map(signature).collect())
    }

    /// Number of cells.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// How many tables a cell reads a row of.
    #[inline]
    pub(crate) fn tables(&self, cell: Kind) -> usize {
        self.0[cell.index()].tables.len()
    }

    /// The record that a call produces, if it fits its cell, in a graph of these nodes and given
    /// values. It only says whether: [`explain`] finds out why not, for the error.
    #[inline(always)]
    pub(crate) fn fit(
        &self,
        cell: Kind,
        rows: &[u32],
        values: &[Value],
        nodes: &[Node],
        given: &[RecordId],
    ) -> Option<RecordId> {
        let Signature { tables, ports, surplus, record } = self.0.get(cell.index())?;
        let is = |value: Value, expected: RecordId| match value.source() {
            Source::Node(node) => {
                nodes.get(node.index()).is_some_and(|node| node.record == expected)
            }
            Source::Given(index) => given.get(index) == Some(&expected),
        };
        let rows_fit = rows.len() == tables.len() && rows.iter().zip(tables).all(|(a, b)| a < b);
        let (values, others) = values.split_at_checked(ports.len())?;
        let values_fit = values.iter().zip(ports).all(|(&v, &record)| is(v, record));
        let others_fit = others.is_empty()
            || surplus.is_some_and(|record| others.iter().all(|&v| is(v, record)));
        (rows_fit && values_fit && others_fit).then_some(*record)
    }
}

/// The whole story of a call that does not fit: the first thing that is wrong with it.
#[cold]
pub(crate) fn explain(
    network: &Network,
    cell: Kind,
    rows: &[u32],
    values: &[Value],
    record_of: impl Fn(Value) -> Option<RecordId>,
) -> CallError {
    match network.cells().get(cell.index()) {
        Some(called) => CallError {
            cell: called.name().into(),
            message: misfit(network, called, rows, values, record_of),
        },
        None => CallError {
            cell: cell.to_string(),
            message: format!("does not exist: the network has {} cells", network.cells().len()),
        },
    }
}

fn misfit(
    network: &Network,
    cell: &Cell,
    rows: &[u32],
    values: &[Value],
    record_of: impl Fn(Value) -> Option<RecordId>,
) -> String {
    let (tables, ports) = (cell.tables(), cell.ports());
    if rows.len() != tables.len() {
        let expected = count(tables.len(), "row");
        return format!("expected {expected} of tables, got {}", rows.len());
    }
    for (&row, Table { name, rows, .. }) in rows.iter().zip(tables) {
        if row >= *rows {
            return format!("{name}: row {row} does not exist: the table has {rows}");
        }
    }
    if values.len() < ports.len() || values.len() > ports.len() && !cell.is_variadic() {
        let least = if cell.is_variadic() { "at least " } else { "" };
        let expected = count(ports.len(), "value");
        return format!("expected {least}{expected}, got {}", values.len());
    }
    for (position, &value) in values.iter().enumerate() {
        let Port { name, record, .. } = &ports[position.min(ports.len() - 1)];
        let expected = &network.fields(*record).name;
        match record_of(value) {
            Some(got) if got == *record => {}
            Some(got) => {
                let got = &network.fields(got).name;
                return format!("{name}: expected a value of record {expected}, got one of {got}");
            }
            None => {
                return format!(
                    "{name}: expected a value of this graph, got {:?}; a value that is used after \
                     an await must be carried across it",
                    value.source()
                );
            }
        }
    }
    unreachable!("only calls that do not fit are explained")
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
