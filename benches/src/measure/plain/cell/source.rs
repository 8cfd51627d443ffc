//! The rows that a step reads.

use edbatch_layout as layout;
use edbatch_layout::{Base, Operand, Place};
use edbatch_runtime::kernels::{Input, RowsRef};

use super::{Aligned, Batch};

/// The memory that a step reads.
pub(super) struct Source<'a> {
    pub(super) batch: &'a Batch<'a>,
    pub(super) regions: &'a [Aligned],
    /// The output rows, unless the step writes them.
    pub(super) output: Option<&'a [f32]>,
    pub(super) zeros: &'a [u32],
}

impl<'a> Source<'a> {
    /// Returns `width` elements at a place, for each call.
    pub(super) fn rows(&self, place: Place, width: usize) -> RowsRef<'a> {
        let (batch, calls, offset) = (self.batch, self.batch.calls(), place.offset as usize);
        let step = &batch.plan.steps[batch.index];
        let operands = batch.plan.operands_of(batch.index);
        let tables = batch.loaded.program.network()[step.cell].tables();
        let parameter = |weight| &batch.loaded.parameter(weight)[offset..];
        let operand = match place.base {
            Base::Scratch(region) => {
                let data = &self.regions[usize::from(region)][offset..];
                return span(data, batch.stride_of(place.base), calls, width);
            }
            Base::Output => {
                let output = self.output.expect("no step reads what it writes");
                return span(&output[offset..], batch.stride_of(place.base), calls, width);
            }
            Base::Parameter(weight) => {
                return RowsRef::List { data: parameter(weight), offsets: &self.zeros[..calls] };
            }
            Base::Table(table) => {
                let Operand::Table { start } = operands[usize::from(table)] else {
                    unreachable!("the plan was checked against the cell")
                };
                let table = tables[usize::from(table)].parameter.expect("not an index port");
                let data = parameter(layout::Weight::AsIs(table));
                return RowsRef::List { data, offsets: batch.plan.rows(start, step.calls) };
            }
            Base::Port(port) => operands[tables.len() + usize::from(port)],
            Base::Hoisted => operands[operands.len() - 1],
        };
        match operand {
            Operand::Span { first, stride } => {
                let (first, stride) = (first as usize + offset, stride as usize);
                let stride = if calls > 1 { stride } else { stride.max(width) };
                let end = first + (calls - 1) * stride + width;
                batch.around.span(first..end, stride)
            }
            Operand::List { start } => {
                batch.around.shifted(offset).list(batch.plan.list(start, step.calls))
            }
            Operand::Hoisted { start } => {
                batch.around.shifted(offset).list(batch.plan.rows(start, step.calls))
            }
            operand => unreachable!("{operand:?} is no row of the arena for each call"),
        }
    }

    /// Returns an input of an element-wise program.
    pub(super) fn input(&self, place: Place, width: usize) -> Input<'a> {
        match place.base {
            Base::Parameter(weight) => {
                let values = self.batch.loaded.parameter(weight);
                Input::Same(&values[place.offset as usize..][..width])
            }
            _ => Input::Rows(self.rows(place, width)),
        }
    }

    /// Returns all values at a variadic port, and the index after the last value of each call.
    pub(super) fn values(&self, port: u16, from: u32) -> (RowsRef<'a>, &'a [u32]) {
        let Batch { loaded, plan, index, around, .. } = *self.batch;
        let step = &plan.steps[index];
        let tables = loaded.program.network()[step.cell].tables().len();
        let Operand::Many { ends, rows } = plan.operands_of(index)[tables + usize::from(port)]
        else {
            unreachable!("the plan was checked against the cell")
        };
        let ends = plan.list(ends, step.calls);
        let count = ends.last().copied().unwrap_or(0);
        (around.shifted(from as usize).list(plan.list(rows, count)), ends)
    }
}

/// Returns `calls` rows of `width` elements, `stride` apart.
fn span(data: &[f32], stride: usize, calls: usize, width: usize) -> RowsRef<'_> {
    let stride = if calls > 1 { stride } else { stride.max(width) };
    RowsRef::Span { data: &data[..(calls - 1) * stride + width], stride }
}
