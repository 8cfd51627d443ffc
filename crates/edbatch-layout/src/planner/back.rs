//! Plans the backward pass: the adjoints of batches in reverse order, and the rows from which the
//! gradients of parameters are summed.

use edbatch_graph::{Adjoint, Arity, Dag, Graph, Kind, NodeId, PairAdjoint, Source, Value};

use super::operands::listed;
use super::{ArenaTooLarge, MiniBatch, Planner, check_lengths, offset};
use crate::plan::{Action, Operand, Plan, Step, ValueRow, Want};
use crate::program::Program;
use crate::training_plan::{CallSums, GivenSum, TrainingPlan};

/// Facts about the backward pass. Values are numbered: nodes first, then given values.
#[derive(Clone, Debug, Default)]
pub(super) struct Back {
    /// By node: true if the loss depends on it, and its cell has an adjoint.
    live: Vec<bool>,
    /// By batch: true if a call is live. Then the adjoints of all its calls run, live or not.
    returns: Vec<bool>,
    /// By node: the row of its adjoint call.
    row_of: Vec<u32>,
    /// By node: the row of the first of its calls of the pair cell, if its cell has one.
    pairs_of: Vec<u32>,
    /// By value: the end of its entries in `readers`.
    ends: Vec<u32>,
    /// The live calls that read each value, last calls first, with the index of the argument.
    readers: Vec<(NodeId, u32)>,
    /// By value: the end of its entries in `outputs`.
    output_ends: Vec<u32>,
    /// The rows of output gradients of each value.
    outputs: Vec<u32>,
}

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
                lists.extend(back.terms(program, graph, node.index(), field as u16, within));
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

impl Back {
    /// Finds the nodes that the loss depends on, and their readers.
    fn find_live(
        &mut self,
        &MiniBatch { program, graph, schedule, wanted }: &MiniBatch<'_>,
        has_gradient: &[bool],
    ) {
        let nodes = graph.nodes();
        self.live.clear();
        self.live.resize(nodes, false);
        self.row_of.resize(nodes, 0);
        self.pairs_of.resize(nodes, 0);
        self.returns.clear();
        for ((value, _), _) in wanted.iter().zip(has_gradient).filter(|(_, gradient)| **gradient) {
            if let Source::Node(node) = value.source() {
                self.live[node.index()] = true;
            }
        }
        self.ends.clear();
        self.ends.resize(nodes + graph.given().len() + 1, 0);
        for node in (0..nodes).rev() {
            let Some(adjoint) = program.adjoint(graph.kind(NodeId::new(node))) else {
                self.live[node] = false;
                continue;
            };
            if self.live[node] {
                for (value, _) in contributions(adjoint, graph, NodeId::new(node)) {
                    self.ends[index_of(graph, value) + 1] += 1;
                    if let Source::Node(argument) = value.source() {
                        self.live[argument.index()] = true;
                    }
                }
            }
        }
        running_sums(&mut self.ends);
        self.readers.clear();
        self.readers.resize(self.ends[self.ends.len() - 1] as usize, (NodeId::new(0), 0));
        for node in (0..nodes).rev().filter(|&node| self.live[node]).map(NodeId::new) {
            let adjoint = program.adjoint(graph.kind(node)).expect("a live node has an adjoint");
            for (value, argument) in contributions(adjoint, graph, node) {
                let next = &mut self.ends[index_of(graph, value)];
                self.readers[*next as usize] = (node, argument);
                *next += 1;
            }
        }
        let is_live = |node: &NodeId| self.live[node.index()];
        self.returns.extend(schedule.batches().map(|batch| batch.nodes.iter().any(is_live)));
    }

    /// Lists the rows of output gradients by value.
    fn list_outputs(&mut self, graph: &Graph, wanted: &[(Value, Want)], plan: &TrainingPlan) {
        self.output_ends.clear();
        self.output_ends.resize(graph.nodes() + graph.given().len() + 1, 0);
        let rows = wanted.iter().zip(&plan.gradient_of);
        let rows = rows.filter_map(|(&(value, _), row)| Some((index_of(graph, value), (*row)?)));
        rows.clone().for_each(|(value, _)| self.output_ends[value + 1] += 1);
        running_sums(&mut self.output_ends);
        self.outputs.clear();
        self.outputs.resize(self.output_ends[self.output_ends.len() - 1] as usize, 0);
        for (value, row) in rows {
            let next = &mut self.output_ends[value];
            self.outputs[*next as usize] = plan.back.given[row as usize].start;
            *next += 1;
        }
    }

    /// Returns the places of the terms of a value's gradient: output gradients, then the
    /// contributions of its readers, last calls first.
    fn terms(
        &self,
        program: &Program,
        graph: &Graph,
        value: usize,
        field: u16,
        within: u32,
    ) -> impl Iterator<Item = u32> {
        let outputs = &self.outputs[before(&self.output_ends, value)];
        let readers = &self.readers[before(&self.ends, value)];
        let contributed = move |&(node, argument): &(NodeId, u32)| {
            let adjoint = program.adjoint(graph.kind(node)).expect("a reader has an adjoint");
            let last = adjoint.contributions.len() as u32 - 1;
            let at = |cell: Kind, row: u32, of_field: u16| {
                let record = program.record(program.network()[cell].record());
                row + record.offsets[usize::from(of_field)]
            };
            let pair = adjoint.pair.as_ref().filter(|_| argument >= last).and_then(|pair| {
                let of_field = pair.contributions[usize::from(field)]?;
                let before = program.signature(pair.cell).stride * (argument - last);
                Some(at(pair.cell, self.pairs_of[node.index()] + before, of_field))
            });
            pair.or_else(|| {
                let port = argument.min(last) as usize;
                let of_field = adjoint.contributions[port][usize::from(field)]?;
                Some(at(adjoint.cell, self.row_of[node.index()], of_field))
            })
        };
        let outputs = outputs.iter().map(move |row| row + within);
        outputs.chain(readers.iter().filter_map(contributed))
    }

    /// Lists the rows from which gradients of parameters and of given values are summed.
    fn list_sums(
        &self,
        &MiniBatch { program, graph, .. }: &MiniBatch<'_>,
        plan: &mut TrainingPlan,
    ) {
        let TrainingPlan { calls, given, lists, named, .. } = plan;
        let mut ends = vec![0; program.network().cells().len() + 1];
        let live = || (0..graph.nodes()).filter(|&node| self.live[node]).map(NodeId::new);
        live().for_each(|node| ends[graph.kind(node).index() + 1] += 1);
        running_sums(&mut ends);
        let counts = ends.clone();
        lists.resize(ends[ends.len() - 1] as usize, 0);
        let mut order = vec![NodeId::new(0); lists.len()];
        for node in live() {
            let next = &mut ends[graph.kind(node).index()];
            lists[*next as usize] = self.row_of[node.index()];
            order[*next as usize] = node;
            *next += 1;
        }
        for kind in 0..counts.len() - 1 {
            let rows = counts[kind]..counts[kind + 1];
            if rows.is_empty() {
                continue;
            }
            calls.push(CallSums {
                cell: Kind::new(kind),
                rows: rows.clone(),
                named: named.len() as u32,
            });
            for &node in &order[rows.start as usize..rows.end as usize] {
                named.extend(graph.rows(node));
            }
        }
        for (index, &record) in graph.given().iter().enumerate() {
            for (field, &within) in program.record(record).offsets.iter().enumerate() {
                let start = lists.len();
                let terms = self.terms(program, graph, graph.nodes() + index, field as u16, within);
                lists.extend(terms);
                let outputs = before(&self.output_ends, graph.nodes() + index).len();
                // The first calls come first, so that sums of successive parts are one chain.
                lists[start + outputs..].reverse();
                if lists.len() > start {
                    let rows = start as u32..lists.len() as u32;
                    let (index, field, outputs) = (index as u32, field as u16, outputs as u32);
                    given.push(GivenSum { given: index, field, rows, outputs });
                }
            }
        }
    }
}

/// Returns the values to whose gradients an adjoint call contributes, with the index of each among
/// the call's arguments.
fn contributions<'a>(
    adjoint: &'a Adjoint,
    graph: &'a Graph,
    node: NodeId,
) -> impl Iterator<Item = (Value, u32)> {
    let last = adjoint.contributions.len().saturating_sub(1);
    // All further values are at the last port, which takes any number of them.
    let values = graph.values(node).zip(0..);
    values.filter(move |&(_, argument)| adjoint.contributes((argument as usize).min(last)))
}

/// Returns the number of a value. Nodes are numbered first, then given values.
fn index_of(graph: &Graph, value: Value) -> usize {
    match value.source() {
        Source::Node(node) => node.index(),
        Source::Given(index) => graph.nodes() + index,
    }
}

/// Replaces counts by running sums: if the count of range i is at i + 1, its start is then at i.
fn running_sums(counts: &mut [u32]) {
    let mut sum = 0;
    for count in counts {
        sum += *count;
        *count = sum;
    }
}

/// Returns the range of entries at an index, where `ends` are the ends of all ranges.
fn before(ends: &[u32], index: usize) -> std::ops::Range<usize> {
    let start = if index == 0 { 0 } else { ends[index - 1] };
    start as usize..ends[index] as usize
}

#[cfg(test)]
mod tests;
