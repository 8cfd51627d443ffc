//! A cell: a small DAG of tensor operations, declared once per model, called once per node.

use std::collections::HashMap;
use std::fmt;

use crate::{Kind, Network, NodeId, Op, PlainDag, Shape};

/// A variable of a cell: the result of one of its operations.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Var(pub u32);

impl Var {
    /// The index into side tables.
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

/// A parameter of a [`Network`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ParameterId(pub u32);

/// A record type of a [`Network`]: what a node of some kinds produces.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RecordId(pub u16);

/// The static subgraph that a node of one kind computes (paper, section 3).
///
/// Made by [`Network::cell`]. A call names a row per table, then a value per port; a port that
/// takes any number of values is the last one.
#[derive(Clone, PartialEq, Debug)]
pub struct Cell {
    pub(crate) name: String,
    pub(crate) tables: Vec<Table>,
    pub(crate) ports: Vec<Port>,
    pub(crate) instructions: Vec<Instruction>,
    pub(crate) outputs: Vec<Var>,
    pub(crate) record: RecordId,
}

/// A port whose argument is the number of a row of a parameter: an embedding.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Table {
    /// What messages call it.
    pub name: String,
    /// The parameter whose rows are read.
    pub parameter: ParameterId,
    /// How many rows there are.
    pub rows: u32,
}

/// A port whose argument is what other nodes produced.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Port {
    /// What messages call it.
    pub name: String,
    /// What each of its values is.
    pub record: RecordId,
    /// Whether it takes one value or any number.
    pub arity: Arity,
}

/// How many values a port takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arity {
    /// Exactly one.
    One,
    /// One or more; calls with different numbers still batch.
    Many,
}

/// An operation, its operands and the shape of its result.
#[derive(Clone, PartialEq, Debug)]
pub struct Instruction {
    /// What is done.
    pub op: Op,
    /// Earlier variables of the same cell.
    pub operands: Vec<Var>,
    /// The shape of the result.
    pub shape: Shape,
}

impl Cell {
    /// What messages, policies' files and pictures call the cell.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The ports that take a row of a parameter each.
    #[must_use]
    pub fn tables(&self) -> &[Table] {
        &self.tables
    }

    /// The ports that take values; only the last may take any number of them.
    #[must_use]
    pub fn ports(&self) -> &[Port] {
        &self.ports
    }

    /// All operations; variable `v` is the result of the one at index `v`.
    #[must_use]
    pub fn instructions(&self) -> &[Instruction] {
        &self.instructions
    }

    /// The operation that makes a variable.
    #[must_use]
    pub fn instruction(&self, var: Var) -> &Instruction {
        &self.instructions[var.index()]
    }

    /// The variables that a call produces, a field of the record each.
    #[must_use]
    pub fn outputs(&self) -> &[Var] {
        &self.outputs
    }

    /// The record that a call produces.
    #[must_use]
    pub fn record(&self) -> RecordId {
        self.record
    }

    /// Whether the last port takes any number of values.
    #[must_use]
    pub fn is_variadic(&self) -> bool {
        self.ports.last().is_some_and(|port| port.arity == Arity::Many)
    }

    /// The operations as a graph for batching policies, and which variable each node is.
    ///
    /// Sources (inputs, parameters, constants) are no nodes: they run nothing. Operations with
    /// the same name and shapes are of one kind.
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
            dag.push(kind, &arguments).expect("operands precede their users");
            vars.push(var);
        }
        (dag, vars)
    }

    /// An operation and the shapes it works on: `matmul [64, 32] [32]`.
    fn signature(&self, instruction: &Instruction) -> String {
        let mut name = instruction.op.to_string();
        for operand in &instruction.operands {
            name.push_str(&format!(" {}", self.instruction(*operand).shape));
        }
        name
    }

    /// The cell as one line per operation, with the names of parameters and ports.
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
        let field = |port: u16, field: u16| {
            let port = &cell.ports[usize::from(port)];
            let field = &network.fields(port.record).fields[usize::from(field)];
            format!("{}.{}", port.name, field.name)
        };
        writeln!(f, "{}:", cell.name)?;
        for (v, instruction) in cell.instructions.iter().enumerate() {
            write!(f, "  v{v} = ")?;
            match instruction.op {
                Op::Input { port, field: index } => write!(f, "{}", field(port, index))?,
                Op::Reduce { port, field: index, by } => write!(f, "{by} {}", field(port, index))?,
                Op::Lookup { table } => {
                    let table = &cell.tables[usize::from(table)];
                    let parameter = network.parameter(table.parameter);
                    write!(f, "{}[{}]", parameter.name, table.name)?;
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
        for output in &cell.outputs {
            write!(f, " {output}")?;
        }
        writeln!(f)
    }
}
