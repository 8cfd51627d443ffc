//! The error of an invalid call.

use crate::Source;

/// The error of a call that does not match its cell.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("call of {cell}: {reason}")]
pub struct CallError {
    /// The cell's name, or its kind if it does not exist.
    pub cell: String,
    /// The reason.
    pub reason: CallErrorReason,
}

/// The reason why a call is invalid.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallErrorReason {
    /// The cell does not exist.
    #[error("does not exist: the network has {cells} cells")]
    NoCell {
        /// The number of cells of the network.
        cells: usize,
    },
    /// The call has too few or too many rows: it must have one for each table of the cell.
    #[error("expected {} of tables, got {got}", count(*expected, "row"))]
    Rows {
        /// The number of tables.
        expected: usize,
        /// The number of rows.
        got: usize,
    },
    /// A table does not have the row.
    #[error("{table}: row {row} does not exist: the table has {rows}")]
    NoRow {
        /// The table's name.
        table: String,
        /// The index of the row.
        row: u32,
        /// The number of rows of the table.
        rows: u32,
    },
    /// An index port does not have the number.
    #[error("{port}: expected a number below {size}, got {index}")]
    NoIndex {
        /// The port's name.
        port: String,
        /// The number.
        index: u32,
        /// The size of the port.
        size: u32,
    },
    /// The argmax of a value may be a row that the table does not have.
    #[error(
        "{table}: expected the argmax of at most {rows} elements, as the table has {rows} rows, \
         got a value of {elements}"
    )]
    ArgMax {
        /// The table's name.
        table: String,
        /// The number of rows of the table.
        rows: u32,
        /// The number of elements of the value.
        elements: usize,
    },
    /// The last port takes one value or more, and has none.
    #[error("{port}: expected at least one value, got none")]
    NoValues {
        /// The port's name.
        port: String,
    },
    /// The call has too few or too many values.
    #[error(
        "expected {}{}, got {got}",
        if *variadic { "at least " } else { "" },
        count(*expected, "value")
    )]
    Values {
        /// The number of ports.
        expected: usize,
        /// True if the last port takes one value or more.
        variadic: bool,
        /// The number of values.
        got: usize,
    },
    /// The record of a value differs from the record of its port.
    #[error("{port}: expected a value of record {expected}, got one of {got}")]
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
    #[error(
        "{port}: expected a value of this graph, got {value:?}; a value that is used after an \
         await must be carried across it"
    )]
    NotInGraph {
        /// The port's name.
        port: String,
        /// The node or the given value that it refers to.
        value: Source,
    },
    /// An appended graph has another network.
    #[error("expected calls of the same network, got calls of another one")]
    OtherNetwork,
    /// An appended call list has slots, whose elements were not given.
    #[error(
        "slots: {} of record {record} {} missing: run the list by `packed` or `forward` of a \
         layer, which take them, or give the values by `give`",
        count(*rows, "row"),
        if *rows == 1 { "is" } else { "are" }
    )]
    Slots {
        /// The number of given values of the record.
        rows: usize,
        /// The record's name.
        record: String,
    },
    /// The memory for a larger graph cannot be allocated.
    #[error(
        "out of memory: the graph has {nodes} nodes and cannot grow; make mini-batches smaller"
    )]
    Memory {
        /// The number of nodes of the graph.
        nodes: usize,
    },
    /// The graph has the [maximum number](crate::Graph::MAX_ENTRIES) of nodes, rows or arguments.
    #[error(
        "the graph is full: it has 2^28 - 1 nodes, rows or arguments; make mini-batches smaller"
    )]
    Full,
}

fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}
