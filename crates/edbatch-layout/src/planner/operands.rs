//! Plans the operands of batches: a span if rows are at equal distances, else a list. A prologue is
//! planned just before the first of the batches that share it, or that name one of its rows.

use edbatch_graph::{Batch, Graph, NodeId, Row};

use super::groups::Share;
use super::{ArenaTooLarge, MiniBatch, Planner, Progress};
use crate::cell_plan::Base;
use crate::plan::{Action, Lookup, Operand, Plan, Step, ValueRow};
use crate::program::Signature;

impl Planner {
    /// Plans the operands of a batch. For lists of table rows, only reserves space in the plan.
    pub(super) fn operands(
        &self,
        graph: &Graph,
        signature: &Signature,
        nodes: &[NodeId],
        out: u32,
        plan: &mut Plan,
        progress: &mut Progress,
    ) {
        let Plan { given, operands, lists, .. } = plan;
        let calls = nodes.len();
        for &is_read in &signature.tables {
            let start = progress.rows as u32;
            operands.push(if is_read { Operand::Table { start } } else { Operand::Unread });
            progress.rows += if is_read { calls as u64 } else { 0 };
        }
        let mut next = |count| {
            let values = &self.values[progress.values..][..count];
            progress.values += count;
            values.iter().map(|&value| self.row(value, given))
        };
        for &stride in &signature.ports {
            if calls == 1 {
                let first = next(1).next().expect("a value");
                operands.push(Operand::Span { first, stride });
                continue;
            }
            let start = lists.len();
            lists.extend(next(calls));
            operands.push(listed(lists, start, stride, out));
        }
        if signature.is_variadic {
            let single = signature.ports.len();
            let (ends, mut count) = (lists.len(), 0);
            lists.extend(nodes.iter().map(|&node| {
                count += graph.values(node).len() - single;
                count as u32
            }));
            lists.extend(next(count));
            let (ends, rows) = (ends as u32, (ends + calls) as u32);
            operands.push(Operand::Many { ends, rows });
        }
    }

    /// Plans the prologue steps that must run before a batch: the step that a group of batches
    /// shares, before the first of them; for a table, the blocks of distinct rows that the batch
    /// names and no earlier batch of its kind.
    pub(super) fn hoist(
        &mut self,
        mini_batch: &MiniBatch<'_>,
        batch: usize,
        plan: &mut Plan,
        progress: &mut Progress,
    ) -> Result<(), ArenaTooLarge> {
        let Some(Share { group: index, .. }) = self.groups.share(batch) else { return Ok(()) };
        let &MiniBatch { program, graph, schedule, .. } = mini_batch;
        let (span, begins) = (schedule.len() + index as usize, self.groups.begins(batch));
        if begins {
            self.place(span)?;
        }
        let (out, group) = (self.spans[span].start as u32, self.groups.of(index));
        let (kind, cell) = (group.kind, &program.network()[group.kind]);
        let (from, stride) = program.signature(kind).hoisted.expect("it is divided");
        let mut step = |operand, calls, out| {
            let operands = plan.operands.len() as u32;
            let tables = (0..cell.tables().len()).map(|table| Base::Table(table as u16));
            let ports = (0..cell.ports().len()).map(|port| Base::Port(port as u16));
            let of_base = |base| if base == from { operand } else { Operand::Unread };
            plan.operands.extend(tables.chain(ports).map(of_base));
            plan.steps.push(Step { cell: kind, action: Action::Hoist, calls, out, operands });
        };
        match from {
            Base::Port(port) if begins => {
                let (port, start) = (usize::from(port), plan.lists.len());
                for &batch in self.groups.batches_of(group) {
                    let nodes = schedule.batch(batch as usize).nodes.iter();
                    let row = |&node| self.row(graph.value(node, port), &plan.given);
                    plan.lists.extend(nodes.map(row));
                }
                let stride = program.record(cell.ports()[port].record).stride;
                let operand = listed(&mut plan.lists, start, stride, out);
                step(operand, group.rows, out);
            }
            Base::Port(_) => {}
            _ if group.looks_up => {
                let operand = Operand::Table { start: progress.rows as u32 };
                progress.rows += u64::from(group.rows);
                step(operand, group.rows, out);
                self.look_up(mini_batch, batch, plan);
            }
            _ => {
                for block in self.distinct.blocks(kind, batch, self.block) {
                    let operand = Operand::Table { start: progress.rows as u32 };
                    progress.rows += block.len() as u64;
                    step(operand, block.len() as u32, out + block.start * stride);
                }
            }
        }
        Ok(())
    }

    /// Plans the lookups of the last step, which runs for the calls of a batch.
    pub(super) fn look_up(&self, mini_batch: &MiniBatch<'_>, batch: usize, plan: &mut Plan) {
        let &MiniBatch { program, graph, schedule, .. } = mini_batch;
        let Batch { kind, nodes } = schedule.batch(batch);
        let Plan { steps, operands, given, lookups, .. } = plan;
        let step = steps.len() - 1;
        for (index, operand) in operands[steps[step].operands as usize..].iter().enumerate() {
            let (start, table, base, width) = match *operand {
                Operand::Table { start } => {
                    (start, index, 0, program.table_width(&program.network()[kind].tables()[index]))
                }
                Operand::Folded { start } => {
                    let folded = program.folded(kind).expect("it reads a folded table");
                    (start, folded.port, folded.start, folded.stride)
                }
                _ => continue,
            };
            for (entry, &node) in (start..).zip(nodes) {
                if let Row::ArgMax(value) = graph.row(node, table) {
                    let record = graph.record_of(value).expect("a value of the graph");
                    let value = ValueRow { record, start: self.row(value, given) };
                    lookups.push(Lookup { step: step as u32, value, entry, base, width });
                }
            }
        }
    }

    /// Plans the operand that locates a batch's prologue results, hoisted or folded, if it reads
    /// any. Returns the action of the batch's step.
    pub(super) fn hoisted_rows(
        &self,
        schedule_len: usize,
        signature: &Signature,
        (batch, calls): (usize, u32),
        plan: &mut Plan,
        progress: &mut Progress,
    ) -> Action {
        if signature.folded.is_some() {
            plan.operands.push(Operand::Folded { start: progress.rows as u32 });
            progress.rows += u64::from(calls);
            return Action::Body;
        }
        let Some((from, stride)) = signature.hoisted else { return Action::Call };
        let Some(Share { group, first_row }) = self.groups.share(batch) else {
            return Action::Call;
        };
        plan.operands.push(match from {
            _ if matches!(from, Base::Port(_)) || self.groups.of(group).looks_up => {
                let start = self.spans[schedule_len + group as usize].start as u32;
                Operand::Span { first: start + first_row * stride, stride }
            }
            _ => {
                let start = progress.rows as u32;
                progress.rows += u64::from(calls);
                Operand::Hoisted { start }
            }
        });
        Action::Body
    }
}

/// Makes an operand of the rows `lists[start..]`, for a batch that writes at `out`. If the rows are
/// a span, removes them from `lists`. A single row is a span with this `stride`.
pub(super) fn listed(lists: &mut Vec<u32>, start: usize, stride: u32, out: u32) -> Operand {
    match span(&lists[start..], stride, out) {
        Some(span) => {
            lists.truncate(start);
            span
        }
        None => Operand::List { start: start as u32 },
    }
}

/// Returns rows as a span, if they ascend at equal distances and are all before or all after the
/// rows that are written at `out`.
fn span(rows: &[u32], stride: u32, out: u32) -> Option<Operand> {
    let (&first, rest) = rows.split_first()?;
    let stride = match rest.first() {
        Some(second) => second.checked_sub(first).filter(|&stride| stride > 0)?,
        None => stride,
    };
    let steady = rows.windows(2).all(|pair| pair[1].wrapping_sub(pair[0]) == stride);
    let beside = first > out || rows.last() < Some(&out);
    (steady && beside).then_some(Operand::Span { first, stride })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_at_equal_distances_beside_the_output_are_a_span() {
        let check = |rows: &[u32], out, expected: Option<(u32, u32)>| {
            let expected = expected.map(|(first, stride)| Operand::Span { first, stride });
            assert_eq!(span(rows, 16, out), expected, "{rows:?} beside {out}");
        };
        check(&[0, 32, 64], 96, Some((0, 32)));
        check(&[96, 128], 0, Some((96, 32)));
        check(&[48], 0, Some((48, 16)));
        // Rows on both sides of the output; descending rows; equal rows; rows at unequal distances.
        check(&[0, 64], 32, None);
        check(&[64, 32], 96, None);
        check(&[32, 32], 96, None);
        check(&[0, 32, 48], 96, None);
    }
}
