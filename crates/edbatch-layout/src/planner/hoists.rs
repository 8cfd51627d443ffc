//! The steps and operands of what is hoisted, planned when the first batch of a group runs.

use super::groups::Share;
use super::operands::listed;
use super::{ArenaTooLarge, MiniBatch, Planner, Progress};
use crate::cell_plan::Base;
use crate::plan::{Action, Operand, Plan, Step};
use crate::program::Signature;

impl Planner {
    /// Plans what is hoisted for a batch, unless an earlier one had it done.
    pub(super) fn hoist(
        &mut self,
        mini_batch: &MiniBatch<'_>,
        batch: usize,
        plan: &mut Plan,
        progress: &mut Progress,
    ) -> Result<(), ArenaTooLarge> {
        let Some((index, group)) = self.groups.begun_by(batch) else { return Ok(()) };
        let &MiniBatch { program, graph, schedule, .. } = mini_batch;
        let out = self.take(schedule.len() + index)?;
        let (kind, capacity, cell) = (group.kind, group.capacity, &program.network()[group.kind]);
        let (from, _) = program.signature(kind).hoisted.expect("it is divided");
        let operand = match from {
            Base::Port(port) => {
                let (port, start) = (usize::from(port), plan.lists.len());
                for &batch in self.groups.batches_of(&group) {
                    let nodes = schedule.batch(batch as usize).nodes.iter();
                    let row = |&node| self.row(graph.value(node, port), &plan.given);
                    plan.lists.extend(nodes.map(row));
                }
                let stride = program.record(cell.ports()[port].record).stride;
                listed(&mut plan.lists, start, stride, out)
            }
            _ => {
                let start = progress.rows;
                progress.rows += capacity;
                Operand::Table { start }
            }
        };
        let operands = plan.operands.len() as u32;
        let tables = (0..cell.tables().len()).map(|table| Base::Table(table as u16));
        let ports = (0..cell.ports().len()).map(|port| Base::Port(port as u16));
        let of_base = |base| if base == from { operand } else { Operand::Unread };
        plan.operands.extend(tables.chain(ports).map(of_base));
        let action = Action::Hoist { capacity };
        plan.steps.push(Step { cell: kind, action, calls: capacity, out, operands });
        Ok(())
    }

    /// Where a batch finds its rows of what was hoisted, if anything was: another operand, and what
    /// is left to do.
    pub(super) fn hoisted_rows(
        &self,
        schedule_len: usize,
        signature: &Signature,
        (batch, calls): (usize, u32),
        plan: &mut Plan,
        progress: &mut Progress,
    ) -> Action {
        let Some((from, stride)) = signature.hoisted else { return Action::Call };
        let Some(Share { group, first_row }) = self.groups.share(batch) else {
            return Action::Call;
        };
        plan.operands.push(match from {
            Base::Port(_) => {
                let start = self.spans[schedule_len + group as usize].start as u32;
                Operand::Span { first: start + first_row * stride, stride }
            }
            _ => {
                let start = progress.rows;
                progress.rows += calls;
                Operand::Hoisted { start }
            }
        });
        Action::Body
    }
}
