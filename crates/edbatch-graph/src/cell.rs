//! Cells: small DAGs of tensor operations, declared once per model and called once per node.

use std::collections::HashMap;
use std::fmt;

use crate::dropout::Declared;
use crate::{Kind, Network, NodeId, Op, PlainDag, Shape};

/// A variable of a cell: the result of one of its operations.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Var(pub u32);

impl Var {
    /// Returns the variable as an index.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for Var {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.0)
    }
}

/// The index of a parameter in [`Network::parameters`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ParameterId(pub u32);

/// The index of a record type in [`Network::records`]. Each node produces one record.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RecordId(pub u16);

/// A static DAG of tensor operations, computed by every node of one kind (paper, section 3).
///
/// Created by [`Network::cell`] or [`Network::add_cell`]. A call names a row for each table, then a
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

    /// Returns the operations as a graph for batching policies, and the variable of each node.
    ///
    /// [Sources](Op::is_source), such as inputs and parameters, are not nodes, because policies
    /// need not schedule them. Operations with the same name and shapes have the same kind.
    #[must_use]
    pub fn dag(&self) -> (PlainDag, Vec<Var>) {
        let mut names: Vec<String> = Vec::new();
        let mut kind_of: HashMap<String, usize> = HashMap::new();
        let mut node_of = vec![None; self.instructions.len()];
        let mut nodes = Vec::new();
        for (v, instruction) in self.instructions.iter().enumerate() {
            if instruction.op.is_source() {
                continue;
            }
            let name = self.signature(instruction);
            let kind = *kind_of.entry(name.clone()).or_insert(names.len());
            if kind == names.len() {
                names.push(name);
            }
            let arguments: Vec<NodeId> = instruction
                .operands
                .iter()
                .filter_map(|operand| node_of[operand.index()])
                .collect();
            node_of[v] = Some(NodeId::new(nodes.len()));
            nodes.push((Kind::new(kind), arguments, Var(v as u32)));
        }
        let mut dag = PlainDag::new(names);
        let mut vars = Vec::with_capacity(nodes.len());
        for (kind, arguments, var) in nodes {
            dag.push(kind, &arguments).expect("operands precede their readers");
            vars.push(var);
        }
        (dag, vars)
    }

    /// Names an operation and the shapes of its operands: `matmul [64, 32] [32]`.
    fn signature(&self, instruction: &Instruction) -> String {
        let mut name = instruction.op.to_string();
        for operand in &instruction.operands {
            name.push_str(&format!(" {}", self.instruction(*operand).shape));
        }
        name
    }

    /// Displays the cell, one line per operation, with the names of parameters and ports. Shows
    /// dropout where it was declared.
    #[must_use]
    pub fn display<'a>(&'a self, network: &'a Network) -> impl fmt::Display + 'a {
        DisplayCell { cell: self, network }
    }
}

struct DisplayCell<'a> {
    cell: &'a Cell,
    network: &'a Network,
}

impl fmt::Display for DisplayCell<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cell, network } = self;
        let (instructions, outputs) = match &cell.declared {
            Some(declared) => (&declared.instructions, &declared.outputs),
            None => (&cell.instructions, &cell.outputs),
        };
        let field = |port: u16, field: u16| {
            let port = &cell.ports[usize::from(port)];
            let field = &network.fields(port.record).fields[usize::from(field)];
            format!("{}.{}", port.name, field.name)
        };
        writeln!(f, "{}:", cell.name)?;
        for (v, instruction) in instructions.iter().enumerate() {
            write!(f, "  v{v} = ")?;
            match instruction.op {
                Op::Input { port, field: index } => write!(f, "{}", field(port, index))?,
                Op::Reduce { port, field: index, by } => write!(f, "{by} {}", field(port, index))?,
                Op::Attention { port, keys, values, heads } => {
                    let (keys, values) = (field(port, keys), field(port, values));
                    let query = instruction.operands[0];
                    write!(f, "attention {query} over {keys} {values}, {heads} heads")?;
                }
                Op::SoftmaxSum { port, scores, values } => {
                    let (scores, values) = (field(port, scores), field(port, values));
                    write!(f, "softmax-sum {scores} {values}")?;
                }
                Op::Lookup { table } => {
                    let table = &cell.tables[usize::from(table)];
                    let parameter = table.parameter.map(|id| &*network.parameter(id).name);
                    write!(f, "{}[{}]", parameter.unwrap_or_default(), table.name)?;
                }
                Op::Select { table } => {
                    let index = &cell.tables[usize::from(table)].name;
                    write!(f, "select {} {index}", instruction.operands[0])?;
                }
                Op::Parameter(id) => f.write_str(&network.parameter(id).name)?,
                op => {
                    write!(f, "{op}")?;
                    for operand in &instruction.operands {
                        write!(f, " {operand}")?;
                    }
                }
            }
            writeln!(f, " : {}", instruction.shape)?;
        }
        write!(f, "  return")?;
        for output in outputs {
            write!(f, " {output}")?;
        }
        writeln!(f)
    }
}
