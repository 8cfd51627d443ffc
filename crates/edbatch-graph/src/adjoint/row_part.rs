//! The parts of a cell that depend on one row of a table.
//!
//! A product of a row and parameters is the same in all calls that name the row. Its gradient is
//! linear, so it is computed once per distinct row, from the sum over these calls.

use crate::{Cell, Instruction, Op, Var};

/// The row part of each table: the products that depend on a row of the table and on parameters
/// alone, and the variables that these products read. Without such a product, the row itself.
pub(super) struct RowParts {
    /// For each variable: the table in whose row part it is.
    of: Vec<Option<u16>>,
    /// For each table: true if there are products.
    has_products: Vec<bool>,
}

/// The kind of data that a variable depends on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    /// Parameters and constants alone.
    Fixed,
    /// One row of this table, and parameters.
    Row(u16),
    /// A value at a port, an index, or rows of several tables.
    Other,
}

impl RowParts {
    pub(super) fn new(cell: &Cell) -> Self {
        let mut sources: Vec<Source> = Vec::with_capacity(cell.instructions().len());
        for Instruction { op, operands, .. } in cell.instructions() {
            let operands = operands.iter().map(|operand| sources[operand.index()]);
            sources.push(match *op {
                Op::Lookup { table } => Source::Row(table),
                Op::Select { .. } => Source::Other,
                op if op.port().is_some() => Source::Other,
                _ => operands.fold(Source::Fixed, |all, source| match (all, source) {
                    (Source::Fixed, other) | (other, Source::Fixed) => other,
                    (all, source) if all == source => all,
                    _ => Source::Other,
                }),
            });
        }
        let mut of = vec![None; sources.len()];
        let mut has_products = vec![false; cell.tables().len()];
        for (var, Instruction { op, operands, .. }) in cell.instructions().iter().enumerate().rev()
        {
            let Source::Row(table) = sources[var] else { continue };
            if *op == Op::MatMul {
                of[var] = Some(table);
                has_products[usize::from(table)] = true;
            }
            if of[var].is_some() {
                for operand in operands {
                    if sources[operand.index()] != Source::Fixed {
                        of[operand.index()] = Some(table);
                    }
                }
            }
            if matches!(op, Op::Lookup { .. }) {
                of[var] = Some(table);
            }
        }
        Self { of, has_products }
    }

    /// Returns the table in whose row part a variable is.
    pub(super) fn of(&self, var: Var) -> Option<u16> {
        self.of[var.index()]
    }

    pub(super) fn has_products(&self, table: u16) -> bool {
        self.has_products[usize::from(table)]
    }
}
