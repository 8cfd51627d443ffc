//! Folded tables: what is hoisted for a row of a table, for all of its rows, once for all.
//!
//! A prologue that reads a row of a table depends on that row and on weights, and on nothing of a
//! mini-batch. So a backend can compute it when it is loaded: the cell's body then reads a row of
//! the **folded table**, as it would a row of any table. A mini-batch finds no distinct rows,
//! computes no prologue for them, and is a wave shorter. The same kernels compute the same bits.
//!
//! It costs time to load and memory, for rows of the table that no call may ever name; and weights
//! must stay as they are. So it is asked for, with a limit.
//!
//! *Source*: ours; the paper hoists nothing.

use std::ops::Range;

use edbatch_graph::Kind;

use super::Program;
use crate::plan::{Action, Operand, Plan, Step};

/// The most rows that a step computes: its scratch is for as many, on a device.
const ROWS_OF_A_STEP: u32 = 1024;

/// What a prologue makes of every row of a table: row `r` begins at `start + r × stride` in the
/// memory of all folded tables of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FoldedTable {
    /// The table port that divides the cell.
    pub port: usize,
    /// Rows, those of the table.
    pub rows: u32,
    /// Where the first row begins, in elements.
    pub start: u32,
    /// From one row to the next, in elements.
    pub stride: u32,
}

impl FoldedTable {
    /// Elements of all rows.
    fn elements(&self) -> u64 {
        u64::from(self.rows) * u64::from(self.stride)
    }
}

impl Program {
    /// Folds tables, the smallest first, as long as all folded tables together take at most so many
    /// bytes: 0 folds none. What is not folded is hoisted for the rows of each mini-batch.
    ///
    /// Backends compute folded tables when they are loaded, so decide before that. For weights that
    /// stay as they are.
    #[must_use]
    pub fn fold_tables(mut self, most_bytes: u64) -> Self {
        let kinds = (0..self.cells.len()).map(Kind::new);
        let mut tables: Vec<(Kind, FoldedTable)> =
            kinds.filter_map(|kind| Some((kind, self.foldable(kind)?))).collect();
        // So that as many as possible fit.
        tables.sort_by_key(|(_, table)| table.elements());
        let (mut folded, mut end) = (vec![None; self.cells.len()], 0);
        for (kind, mut table) in tables {
            table.start = end as u32;
            end += table.elements();
            if end > u64::from(u32::MAX) || 4 * end > most_bytes {
                break;
            }
            folded[kind.index()] = Some(table);
        }
        for ((signature, plan), folded) in self.signatures.iter_mut().zip(&self.cells).zip(folded) {
            signature.fold(plan, folded);
        }
        self
    }

    /// A cell's table as it would be folded, if one divides the cell.
    fn foldable(&self, kind: Kind) -> Option<FoldedTable> {
        let hoisted = self.cell(kind).hoisted.as_ref()?;
        let port = hoisted.table()?;
        let rows = self.network[kind].tables()[port].rows;
        Some(FoldedTable { port, rows, start: 0, stride: hoisted.prologue.output_stride })
    }

    /// The folded table of a cell, if its table is folded.
    #[must_use]
    pub fn folded(&self, kind: Kind) -> Option<FoldedTable> {
        self.signature(kind).folded
    }

    /// Elements of all folded tables.
    #[must_use]
    pub fn folded_elements(&self) -> usize {
        self.folded_tables().map(|(_, table)| table.elements()).sum::<u64>() as usize
    }

    fn folded_tables(&self) -> impl Iterator<Item = (Kind, FoldedTable)> {
        let kinds = (0..self.cells.len()).map(Kind::new);
        kinds.filter_map(|kind| Some((kind, self.folded(kind)?)))
    }

    /// The plan by which a backend computes the folded tables when it is loaded: what is then in
    /// the arena is their memory. Every step is a wave of its own, so that on a device each uses
    /// the scratch of the one before.
    #[must_use]
    pub fn folding_plan(&self) -> Plan {
        let mut plan = Plan { arena: self.folded_elements(), ..Plan::default() };
        for (kind, folded) in self.folded_tables() {
            for first in (0..folded.rows).step_by(ROWS_OF_A_STEP as usize) {
                let calls = ROWS_OF_A_STEP.min(folded.rows - first);
                self.fold_rows(kind, folded, first..first + calls, &mut plan);
            }
        }
        plan.waves = (0..plan.steps.len() as u32).collect();
        plan
    }

    fn fold_rows(
        &self,
        kind: Kind,
        FoldedTable { port, start, stride, .. }: FoldedTable,
        rows: Range<u32>,
        plan: &mut Plan,
    ) {
        let cell = &self.network[kind];
        let width = self.table_width(&cell.tables()[port]);
        let list = plan.rows.len() as u32;
        let (calls, out) = (rows.len() as u32, start + rows.start * stride);
        plan.rows.extend(rows.map(|row| row * width));
        let operands = plan.operands.len() as u32;
        let of_port =
            |index| if index == port { Operand::Table { start: list } } else { Operand::Unread };
        plan.operands.extend((0..cell.tables().len() + cell.ports().len()).map(of_port));
        let action = Action::Hoist { capacity: calls };
        plan.steps.push(Step { cell: kind, action, calls, out, operands });
    }
}
