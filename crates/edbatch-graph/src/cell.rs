//! Cells: small DAGs of tensor operations, declared once per model and called once per node.

mod display;

use crate::{Op, ParameterId, RecordId, Shape, Var};

/// A static DAG of tensor operations, computed by every node of one kind (paper, section 3).
///
/// Created by [`Network::cell`](crate::Network::cell) or
/// [`Network::add_cell`](crate::Network::add_cell). A call names a row for each table, then a
/// value for each port. Only the last port can take any number of values.
#[derive(Clone, PartialEq, Debug)]
pub struct Cell {
    pub(crate) name: String,
    pub(crate) tables: Vec<Table>,
    pub(crate) ports: Vec<Port>,
    pub(crate) instructions: Vec<Instruction>,
    pub(crate) outputs: Vec<Var>,
    pub(crate) record: RecordId,
    pub(crate) row: RecordId,
    /// The equations as they were declared, if they have dropout.
    pub(crate) declared: Option<Box<Declared>>,
}

/// The equations of a cell as they were declared, with [`Op::Dropout`].
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Declared {
    pub(crate) instructions: Vec<Instruction>,
    pub(crate) outputs: Vec<Var>,
}

/// A port whose argument is the index of a row of a parameter, for example of an embedding. A table
/// without a parameter is an *index port*: its argument is a number that [`Op::Select`] reads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Table {
    /// The name, for messages.
    pub name: String,
    /// The parameter whose rows are read; `None` for an index port.
    pub parameter: Option<ParameterId>,
    /// The number of rows, or of indices.
    pub rows: u32,
}

/// A port whose arguments are records of other nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Port {
    /// The name, for messages.
    pub name: String,
    /// The record type of its values.
    pub record: RecordId,
    /// The number of values that it takes.
    pub arity: Arity,
}

/// The number of values that a port takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arity {
    /// Exactly one.
    One,
    /// One or more. Calls with different numbers of values can share a batch.
    Many,
}

/// An operation, its operands and the shape of its result.
#[derive(Clone, PartialEq, Debug)]
pub struct Instruction {
    /// The operation.
    pub op: Op,
    /// Earlier variables of the same cell.
    pub operands: Vec<Var>,
    /// The shape of the result.
    pub shape: Shape,
}

impl Cell {
    /// Returns the name of the cell.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the table ports.
    #[must_use]
    pub fn tables(&self) -> &[Table] {
        &self.tables
    }

    /// Returns the ports that take values. Only the last may take any number of them.
    #[must_use]
    pub fn ports(&self) -> &[Port] {
        &self.ports
    }

    /// Returns all operations, without dropout. Variable `v` is the result of the operation at
    /// index `v`.
    #[must_use]
    pub fn instructions(&self) -> &[Instruction] {
        &self.instructions
    }

    /// Returns the operation that computes a variable.
    #[must_use]
    pub fn instruction(&self, var: Var) -> &Instruction {
        &self.instructions[var.index()]
    }

    /// Returns the variables that a call returns, one for each field of its [row](Self::row).
    #[must_use]
    pub fn outputs(&self) -> &[Var] {
        &self.outputs
    }

    /// Returns the type of the record that a call produces.
    #[must_use]
    pub fn record(&self) -> RecordId {
        self.record
    }

    /// Returns the type of the row that a call writes: the fields of its record, followed in a
    /// [`TrainingNetwork`](crate::TrainingNetwork) by the values that it saves for its adjoint.
    #[must_use]
    pub fn row(&self) -> RecordId {
        self.row
    }

    /// Returns true if the last port takes any number of values.
    #[must_use]
    pub fn is_variadic(&self) -> bool {
        self.ports.last().is_some_and(|port| port.arity == Arity::Many)
    }
}
