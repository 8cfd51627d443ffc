//! Names of a cell's variables, for pictures and tables.

use edbatch_graph::{Cell, Network, Op, Var};

/// Returns the name of a parameter, `port.field` for an input, `parameter[table]` for a row, else
/// the variable's number.
pub(crate) fn name_of(network: &Network, cell: &Cell, var: Var) -> String {
    match cell.instruction(var).op {
        Op::Parameter(id) => network.parameter(id).name.clone(),
        Op::Input { port, field } | Op::Reduce { port, field, .. } => {
            let port = &cell.ports()[usize::from(port)];
            let field = &network.fields(port.record).fields[usize::from(field)];
            format!("{}.{}", port.name, field.name)
        }
        Op::Lookup { table } => {
            let table = &cell.tables()[usize::from(table)];
            format!("{}[{}]", network.parameter(table.parameter).name, table.name)
        }
        Op::Constant(value) => value.to_string(),
        _ => var.to_string(),
    }
}
