//! Cells as data.

use crate::cell::Declared;
use crate::{Cell, Instruction, Port, RecordId, Table, Var};

/// The parts of a [`Cell`], for [`Network::add_cell`](crate::Network::add_cell): a cell as
/// data, such as one from a file.
///
/// ```
/// use edbatch_graph::{CellParts, Function, Instruction, Network, Op, Shape, Var};
///
/// let mut network = Network::new();
/// let shape = Shape::Vector(4);
/// let state = network.record("state", [("h", shape)])?;
/// let start = network.add_parameter("start", &[4])?;
/// let mut parts = CellParts::new("start", state);
/// parts.instructions = vec![
///     Instruction { op: Op::Parameter(start), operands: vec![], shape },
///     Instruction { op: Function::Tanh.into(), operands: vec![Var(0)], shape },
/// ];
/// parts.outputs = vec![Var(1)];
/// let kind = network.add_cell(parts)?;
/// assert_eq!(network[kind].to_parts().outputs, [Var(1)]);
/// # Ok::<(), edbatch_graph::CellError>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct CellParts {
    /// The name, unique in the network.
    pub name: String,
    /// The record that a call produces.
    pub record: RecordId,
    /// The tables. A call names a row of each.
    pub tables: Vec<Table>,
    /// The ports at which a call reads values. Only the last may take any number of them.
    pub ports: Vec<Port>,
    /// The operations. Operands precede their readers.
    pub instructions: Vec<Instruction>,
    /// A variable for each field of the record.
    pub outputs: Vec<Var>,
}

impl CellParts {
    /// Creates the parts of a cell without operations.
    #[must_use]
    pub fn new(name: &str, record: RecordId) -> Self {
        let (tables, ports, instructions, outputs) = (vec![], vec![], vec![], vec![]);
        Self { name: name.into(), record, tables, ports, instructions, outputs }
    }
}

impl Cell {
    /// Returns a copy of the cell's parts.
    #[must_use]
    pub fn to_parts(&self) -> CellParts {
        let Declared { instructions, outputs } = match &self.declared {
            Some(declared) => (**declared).clone(),
            None => {
                let (instructions, outputs) = (self.instructions.clone(), self.outputs.clone());
                Declared { instructions, outputs }
            }
        };
        CellParts {
            name: self.name.clone(),
            record: self.record,
            tables: self.tables.clone(),
            ports: self.ports.clone(),
            instructions,
            outputs,
        }
    }
}
