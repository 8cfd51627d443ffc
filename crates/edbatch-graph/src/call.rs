//! Calls, and their checks against the signatures of cells.

use std::sync::Arc;

use crate::id::Generation;
use crate::{
    CallError, CallErrorReason, Cell, Kind, Network, Port, RecordId, Source, Table, Value,
};

/// A call and the location of its arguments, for random access.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    /// The record that the call produces. The kind determines it; stored to save a look-up.
    pub(crate) record: RecordId,
    /// The index of the call's first row in `Graph::rows`; the highest bit is set if a row is that
    /// of an argmax.
    pub(crate) rows: u32,
    /// The range of the call's values in `Graph::values`: those of its ports, then those whose
    /// argmax is a row.
    pub(crate) values: (u32, u32),
}

/// The signatures of all cells, for the checks of [`Graph::call`](crate::Graph::call). Kept small,
/// because every call reads them. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Signatures(Arc<[Signature]>);

#[derive(Clone, Debug)]
struct Signature {
    /// The number of rows of each table.
    tables: Box<[u32]>,
    /// The record at each port.
    ports: Box<[RecordId]>,
    /// The record of all ports, if they have one.
    same: Option<RecordId>,
    record: RecordId,
    /// The maximum number of values after the first of each port.
    surplus: usize,
}

impl Signatures {
    pub(crate) fn new(network: &Network) -> Self {
        let signature = |cell: &Cell| {
            let ports: Box<[RecordId]> = cell.ports().iter().map(|port| port.record).collect();
            let same = ports.first().filter(|&first| ports.iter().all(|record| record == first));
            Signature {
                tables: cell.tables().iter().map(|table| table.rows).collect(),
                same: same.copied(),
                record: cell.record(),
                surplus: if cell.is_variadic() { Value::LIMIT } else { 0 },
                ports,
            }
        };
        Self(network.cells().iter().map(signature).collect())
    }

    /// Returns the number of cells.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the number of tables of a cell.
    #[inline]
    pub(crate) fn tables(&self, cell: Kind) -> usize {
        self.0[cell.index()].tables.len()
    }

    /// Returns the record that a valid call produces, or `None` if only the slower [`check`] can
    /// tell. The last argument holds the graph's nodes, records of given values, and generation.
    #[inline(always)]
    pub(crate) fn fit(
        &self,
        cell: Kind,
        rows: &[u32],
        values: &[Value],
        (nodes, given, generation): (&[Node], &[RecordId], Generation),
    ) -> Option<RecordId> {
        let Signature { tables, ports, same, surplus, record } = self.0.get(cell.index())?;
        let is = |value: Value, expected: RecordId| {
            let record = match nodes.get(value.node_in(generation)) {
                Some(node) => Some(node.record),
                // Initial values belong to every generation.
                None => [generation, Generation::ANY]
                    .iter()
                    .find_map(|&generation| given.get(value.given_in(generation)))
                    .copied(),
            };
            record == Some(expected)
        };
        let rows_fit = rows.len() == tables.len() && rows.iter().zip(tables).all(|(a, b)| a < b);
        let values_fit = values.len().wrapping_sub(ports.len()) <= *surplus
            && match same {
                Some(record) => values.iter().all(|&value| is(value, *record)),
                None => values
                    .iter()
                    .enumerate()
                    .all(|(position, &value)| is(value, ports[position.min(ports.len() - 1)])),
            };
        (rows_fit && values_fit).then_some(*record)
    }
}

/// Returns the record of a value, or `None` if it is not in the graph with these nodes and given
/// values.
#[inline]
pub(crate) fn record_of(
    value: Value,
    nodes: &[Node],
    given: &[RecordId],
    generation: Generation,
) -> Option<RecordId> {
    match value.source() {
        _ if !value.may_belong_to(generation) => None,
        Source::Node(node) => nodes.get(node.index()).map(|node| node.record),
        Source::Given(index) => given.get(index).copied(),
    }
}

/// Checks a call in full. Returns the record that it produces, or its first error.
#[cold]
pub(crate) fn check(
    network: &Network,
    cell: Kind,
    rows: &[u32],
    values: &[Value],
    record_of: impl Fn(Value) -> Option<RecordId>,
) -> Result<RecordId, CallError> {
    let Some(called) = network.cells().get(cell.index()) else {
        let reason = CallErrorReason::NoCell { cells: network.cells().len() };
        return Err(CallError { cell: format!("cell {}", cell.index()), reason });
    };
    match misfit(network, called, rows, values, record_of) {
        Some(reason) => Err(CallError { cell: called.name().into(), reason }),
        None => Ok(called.record()),
    }
}

fn misfit(
    network: &Network,
    cell: &Cell,
    rows: &[u32],
    values: &[Value],
    record_of: impl Fn(Value) -> Option<RecordId>,
) -> Option<CallErrorReason> {
    let (tables, ports) = (cell.tables(), cell.ports());
    if rows.len() != tables.len() {
        return Some(CallErrorReason::Rows { expected: tables.len(), got: rows.len() });
    }
    for (&row, &Table { ref name, parameter, rows }) in rows.iter().zip(tables) {
        if row >= rows {
            let name = name.clone();
            return Some(match parameter {
                Some(_) => CallErrorReason::NoRow { table: name, row, rows },
                None => CallErrorReason::NoIndex { port: name, index: row, size: rows },
            });
        }
    }
    let variadic = cell.is_variadic();
    if variadic && values.len() + 1 == ports.len() {
        return Some(CallErrorReason::NoValues { port: ports[values.len()].name.clone() });
    }
    if values.len() < ports.len() || values.len() > ports.len() && !variadic {
        return Some(CallErrorReason::Values {
            expected: ports.len(),
            variadic,
            got: values.len(),
        });
    }
    let misfit = |(position, &value): (usize, &Value)| {
        let Port { name: port, record, .. } = &ports[position.min(ports.len() - 1)];
        let name = |record| network.fields(record).name.clone();
        match record_of(value) {
            Some(got) if got == *record => None,
            Some(got) => {
                let (port, expected) = (port.clone(), name(*record));
                Some(CallErrorReason::Record { port, expected, got: name(got) })
            }
            None => Some(CallErrorReason::NotInGraph { port: port.clone(), value: value.source() }),
        }
    };
    values.iter().enumerate().find_map(misfit)
}
