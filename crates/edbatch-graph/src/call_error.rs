//! The error of an invalid call.

use std::fmt;

use crate::Source;

/// The error of a call that does not match its cell.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CallError {
    /// The cell's name, or its kind if it does not exist.
    pub cell: String,
    /// The reason.
    pub reason: CallErrorReason,
}

/// The reason why a call is invalid.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CallErrorReason {
    /// The cell does not exist.
    NoCell {
        /// The number of cells of the network.
        cells: usize,
    },
    /// The call has too few or too many rows: it must have one for each table of the cell.
    Rows {
        /// The number of tables.
        expected: usize,
        /// The number of rows.
        got: usize,
    },
    /// A table does not have the row.
    NoRow {
        /// The table's name.
        table: String,
        /// The index of the row.
        row: u32,
        /// The number of rows of the table.
        rows: u32,
    },
    /// An index port does not have the number.
    NoIndex {
        /// The port's name.
        port: String,
        /// The number.
        index: u32,
        /// The size of the port.
        size: u32,
    },
    /// The last port takes one value or more, and has none.
    NoValues {
        /// The port's name.
        port: String,
    },
    /// The call has too few or too many values.
    Values {
        /// The number of ports.
        expected: usize,
        /// True if the last port takes one value or more.
        variadic: bool,
        /// The number of values.
        got: usize,
    },
    /// The record of a value differs from the record of its port.
    Record {
        /// The port's name.
        port: String,
        /// The name of the port's record.
        expected: String,
        /// The name of the value's record.
        got: String,
    },
    /// A value is not in the graph: it belongs to another graph, or was made before the graph was
    /// last cleared.
    NotInGraph {
        /// The port's name.
        port: String,
        /// The node or the given value that it refers to.
        value: Source,
    },
    /// An appended graph has another network.
    OtherNetwork,
    /// The memory for a larger graph cannot be allocated.
    Memory {
        /// The number of nodes of the graph.
        nodes: usize,
    },
    /// The graph has the [maximum number](crate::Graph::MAX_ENTRIES) of nodes, rows or arguments.
    Full,
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "call of {}: ", self.cell)?;
        match &self.reason {
            CallErrorReason::NoCell { cells } => {
                write!(f, "does not exist: the network has {cells} cells")
            }
            CallErrorReason::Rows { expected, got } => {
                write!(f, "expected {} of tables, got {got}", count(*expected, "row"))
            }
            CallErrorReason::NoRow { table, row, rows } => {
                write!(f, "{table}: row {row} does not exist: the table has {rows}")
            }
            CallErrorReason::NoIndex { port, index, size } => {
                write!(f, "{port}: expected a number below {size}, got {index}")
            }
            CallErrorReason::NoValues { port } => {
                write!(f, "{port}: expected at least one value, got none")
            }
            CallErrorReason::Values { expected, variadic, got } => {
                let least = if *variadic { "at least " } else { "" };
                write!(f, "expected {least}{}, got {got}", count(*expected, "value"))
            }
            CallErrorReason::Record { port, expected, got } => {
                write!(f, "{port}: expected a value of record {expected}, got one of {got}")
            }
            CallErrorReason::NotInGraph { port, value } => write!(
                f,
                "{port}: expected a value of this graph, got {value:?}; a value that is used after \
                 an await must be carried across it"
            ),
            CallErrorReason::OtherNetwork => {
                f.write_str("expected calls of the same network, got calls of another one")
            }
            CallErrorReason::Memory { nodes } => write!(
                f,
                "out of memory: the graph has {nodes} nodes and cannot grow; make mini-batches \
                 smaller"
            ),
            CallErrorReason::Full => f.write_str(
                "the graph is full: it has 2^28 - 1 nodes, rows or arguments; make mini-batches \
                 smaller",
            ),
        }
    }
}

impl std::error::Error for CallError {}

fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}
