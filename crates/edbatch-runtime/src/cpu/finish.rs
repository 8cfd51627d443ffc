//! Completes the gradients of parameters, from the sums over all calls.

use std::mem::take;

use edbatch_graph::{Kind, RowAdjoint, Table};
use edbatch_layout::{Action, Operand, Plan, Step};

use super::sums::{Calls, SUMS, Sums, TableSums, zeros};
use super::{Cpu, Slot};
use crate::BackendError;
use crate::backend::{Gradient, NamedRows, reserve};
use crate::thread_pool::ThreadPool;

impl Cpu {
    /// Completes the gradients of all parameters. Returns the sum of the squares of all elements.
    pub(super) fn finish_sums(&mut self, sums: &mut Sums) -> Result<f64, BackendError> {
        let Sums { cells, initial, total, squared_norm, is_direct, slot } = sums;
        let completed = total.parameters.iter_mut().zip(&*is_direct);
        completed.filter(|(_, is_direct)| !**is_direct).for_each(|(gradient, _)| gradient.clear());
        let program = self.loaded.program.clone();
        for (kind, of_cell) in cells.iter().enumerate() {
            let Some(of_cell) = of_cell else { continue };
            let adjoint = program.adjoint(Kind::new(kind)).expect("it has sums");
            for (sum, from) in adjoint.sums.iter().zip(&of_cell.parameters) {
                add(&mut total.parameters[sum.parameter().0 as usize], from)?;
            }
            let declared = program.network().cells()[kind].tables();
            let tables = of_cell.tables.iter().zip(&adjoint.tables).zip(declared);
            for ((of_table, adjoint), declared) in tables {
                let (Some(of_table), Some(adjoint)) = (of_table, adjoint) else { continue };
                self.finish_table(slot, of_table, adjoint, declared, &mut total.parameters)?;
            }
        }
        for (declared, fields) in program.network().initial_values().iter().zip(initial) {
            for (parameter, field) in declared.parameters.iter().zip(fields) {
                let gradient = &mut total.parameters[parameter.0 as usize];
                field.iter().try_for_each(|sum| add(gradient, sum))?;
            }
        }
        for (gradient, parameter) in total.parameters.iter_mut().zip(program.network().parameters())
        {
            if let Gradient::Whole(elements) = gradient {
                zeros(elements, parameter.elements())?;
            }
        }
        *squared_norm = total.squared_norm();
        Ok(*squared_norm)
    }

    /// Computes the gradients of a table's rows from the sums over all calls that name them.
    fn finish_table(
        &mut self,
        slot: &mut Slot,
        sums: &TableSums,
        adjoint: &RowAdjoint,
        table: &Table,
        gradients: &mut [Gradient],
    ) -> Result<(), BackendError> {
        if sums.named.rows().is_empty() {
            return Ok(());
        }
        let program = self.loaded.program.clone();
        let gradient =
            &mut gradients[table.parameter.expect("an index has no gradient").0 as usize];
        let Some(kind) = adjoint.cell else {
            return add_rows(gradient, sums.named.rows(), sums.sums.chunks_exact(sums.stride));
        };
        // The arena holds the sums of all rows, then the rows of the row adjoint.
        let (calls, stride) = (sums.named.rows().len(), program.cell(kind).output_stride as usize);
        let plan = Plan {
            steps: vec![Step {
                cell: kind,
                action: Action::Call,
                calls: calls as u32,
                out: sums.sums.len() as u32,
                operands: 0,
            }],
            operands: vec![
                Operand::Table { start: 0 },
                Operand::Span { first: 0, stride: sums.stride as u32 },
            ],
            rows: sums.named.rows().iter().map(|row| row * program.table_width(table)).collect(),
            arena: sums.sums.len() + calls * stride,
            ..Plan::default()
        };
        if u32::try_from(plan.arena).is_err() {
            let what = "the gradients of a table's rows";
            return Err(BackendError::Memory { what, bytes: 4 * plan.arena as u64 });
        }
        let reserved = slot.arena.reserve(plan.arena);
        reserved.map_err(|error| error.of("the gradients of a table's rows"))?;
        self.reserve_workspaces(&plan)?;
        slot.arena[..sums.sums.len()].copy_from_slice(&sums.sums);
        let pool = self.pool.clone();
        let mut workers = pool.as_ref().and_then(ThreadPool::claim);
        let loaded = self.loaded.clone();
        let weights = loaded.weights();
        slot.execute(self.split(&weights).1, &plan, 0, 0, workers.as_mut());
        let first = sums.sums.len() as u32;
        let rows: Vec<u32> = (first..).step_by(stride).take(calls).collect();
        let (level, arena) = (self.loaded.level, &*slot.arena);
        let calls = Calls { program: &program, level, cell: kind, arena, rows: &rows };
        if let Some(field) = adjoint.row {
            let record = program.record(program.network()[kind].record());
            let field = usize::from(field);
            let (offset, width) = (record.offsets[field] as usize, record.widths[field] as usize);
            let of_row = rows.iter().map(|&row| &arena[row as usize + offset..][..width]);
            add_rows(gradient, sums.named.rows(), of_row)?;
        }
        for sum in &adjoint.sums {
            match &mut gradients[sum.parameter().0 as usize] {
                Gradient::Whole(to) if to.is_empty() => calls.add(sum, to, &mut workers)?,
                gradient => {
                    let mut of_rows = Vec::new();
                    calls.add(sum, &mut of_rows, &mut workers)?;
                    add(gradient, &of_rows)?;
                }
            }
        }
        Ok(())
    }
}

/// Adds to the gradients of all elements of a trained parameter. An empty gradient is zero.
fn add(gradient: &mut Gradient, from: &[f32]) -> Result<(), BackendError> {
    let Gradient::Whole(to) = gradient else { return Ok(()) };
    if to.is_empty() {
        reserve(to, from.len(), SUMS)?;
        to.extend_from_slice(from);
        return Ok(());
    }
    // The gradients of some rows of a table may have been added before.
    zeros(to, to.len().max(from.len()))?;
    to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
    Ok(())
}

/// Adds to the gradients of some rows of a trained table.
fn add_rows<'a>(
    gradient: &mut Gradient,
    rows: &[u32],
    mut from: impl Iterator<Item = &'a [f32]>,
) -> Result<(), BackendError> {
    let add = |to: &mut [f32], from: &[f32]| to.iter_mut().zip(from).for_each(|(to, x)| *to += x);
    match gradient {
        Gradient::None => Ok(()),
        Gradient::Whole(to) => rows.iter().zip(from).try_for_each(|(&row, from)| {
            let start = row as usize * from.len();
            zeros(to, to.len().max(start + from.len()))?;
            add(&mut to[start..start + from.len()], from);
            Ok(())
        }),
        Gradient::Rows { rows: known, elements } => {
            let mut named = NamedRows::of(take(known))?;
            let added = rows.iter().try_for_each(|&row| {
                let from = from.next().expect("a gradient for each row");
                let start = named.add(row)? * from.len();
                if start < elements.len() {
                    add(&mut elements[start..start + from.len()], from);
                } else {
                    reserve(elements, from.len(), SUMS)?;
                    elements.extend_from_slice(from);
                }
                Ok(())
            });
            *known = named.into_rows();
            added
        }
    }
}
