//! Plans the backward pass: the adjoints of batches in reverse order.

mod places;
mod terms;

use edbatch_graph::{Arity, Graph, Kind, NodeId, PairAdjoint, Source};

use super::operands::listed;
use super::{ArenaTooLarge, Lifetimes, MiniBatch, Planner, check_lengths, offset};
use crate::plan::{Action, Operand, Plan, Step, ValueRow};
use crate::program::Program;
use crate::training_plan::TrainingPlan;
pub(super) use terms::Back;

impl Planner {
    /// Plans a mini-batch and its gradients, and overwrites `plan`. `has_gradient` tells for each
    /// wanted value whether the loss depends on it directly. The program must be [for
    /// training](Program::for_training).
    ///
    /// *Cost*: O(nodes + edges × fields).
    ///
    /// # Errors
    /// Like [`plan`](Self::plan), for the forward and the backward plan together.
    ///
    /// # Panics
    /// Like [`plan`](Self::plan), or if `has_gradient` has another length than the wanted values.
    pub fn plan_training(
        &mut self,
        mini_batch: &MiniBatch<'_>,
        has_gradient: &[bool],
        plan: &mut TrainingPlan,
    ) -> Result<(), ArenaTooLarge> {
        let &MiniBatch { program, graph, schedule, wanted } = mini_batch;
        assert_eq!(wanted.len(), has_gradient.len(), "a flag for each wanted value");
        plan.clear();
        let mut back = std::mem::take(&mut self.back);
        back.find_live(mini_batch, has_gradient);
        let TrainingPlan { forward, back: way_back, gradient_of, .. } = plan;
        let mut end = self.given(mini_batch, forward)?;
        for (&(value, _), &has_gradient) in wanted.iter().zip(has_gradient) {
            gradient_of.push(has_gradient.then_some(way_back.given.len() as u32));
            if has_gradient {
                let record = graph.record_of(value).expect("a wanted value of the graph");
                way_back.given.push(ValueRow { record, start: offset(end)? });
                end += u64::from(program.record(record).stride);
            }
        }
        offset(end)?;
        self.arena.reset(end);
        back.list_outputs(graph, wanted, plan);
        self.find_spans(mini_batch);
        self.keep_for_adjoints(mini_batch, &back);
        self.free_spans(2 * schedule.len());
        self.plan_batches(mini_batch, &mut plan.forward)?;
        for index in (0..schedule.len()).rev() {
            if back.returns[index] {
                self.step_back(mini_batch, index, &mut back, plan)?;
            }
            self.free_after(2 * schedule.len() - 1 - index);
        }
        plan.forward.arena = self.arena.end() as usize;
        plan.back.arena = plan.forward.arena;
        back.list_sums(mini_batch, plan);
        check_lengths(plan.lists.len(), plan.named.len(), 0)?;
        self.back = back;
        Ok(())
    }

    /// Extends the lives of spans until the last adjoint that reads them has run. The adjoint of
    /// batch b runs at time 2B - 1 - b.
    fn keep_for_adjoints(
        &mut self,
        &MiniBatch { graph, schedule, wanted, .. }: &MiniBatch<'_>,
        back: &Back,
    ) {
        if self.lifetimes == Lifetimes::Distinct {
            return;
        }
        let end = 2 * schedule.len() as u32;
        // The caller reads wanted values between the forward and the backward pass.
        for (value, _) in wanted {
            if let Source::Node(node) = value.source() {
                let span = &mut self.spans[self.batch_of[node.index()] as usize];
                span.last = span.last.max(end / 2 - 1);
            }
        }
        for (index, batch) in
            schedule.batches().enumerate().filter(|&(index, _)| back.returns[index])
        {
            let last = end - 1 - index as u32;
            self.spans[index].last = last;
            for value in batch.nodes.iter().flat_map(|&node| graph.values(node)) {
                if let Source::Node(node) = value.source() {
                    let span = &mut self.spans[self.batch_of[node.index()] as usize];
                    span.last = span.last.max(last);
                }
            }
        }
    }

    /// Plans the adjoint of a batch.
    fn step_back(
        &mut self,
        &MiniBatch { program, graph, schedule, .. }: &MiniBatch<'_>,
        index: usize,
        back: &mut Back,
        plan: &mut TrainingPlan,
    ) -> Result<(), ArenaTooLarge> {
        let batch = schedule.batch(index);
        let (kind, nodes, calls) = (batch.kind, batch.nodes, batch.nodes.len());
        let adjoint = program.adjoint(kind).expect("a batch that returns has an adjoint").cell;
        let (cell, reads) = (&program.network()[kind], program.signature(adjoint));
        let out = self.arena.allocate(u64::from(reads.stride) * calls as u64);
        offset(self.arena.end())?;
        let out = offset(out)?;
        for (row, &node) in (0..).zip(nodes) {
            back.row_of[node.index()] = out + row * reads.stride;
        }
        let (given, Plan { operands, lists, rows, steps, .. }) =
            (&plan.forward.given, &mut plan.back);
        let first = operands.len() as u32;
        for (table, declared) in cell.tables().iter().enumerate() {
            let start = rows.len() as u32;
            operands.push(if reads.tables[table] {
                Operand::Table { start }
            } else {
                Operand::Unread
            });
            if reads.tables[table] {
                let width = program.table_width(declared);
                rows.extend(nodes.iter().map(|&node| graph.rows(node)[table] * width));
            }
        }
        for (port, declared) in cell.ports().iter().enumerate() {
            let start = lists.len();
            if !reads.reads[port] {
                operands.push(Operand::Unread);
            } else if declared.arity == Arity::One {
                lists.extend(nodes.iter().map(|&node| self.row(graph.value(node, port), given)));
                let stride = program.record(declared.record).stride;
                operands.push(listed(lists, start, stride, out));
            } else {
                operands.push(many(lists, nodes, |lists, node| {
                    let values = graph.values(node).skip(port);
                    lists.extend(values.map(|value| self.row(value, given)));
                }));
            }
        }
        let own = self.row_of[nodes[0].index()];
        operands.push(Operand::Span { first: own, stride: program.signature(kind).stride });
        let record = program.record(cell.record());
        for (field, &within) in record.offsets.iter().enumerate() {
            operands.push(many(lists, nodes, |lists, node| {
                lists.extend(back.terms(graph, node.index(), field as u16, within));
            }));
        }
        let calls = calls as u32;
        steps.push(Step { cell: adjoint, action: Action::Call, calls, out, operands: first });
        check_lengths(operands.len(), lists.len(), rows.len() as u64)?;
        match &program.adjoint(kind).expect("as above").pair {
            Some(pair) => self.step_pairs((program, graph), (kind, nodes), pair, back, plan),
            None => Ok(()),
        }
    }

    /// Plans the calls of a pair cell: for each adjoint call and each value at its last port.
    fn step_pairs(
        &mut self,
        (program, graph): (&Program, &Graph),
        (kind, nodes): (Kind, &[NodeId]),
        pair: &PairAdjoint,
        back: &mut Back,
        plan: &mut TrainingPlan,
    ) -> Result<(), ArenaTooLarge> {
        let (ports, reads) = (program.network()[kind].ports(), program.signature(pair.cell));
        let values = |node: NodeId| graph.values(node).skip(ports.len() - 1);
        let calls: usize = nodes.iter().map(|&node| values(node).len()).sum();
        let out = self.arena.allocate(u64::from(reads.stride) * calls as u64);
        offset(self.arena.end())?;
        let out = offset(out)?;
        let (given, Plan { operands, lists, rows, steps, .. }) =
            (&plan.forward.given, &mut plan.back);
        let first = operands.len() as u32;
        let mut next = out;
        for &node in nodes {
            back.pairs_of[node.index()] = next;
            next += reads.stride * values(node).len() as u32;
        }
        let adjoint = program.network()[pair.cell].ports()[1].record;
        for (port, record) in [ports[ports.len() - 1].record, adjoint].into_iter().enumerate() {
            let start = lists.len();
            if !reads.reads[port] {
                operands.push(Operand::Unread);
                continue;
            }
            for &node in nodes {
                match port {
                    0 => lists.extend(values(node).map(|value| self.row(value, given))),
                    _ => lists.extend(values(node).map(|_| back.row_of[node.index()])),
                }
            }
            operands.push(listed(lists, start, program.record(record).stride, out));
        }
        let (cell, calls) = (pair.cell, calls as u32);
        steps.push(Step { cell, action: Action::Call, calls, out, operands: first });
        check_lengths(operands.len(), lists.len(), rows.len() as u64)
    }
}

/// Lists any number of rows for each of these nodes.
fn many(
    lists: &mut Vec<u32>,
    nodes: &[NodeId],
    mut extend: impl FnMut(&mut Vec<u32>, NodeId),
) -> Operand {
    let (ends, rows) = (lists.len(), lists.len() + nodes.len());
    lists.resize(rows, 0);
    for (call, &node) in nodes.iter().enumerate() {
        extend(lists, node);
        lists[ends + call] = (lists.len() - rows) as u32;
    }
    Operand::Many { ends: ends as u32, rows: rows as u32 }
}

#[cfg(test)]
mod tests;
