//! Folded tables: prologue results for every row of a table, computed once at load.
//!
//! A prologue that reads a row of a table depends only on that row and on weights, not on the
//! mini-batch. So a backend can compute it for all rows when it is loaded. The cell's body then
//! reads a row of the **folded table** like a row of any table. A mini-batch then neither finds
//! distinct rows nor runs the prologue. Results are bit-identical, because the same kernels compute
//! them.
//!
//! Folding costs load time and memory, also for rows that no call ever reads, and weights must not
//! change. So it is optional, with a limit.
//!
//! *Source*: ours; the paper hoists nothing. *Cost*: O(rows) prologues at load.

use std::ops::Range;

use edbatch_graph::Kind;

use super::Program;
use crate::plan::{Action, Operand, Plan, Step};

/// The maximum number of rows that a step computes. Bounds the step's scratch memory on a device.
const MAX_ROWS_PER_STEP: u32 = 1024;

/// The prologue results of every row of a table. Row `r` begins at `start + r × stride` in the
/// memory of a program's folded tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FoldedTable {
    /// The table port that the cell's prologue reads.
    pub port: usize,
    /// The number of rows of the table.
    pub rows: u32,
    /// The offset of the first row, in elements.
    pub start: u32,
    /// The distance from one row to the next, in elements.
    pub stride: u32,
}

impl FoldedTable {
    /// The number of elements of all rows.
    fn elements(&self) -> u64 {
        u64::from(self.rows) * u64::from(self.stride)
    }
}

impl Program {
    /// Folds tables, smallest first, while all folded tables together take at most `max_bytes`
    /// bytes; 0 folds none. The prologues of other tables run for the rows of each mini-batch.
    ///
    /// Call it before loading a backend, which computes folded tables. Weights must not change
    /// afterwards.
    #[must_use]
    pub fn fold_tables(mut self, max_bytes: u64) -> Self {
        let kinds = (0..self.cells.len()).map(Kind::new);
        let mut tables: Vec<(Kind, FoldedTable)> =
            kinds.filter_map(|kind| Some((kind, self.foldable(kind)?))).collect();
        // Smallest first, to fold as many tables as possible.
        tables.sort_by_key(|(_, table)| table.elements());
        let (mut folded, mut end) = (vec![None; self.cells.len()], 0);
        for (kind, mut table) in tables {
            table.start = end as u32;
            end += table.elements();
            if end > u64::from(u32::MAX) || 4 * end > max_bytes {
                break;
            }
            folded[kind.index()] = Some(table);
        }
        for ((signature, plan), folded) in self.signatures.iter_mut().zip(&self.cells).zip(folded) {
            signature.fold(plan, folded);
        }
        self
    }

    /// Returns the folded form of the table that a cell's prologue reads, if any. Its `start` is
    /// not set.
    fn foldable(&self, kind: Kind) -> Option<FoldedTable> {
        let hoisted = self.cell(kind).hoisted.as_ref()?;
        let port = hoisted.table()?;
        let rows = self.network[kind].tables()[port].rows;
        Some(FoldedTable { port, rows, start: 0, stride: hoisted.prologue.output_stride })
    }

    /// Returns the folded table of a cell, if it has one.
    #[must_use]
    pub fn folded(&self, kind: Kind) -> Option<FoldedTable> {
        self.signature(kind).folded
    }

    /// Returns the number of elements of all folded tables.
    #[must_use]
    pub fn folded_elements(&self) -> usize {
        self.folded_tables().map(|(_, table)| table.elements()).sum::<u64>() as usize
    }

    fn folded_tables(&self) -> impl Iterator<Item = (Kind, FoldedTable)> {
        let kinds = (0..self.cells.len()).map(Kind::new);
        kinds.filter_map(|kind| Some((kind, self.folded(kind)?)))
    }

    /// Returns the plan that computes all folded tables, for a backend to run when it is loaded.
    /// The arena of this plan becomes the memory of the folded tables.
    #[must_use]
    pub fn folding_plan(&self) -> Plan {
        let mut plan = Plan { arena: self.folded_elements(), ..Plan::default() };
        for (kind, folded) in self.folded_tables() {
            for first in (0..folded.rows).step_by(MAX_ROWS_PER_STEP as usize) {
                let calls = MAX_ROWS_PER_STEP.min(folded.rows - first);
                self.fold_rows(kind, folded, first..first + calls, &mut plan);
            }
        }
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
        plan.steps.push(Step { cell: kind, action: Action::Hoist, calls, out, operands });
    }
}
