//! The text of a cell.

use std::fmt;

use super::Cell;
use crate::{Network, Op};

impl Cell {
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
