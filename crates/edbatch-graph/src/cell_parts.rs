//! Cells from their parts: the only way into a [`Network`], with all checks.

use crate::check::Check;
use crate::dropout::Declared;
use crate::{Cell, CellError, Instruction, Kind, Network, Port, RecordId, Table, Var};

/// The parts of a [`Cell`], for [`Network::add_cell`]: a cell as data, such as one from a file.
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

impl Network {
    /// Adds a cell from its parts, which are checked in full. [`Network::cell`] is the way to
    /// write a cell as equations.
    ///
    /// # Errors
    /// If another cell has the same name, if there are more than 65,536 cells, if a part refers to
    /// something that does not exist, if an operand does not precede its reader, if a shape differs
    /// from the inferred one, if the outputs do not match the fields of the record, if an operation
    /// is one of adjoint cells, or if the cell has more than 65,536 operations, ports or tables.
    /// The error names the cell and the operation. The network is then unchanged.
    pub fn add_cell(&mut self, parts: CellParts) -> Result<Kind, CellError> {
        if self.cells.iter().any(|cell| cell.name == parts.name) {
            let expected = "a unique name, got the name of another cell";
            return Err(CellError::new(&parts.name, "cell", &[], expected));
        }
        let kind = u16::try_from(self.cells.len()).map_err(|_| {
            CellError::new(&parts.name, "cell", &[], "at most 65536 cells in a network")
        })?;
        self.check(&parts).all()?;
        let CellParts { name, record, tables, ports, instructions, outputs } = parts;
        let declared = Declared { instructions, outputs };
        let Declared { instructions, outputs } = declared.without_dropout();
        let (row, declared) = (record, declared.has_dropout().then(|| Box::new(declared)));
        self.cells.push(Cell { name, record, row, tables, ports, instructions, outputs, declared });
        Ok(Kind(kind))
    }

    /// Sets the shapes of all operations of a cell to the inferred ones. Constants keep theirs.
    ///
    /// # Errors
    /// Like [`add_cell`](Self::add_cell), for the first part that is invalid. The shapes of later
    /// operations are then unchanged.
    pub fn infer_shapes(&self, parts: &mut CellParts) -> Result<(), CellError> {
        self.check(parts).declarations()?;
        for var in 0..parts.instructions.len() {
            parts.instructions[var].shape = self.check(parts).inferred(var)?;
        }
        Ok(())
    }

    fn check<'a>(&'a self, parts: &'a CellParts) -> Check<'a> {
        Check { declarations: &self.declarations, parts }
    }
}
