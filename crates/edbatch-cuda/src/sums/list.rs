//! The lists of a mini-batch's sums.

use std::cmp::Reverse;
use std::ops::Range;

use edbatch_graph::Kind;
use edbatch_layout::{Action, CallSums, Operand, Plan, Program, Step, TrainingPlan};
use edbatch_runtime::{BackendError, NamedRows};

use super::table::{RowCell, SUM, SumTable, TILE, TableSums};
use crate::CudaError;

/// The contributions of the mini-batch to sums so far.
#[derive(Debug, Default)]
pub(crate) struct Added {
    /// By number: true if a sum has contributions.
    pub(super) sums: Vec<bool>,
    pub(super) initial: Vec<bool>,
    pub(super) tables: Vec<Named>,
    /// The floats of all sums.
    pub(crate) floats: u32,
}

/// The rows of a table that calls have named, and the place of each one's sum.
#[derive(Debug, Default)]
pub(super) struct Named {
    pub(super) rows: NamedRows,
    pub(super) places: Vec<u32>,
}

/// The words of a sum of rows, and of a field.
pub(crate) const ROW: usize = 6;
pub(crate) const FIELD: usize = 3;

/// The flags of a sum: it begins with zero, and its rows are beside the gradients.
const FROM_ZERO: u32 = 1;
const BESIDE: u32 = 2;

/// The sums that a launch of `kernels/rows.cu` and one of `kernels/sums.cu` compute.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    /// The sums of rows, and the starts of the rows of calls.
    pub(crate) rows: Vec<u32>,
    pub(crate) starts: Vec<u32>,
    /// The sums over calls and their tiles; and the starts of the rows of calls.
    pub(crate) sums: Vec<u32>,
    pub(crate) tiles: Vec<u32>,
    pub(crate) calls: Vec<u32>,
}

impl Added {
    /// Nothing has been added.
    pub(crate) fn clear(&mut self, table: &SumTable) {
        self.sums.clear();
        self.sums.resize(table.sums.len(), false);
        self.initial.clear();
        self.initial.resize(table.initial.len(), false);
        self.tables.resize_with(table.tables.len(), Named::default);
        for named in &mut self.tables {
            named.rows.clear();
            named.places.clear();
        }
        self.floats = table.floats;
    }

    /// Returns the plan of the adjoints of all named rows, over the memory of sums; their rows are
    /// after the sums. Also returns the start of these rows, by table.
    ///
    /// # Errors
    /// If 32 bits cannot hold the places of all rows.
    pub(crate) fn plan_of_rows(
        &self,
        table: &SumTable,
        plan: &mut Plan,
    ) -> Result<Vec<u32>, CudaError> {
        plan.clear();
        let mut end = u64::from(self.floats);
        let mut starts = vec![0; table.tables.len()];
        for ((of, named), start) in table.tables.iter().zip(&self.tables).zip(&mut starts) {
            let (Some(RowCell { kind, stride, .. }), [_, ..]) = (&of.adjoint, &*named.places)
            else {
                continue;
            };
            *start = end as u32;
            let calls = named.places.len() as u32;
            let operands = plan.operands.len() as u32;
            let operand = Operand::Table { start: plan.rows.len() as u32 };
            plan.operands.extend([operand, Operand::List { start: plan.lists.len() as u32 }]);
            plan.rows.extend(named.rows.rows().iter().map(|row| row * of.width));
            plan.lists.extend(&named.places);
            let (cell, action, out) = (*kind, Action::Call, *start);
            plan.steps.push(Step { cell, action, calls, out, operands });
            end += u64::from(calls) * u64::from(*stride);
        }
        let what = "the gradients of tables' rows";
        if end > u64::from(u32::MAX) {
            return Err(CudaError::TooLarge { what, elements: end });
        }
        plan.arena = end as usize;
        Ok(starts)
    }
}

impl Lists {
    /// Lists what parts contribute, given the starts of their arenas. Rows of tables that are named
    /// for the first time get places after the sums so far.
    ///
    /// # Errors
    /// If memory for the rows that calls name cannot be allocated, or 32 bits cannot hold the
    /// places of their sums.
    pub(crate) fn add(
        &mut self,
        program: &Program,
        table: &SumTable,
        parts: &[(u32, &TrainingPlan)],
        added: &mut Added,
    ) -> Result<(), BackendError> {
        self.clear();
        let of_cell = |kind: usize| {
            let calls = parts.iter().flat_map(move |&(start, plan)| {
                let calls = plan.calls.iter().filter(move |calls| calls.cell == Kind::new(kind));
                calls.map(move |calls| (start, plan, calls))
            });
            calls.filter(|(_, plan, calls)| !plan.list(&calls.rows).is_empty())
        };
        for kind in (0..table.cells.len()).filter(|&kind| of_cell(kind).next().is_some()) {
            let cell = table.cells[kind].as_ref().expect("it has an adjoint");
            let calls = self.add_calls(of_cell(kind).flat_map(|(start, plan, calls)| {
                plan.list(&calls.rows).iter().map(move |row| start + row)
            }));
            for sum in cell.sums.clone() {
                let flags = if added.sums[sum] { 0 } else { FROM_ZERO };
                added.sums[sum] = true;
                self.add_sum(table, (sum, calls.clone()), flags);
            }
            let count = cell.tables.len();
            for (port, number) in cell.tables.iter().enumerate() {
                let Some(number) = *number else { continue };
                let calls =
                    of_cell(kind).flat_map(|(start, plan, CallSums { rows, named, .. })| {
                        let rows = plan.list(rows);
                        let named = &plan.named[*named as usize..][..rows.len() * count];
                        let named = named.iter().skip(port).step_by(count);
                        named.copied().zip(rows.iter().map(move |row| start + row))
                    });
                self.add_rows(
                    &table.tables[number],
                    calls,
                    (&mut added.tables[number], &mut added.floats),
                )?;
            }
        }
        self.add_initial(program, table, parts, added);
        Ok(())
    }

    /// Adds the sums of rows that calls name: pairs of a row and of the start of a call's row.
    fn add_rows(
        &mut self,
        of: &TableSums,
        calls: impl Iterator<Item = (u32, u32)>,
        (named, floats): (&mut Named, &mut u32),
    ) -> Result<(), BackendError> {
        let before = named.places.len();
        let mut by_row: Vec<(u32, u32)> = Vec::new();
        for (row, start) in calls {
            let index = named.rows.add(row)?;
            if index == named.places.len() {
                named.places.push(*floats);
                *floats = floats.checked_add(of.stride).ok_or(CudaError::TooLarge {
                    what: "the sums of tables' rows",
                    elements: u64::from(*floats) + u64::from(of.stride),
                })?;
            }
            by_row.push((index as u32, start));
        }
        // Stable: the calls of a row stay in order.
        by_row.sort_by_key(|&(index, _)| index);
        for of_row in by_row.chunk_by(|a, b| a.0 == b.0) {
            let index = of_row[0].0 as usize;
            let calls = of_row.iter().map(|&(_, start)| start);
            self.add_row(calls, (named.places[index], of.fields.clone()), index >= before);
        }
        Ok(())
    }

    /// Adds the sums of the gradients of initial values.
    fn add_initial(
        &mut self,
        program: &Program,
        table: &SumTable,
        parts: &[(u32, &TrainingPlan)],
        added: &mut Added,
    ) {
        let initial = program.network().initial_values().len();
        let mut lists: Vec<Option<Vec<u32>>> = vec![None; table.initial.len()];
        for &(start, plan) in parts {
            for sum in plan.given.iter().take_while(|sum| (sum.given as usize) < initial) {
                let of_field = table.of_initial[sum.given as usize][usize::from(sum.field)];
                let Some(first) = of_field else { continue };
                let (outputs, calls) = plan.list(&sum.rows).split_at(sum.outputs as usize);
                for (list, own) in lists[first..].iter_mut().zip([outputs, calls]) {
                    list.get_or_insert_default().extend(own.iter().map(|row| start + row));
                }
            }
        }
        for (number, list) in lists.into_iter().enumerate() {
            let Some(list) = list else { continue };
            let of = &table.initial[number];
            self.add_row(list.into_iter(), (of.to, of.field..of.field + 1), !added.initial[number]);
            added.initial[number] = true;
        }
    }

    /// Adds a sum of rows to a place.
    pub(crate) fn add_row(
        &mut self,
        calls: impl Iterator<Item = u32>,
        (to, fields): (u32, Range<u32>),
        from_zero: bool,
    ) {
        let first = self.starts.len() as u32;
        self.starts.extend(calls);
        let end = self.starts.len() as u32;
        self.rows.extend([first, end, to, fields.start, fields.end, from_zero.into()]);
    }

    /// Adds the sums over the calls of adjoints of rows, whose rows begin at these places. Then all
    /// sums are known, and the longest tiles come first, so that all SMs end at about one time.
    pub(crate) fn add_row_adjoints(&mut self, table: &SumTable, added: &Added, starts: &[u32]) {
        for ((of, named), &start) in table.tables.iter().zip(&added.tables).zip(starts) {
            let Some(RowCell { stride, sums, .. }) = &of.adjoint else { continue };
            if named.places.is_empty() || sums.is_empty() {
                continue;
            }
            let calls = 0..named.places.len() as u32;
            let calls = self.add_calls(calls.map(|call| start + call * stride));
            for sum in sums.clone() {
                self.add_sum(table, (sum, calls.clone()), FROM_ZERO | BESIDE);
            }
        }
        let sums = self.sums.as_chunks::<SUM>().0;
        let pairs = |sum: u32| {
            let [first, end, _, _, _, _, pairs, ..] = sums[sum as usize];
            (end - first) * pairs
        };
        let tiles = self.tiles.as_chunks_mut::<TILE>().0;
        tiles.sort_by_key(|&[sum, ..]| Reverse(pairs(sum)));
    }

    /// Returns the pairs of each tile of the sums over calls, the rows of its sum from the tile on
    /// if it has products, and its own rows.
    pub(crate) fn tile_pairs(&self) -> impl Iterator<Item = (u32, Option<u32>, u32)> {
        let sums = self.sums.as_chunks::<SUM>().0;
        self.tiles.as_chunks::<TILE>().0.iter().map(move |&[sum, n, _, rows]| {
            let [first, end, _, _, outputs, depth, pairs, ..] = sums[sum as usize];
            ((end - first) * pairs, (depth > 0).then(|| outputs - n), rows)
        })
    }

    fn add_sum(&mut self, table: &SumTable, (number, calls): (usize, Range<u32>), flags: u32) {
        let own = (self.sums.len() / SUM) as u32;
        let sum = &table.sums[number];
        self.sums.extend(sum.words(calls, flags));
        self.tiles.extend(sum.tiles(own).flatten());
    }

    /// Adds the starts of the rows of calls, and returns their places in the list.
    fn add_calls(&mut self, calls: impl Iterator<Item = u32>) -> Range<u32> {
        let first = self.calls.len() as u32;
        self.calls.extend(calls);
        first..self.calls.len() as u32
    }

    pub(crate) fn clear(&mut self) {
        let Self { rows, starts, sums, tiles, calls } = self;
        [rows, starts, sums, tiles, calls].into_iter().for_each(Vec::clear);
    }
}
