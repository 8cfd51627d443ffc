//! Names of a cell's variables, for pictures and tables.

use edbatch_graph::{AdjointOp, Cell, Network, Op, Port, Table, Var};

/// Returns the name of a variable: a parameter's name, `port.field` for an input,
/// `parameter[table]` for a table row, a constant's value, else the variable's number.
pub(crate) fn name_of(network: &Network, cell: &Cell, var: Var) -> String {
    match cell.instruction(var).op {
        Op::Parameter(id) => network.parameter(id).name.clone(),
        Op::Input { port, field } | Op::Reduce { port, field, .. } => {
            name_of_field(network, &cell.ports()[usize::from(port)], usize::from(field))
        }
        Op::Lookup { table } | Op::Adjoint(AdjointOp::OneHot { table }) => {
            name_of_row(network, &cell.tables()[usize::from(table)])
        }
        Op::Constant(value) => value.to_string(),
        _ => var.to_string(),
    }
}

/// Returns `port.field`.
pub(crate) fn name_of_field(network: &Network, port: &Port, field: usize) -> String {
    format!("{}.{}", port.name, network.fields(port.record).fields[field].name)
}

/// Returns `parameter[table]`, or the name of an index port.
pub(crate) fn name_of_row(network: &Network, table: &Table) -> String {
    match table.parameter {
        Some(parameter) => format!("{}[{}]", network.parameter(parameter).name, table.name),
        None => table.name.clone(),
    }
}
