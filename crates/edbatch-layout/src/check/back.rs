//! Checks the backward pass of a training plan, and the rows from which gradients are summed.

use std::ops::Range;

use edbatch_graph::{Adjoint, Batch, Dag, Kind, NodeId, PairAdjoint, RecordId, Source, Value};

use super::arena::Owner;
use super::{Checked, PlanError, Reading, Replay, replay};
use crate::plan::{Action, Operand, Plan, Step};
use crate::planner::MiniBatch;
use crate::training_plan::TrainingPlan;

/// Proves that a training plan computes the graph of a mini-batch and its gradients:
///
/// - `forward` is legal ([`check`](super::check));
/// - `back` has a step for each batch that the loss depends on, in reverse order: the adjoint cell,
///   for the same calls; then its pair cell, if it has one, for each value at the calls' last port;
/// - the operands of these steps hold what the calls read and wrote, in full, and each gradient
///   sums the output gradients of the value and the contributions of its readers: each reader that
///   the loss depends on, once, last calls first;
/// - the rows of all adjoint calls are whole at the end, and the lists of sums name each of them
///   once, in the order of the calls.
///
/// `has_gradient` tells for each wanted value whether the loss depends on it directly.
///
/// *Cost*: O(arena + edges × cache lines of a row).
///
/// # Errors
/// The first violation. Steps of the backward pass are numbered after all forward steps.
///
/// # Panics
/// If the program is not for training, or `has_gradient` has another length than the wanted values.
pub fn check_training(
    plan: &TrainingPlan,
    mini_batch: &MiniBatch<'_>,
    has_gradient: &[bool],
) -> Result<(), PlanError> {
    assert_eq!(mini_batch.wanted.len(), has_gradient.len(), "a flag for each wanted value");
    let arena = replay(&plan.forward, mini_batch)?.arena;
    let first = plan.forward.steps.len();
    let at = |step: usize| move |what: String| PlanError { step: first + step, what };
    let end = plan.back.steps.len();
    let terms = Terms::new(mini_batch, has_gradient);
    let replay = Replay::on(arena, &plan.back, mini_batch);
    let mut back = Back { replay, terms, plan };
    back.given(has_gradient).map_err(at(0))?;
    let batches: Vec<Batch<'_>> = mini_batch.schedule.batches().collect();
    let returns = batches
        .iter()
        .rev()
        .filter(|batch| batch.nodes.iter().any(|node| back.terms.live[node.index()]));
    let pair = |kind| mini_batch.program.adjoint(kind).and_then(|adjoint| adjoint.pair.as_ref());
    let returns: Vec<(&Batch<'_>, Option<&PairAdjoint>)> = returns
        .flat_map(|batch| [Some((batch, None)), pair(batch.kind).map(|pair| (batch, Some(pair)))])
        .flatten()
        .collect();
    if returns.len() != end {
        let expected = returns.len();
        return Err(at(end)(format!("{end} steps back, expected {expected}")));
    }
    for (index, (step, (batch, pair))) in plan.back.steps.iter().zip(returns).enumerate() {
        match pair {
            None => back.step(step, batch),
            Some(pair) => back.pairs(step, batch, pair),
        }
        .map_err(at(index))?;
    }
    back.end().map_err(at(end))
}

/// A term of a value's gradient: an output gradient, by its number, or the contribution of a call,
/// with the index of the value among the call's arguments.
#[derive(Clone, Copy)]
enum Term {
    Output(usize),
    Call(NodeId, u32),
}

/// The terms of all gradients, as the graph declares them.
struct Terms {
    nodes: Vec<Vec<Term>>,
    given: Vec<Vec<Term>>,
    /// By node: true if the loss depends on it and it has an adjoint.
    live: Vec<bool>,
}

impl Terms {
    fn new(
        &MiniBatch { program, graph, wanted, .. }: &MiniBatch<'_>,
        has_gradient: &[bool],
    ) -> Self {
        let (nodes, given) =
            (vec![Vec::new(); graph.nodes()], vec![Vec::new(); graph.given().len()]);
        let mut terms = Self { nodes, given, live: vec![false; graph.nodes()] };
        let outputs = wanted.iter().zip(has_gradient).filter(|(_, has_gradient)| **has_gradient);
        for (number, ((value, _), _)) in outputs.enumerate() {
            terms.of(*value).push(Term::Output(number));
        }
        // From last to first: all readers of a node come before it, so its terms are complete.
        for node in (0..graph.nodes()).rev().map(NodeId::new) {
            let Some(adjoint) = program.adjoint(graph.kind(node)) else { continue };
            if terms.nodes[node.index()].is_empty() {
                continue;
            }
            terms.live[node.index()] = true;
            for (argument, value) in (0..).zip(graph.values(node)) {
                if adjoint.contributes((argument as usize).min(adjoint.contributions.len() - 1)) {
                    terms.of(value).push(Term::Call(node, argument));
                }
            }
        }
        terms
    }

    fn of(&mut self, value: Value) -> &mut Vec<Term> {
        match value.source() {
            Source::Node(node) => &mut self.nodes[node.index()],
            Source::Given(index) => &mut self.given[index],
        }
    }
}

struct Back<'a> {
    replay: Replay<'a>,
    terms: Terms,
    plan: &'a TrainingPlan,
}

impl Back<'_> {
    /// Checks that each output gradient has a row of its own.
    fn given(&mut self, has_gradient: &[bool]) -> Checked {
        let TrainingPlan { forward, back, gradient_of, .. } = self.plan;
        let MiniBatch { program, graph, wanted, .. } = *self.replay.mini_batch;
        if forward.arena != back.arena || !back.wanted.is_empty() {
            return Err(
                "expected one arena for both ways, and no wanted values of the way back".into()
            );
        }
        let mut rows = back.given.iter();
        let mut number = 0;
        let mut expected = Vec::new();
        for (&(value, _), &has_gradient) in wanted.iter().zip(has_gradient) {
            expected.push(has_gradient.then_some(number));
            if !has_gradient {
                continue;
            }
            let row = rows.next().ok_or("too few rows of output gradients")?;
            if Some(row.record) != graph.record_of(value) {
                return Err(format!("output gradient {number}: got {:?}", row.record));
            }
            let stride = program.record(row.record).stride;
            self.replay.arena.rows(row.start, stride, 1)?;
            self.replay.arena.write(row.start, stride, Owner::Output(number as usize));
            number += 1;
        }
        if rows.next().is_some() || *gradient_of != expected {
            return Err("expected a row for each output gradient, and its number".into());
        }
        Ok(())
    }

    /// Checks the operands of an adjoint step, and records its results in the map of the arena.
    fn step(&mut self, step: &Step, batch: &Batch<'_>) -> Checked {
        let program = self.replay.mini_batch.program;
        let (kind, nodes) = (batch.kind, batch.nodes);
        let adjoint = program.adjoint(kind).expect("a live node has an adjoint");
        let is_call = step.action == Action::Call && step.cell == adjoint.cell;
        if !is_call || step.calls as usize != nodes.len() {
            let Step { cell, calls, .. } = step;
            let (expected, of) = (nodes.len(), adjoint.cell);
            return Err(format!("{calls} calls of {cell}, expected {expected} of {of}"));
        }
        let (cell, signature) = (&program.network()[kind], program.signature(step.cell));
        let (tables, ports) = (cell.tables().len(), cell.ports().len());
        let fields = program.record(cell.record()).offsets.len();
        let operands = self.replay.operands_of(step, tables + ports + 1 + fields)?;
        let written = self.replay.arena.rows(step.out, signature.stride, step.calls)?;
        let reading = Reading { batch: *batch, written };
        for (table, &operand) in operands[..tables].iter().enumerate() {
            match (signature.tables[table], operand) {
                (true, Operand::Table { .. }) => self.replay.table(&reading, table, operand)?,
                (false, Operand::Unread) => {}
                (_, got) => return Err(format!("table {table}: got {got:?}")),
            }
        }
        for (port, &operand) in operands[tables..][..ports].iter().enumerate() {
            if signature.reads[port] {
                self.replay.port(&reading, port, operand)?;
            } else if operand != Operand::Unread {
                return Err(format!("port {port} is not read, got {operand:?}"));
            }
        }
        let own = match operands[tables + ports] {
            Operand::Span { first, stride } => {
                self.replay.span(reading.written.start, first, stride, nodes.len())?
            }
            other => return Err(format!("expected the calls' rows as a span, got {other:?}")),
        };
        let stride = program.signature(kind).stride;
        for (row, &node) in own.into_iter().zip(nodes) {
            self.replay.row(row, stride, Owner::Value(Source::Node(node)), &reading.written)?;
        }
        for (field, &operand) in operands[tables + ports + 1..].iter().enumerate() {
            let Operand::Many { ends, rows } = operand else {
                return Err(format!("expected many gradients of field {field}, got {operand:?}"));
            };
            let (ends, mut begin) = (self.replay.list(ends, nodes.len())?, 0);
            for (&end, &node) in ends.iter().zip(nodes) {
                let count = end.checked_sub(begin).ok_or("ends that descend")?;
                let start = rows.checked_add(begin).ok_or("a list beyond the plan's lists")?;
                let listed = self.replay.list(start, count as usize)?;
                let record = cell.record();
                let terms = &self.terms.nodes[node.index()];
                self.sum(terms, record, field, listed, &reading.written)?;
                begin = end;
            }
        }
        for (row, &node) in (step.out..).step_by(signature.stride as usize).zip(nodes) {
            self.replay.arena.write(row, signature.stride, Owner::Adjoint(node));
        }
        Ok(())
    }

    /// Checks the operands of a step of a pair cell, and records its results.
    fn pairs(&mut self, step: &Step, batch: &Batch<'_>, pair: &PairAdjoint) -> Checked {
        let MiniBatch { program, graph, .. } = *self.replay.mini_batch;
        let last = program.network()[batch.kind].ports().len() - 1;
        let of_node = |&node: &NodeId| {
            let arguments = (0..).zip(graph.values(node)).skip(last);
            arguments.map(move |(argument, value)| (node, argument, value))
        };
        let expected: Vec<(NodeId, u32, Value)> = batch.nodes.iter().flat_map(of_node).collect();
        let is_call = step.action == Action::Call && step.cell == pair.cell;
        if !is_call || step.calls as usize != expected.len() {
            let (Step { cell, calls, .. }, of) = (step, pair.cell);
            let expected = expected.len();
            return Err(format!("{calls} calls of {cell}, expected {expected} of {of}"));
        }
        let operands = self.replay.operands_of(step, 2)?;
        let signature = program.signature(pair.cell);
        let written = self.replay.arena.rows(step.out, signature.stride, step.calls)?;
        for (port, &operand) in operands.iter().enumerate() {
            let rows = match operand {
                Operand::Unread if !signature.reads[port] => continue,
                Operand::Span { first, stride } => {
                    self.replay.span(written.start, first, stride, expected.len())?
                }
                Operand::List { start } => self.replay.list(start, expected.len())?.to_vec(),
                got => return Err(format!("port {port} of a pair cell: got {got:?}")),
            };
            let record = program.network()[pair.cell].ports()[port].record;
            let stride = program.record(record).stride;
            for (row, &(node, _, value)) in rows.into_iter().zip(&expected) {
                let owner =
                    if port == 0 { Owner::Value(value.source()) } else { Owner::Adjoint(node) };
                self.replay.row(row, stride, owner, &written)?;
            }
        }
        let rows = (step.out..).step_by(signature.stride as usize);
        for (row, (node, argument, _)) in rows.zip(expected) {
            self.replay.arena.write(row, signature.stride, Owner::Pair(node, argument));
        }
        Ok(())
    }

    /// Returns the contribution of a call to the gradient of a field of one of its arguments: the
    /// owner of the row that holds it, and the cell and the field of that row's record.
    fn contributed(&self, node: NodeId, argument: u32, field: usize) -> Option<(Owner, Kind, u16)> {
        let MiniBatch { program, graph, .. } = *self.replay.mini_batch;
        let adjoint = program.adjoint(graph.kind(node)).expect("it contributes");
        let last = adjoint.contributions.len() - 1;
        let pair = adjoint.pair.as_ref().filter(|_| argument as usize >= last);
        if let Some((cell, of)) = pair.and_then(|p| Some((p.cell, p.contributions[field]?))) {
            return Some((Owner::Pair(node, argument), cell, of));
        }
        let of = adjoint.contributions[last.min(argument as usize)][field]?;
        Some((Owner::Adjoint(node), adjoint.cell, of))
    }

    /// Checks that a list has the places of all terms of a gradient, in order.
    fn sum<'t>(
        &self,
        terms: impl IntoIterator<Item = &'t Term>,
        record: RecordId,
        field: usize,
        listed: &[u32],
        written: &Range<u64>,
    ) -> Checked {
        let program = self.replay.mini_batch.program;
        let mut listed = listed.iter();
        for &term in terms {
            let (owner, layout, within) = match term {
                Term::Output(number) => {
                    let layout = program.record(record);
                    (Owner::Output(number), layout, layout.offsets[field])
                }
                Term::Call(node, argument) => {
                    let Some((owner, cell, of)) = self.contributed(node, argument, field) else {
                        continue;
                    };
                    let layout = program.record(program.network()[cell].record());
                    (owner, layout, layout.offsets[usize::from(of)])
                }
            };
            let at =
                listed.next().ok_or_else(|| format!("a gradient without its term of {owner}"))?;
            let row = at.checked_sub(within).ok_or("a term before its row")?;
            self.replay.row(row, layout.stride, owner, written)?;
        }
        match listed.next() {
            Some(at) => Err(format!("a gradient with a term at {at}, which no call contributes")),
            None => Ok(()),
        }
    }

    /// Checks the rows from which gradients of parameters and of given values are summed.
    fn end(&self) -> Checked {
        let MiniBatch { program, graph, .. } = *self.replay.mini_batch;
        let Plan { operands, .. } = &self.plan.back;
        if operands.len() != self.replay.operands {
            return Err(format!(
                "{} operands, but the steps use {}",
                operands.len(),
                self.replay.operands
            ));
        }
        let (mut calls, mut end, mut named) = (self.plan.calls.iter(), 0, 0);
        let live = |node: &NodeId| self.terms.live[node.index()];
        for kind in (0..program.network().cells().len()).map(Kind::new) {
            let nodes = (0..graph.nodes()).map(NodeId::new);
            let nodes: Vec<NodeId> =
                nodes.filter(|node| live(node) && graph.kind(*node) == kind).collect();
            if nodes.is_empty() {
                continue;
            }
            let sums = calls.next().ok_or_else(|| format!("{kind} is not summed"))?;
            let expected = (kind, end..end + nodes.len() as u32, named);
            if (sums.cell, sums.rows.clone(), sums.named) != expected {
                return Err(format!("sums {sums:?}, expected {expected:?}"));
            }
            end = sums.rows.end;
            let adjoint: &Adjoint = program.adjoint(kind).expect("a live node has an adjoint");
            let stride = program.signature(adjoint.cell).stride;
            let rows = self.plan.lists.get(sums.rows.start as usize..end as usize);
            for (&row, &node) in rows.ok_or("sums beyond the plan's lists")?.iter().zip(&nodes) {
                self.replay.row(row, stride, Owner::Adjoint(node), &(0..0))?;
                let rows = graph.rows(node);
                let of_call = self.plan.named.get(named as usize..named as usize + rows.len());
                if of_call != Some(rows) {
                    return Err(format!("{node} names rows {of_call:?}, expected {rows:?}"));
                }
                named += rows.len() as u32;
            }
        }
        let mut given = self.plan.given.iter();
        for (index, &record) in graph.given().iter().enumerate() {
            for field in 0..program.record(record).offsets.len() {
                let terms = &self.terms.given[index];
                let is_term = |term: &&Term| match **term {
                    Term::Output(_) => true,
                    Term::Call(node, argument) => self.contributed(node, argument, field).is_some(),
                };
                if !terms.iter().any(|term| is_term(&term)) {
                    continue;
                }
                let sum =
                    given.next().ok_or_else(|| format!("given value {index} is not summed"))?;
                let is_output = |term: &&Term| matches!(term, Term::Output(_));
                let outputs = terms.iter().filter(is_output).count();
                let what = (sum.given as usize, usize::from(sum.field), sum.rows.start);
                if what != (index, field, end) || sum.outputs as usize != outputs {
                    return Err(format!(
                        "sums {sum:?}, expected given value {index}, field {field}"
                    ));
                }
                let listed = self.plan.lists.get(end as usize..sum.rows.end as usize);
                let listed = listed.ok_or("sums beyond the plan's lists")?;
                // Calls are summed first to last.
                let (of_outputs, calls) = terms.split_at(outputs);
                let terms = of_outputs.iter().chain(calls.iter().rev());
                self.sum(terms, record, field, listed, &(0..0))?;
                end = sum.rows.end;
            }
        }
        let used = (end as usize, named as usize);
        let all = (self.plan.lists.len(), self.plan.named.len());
        if calls.next().is_some() || given.next().is_some() || used != all {
            return Err(format!("sums of {used:?} numbers, but there are {all:?}"));
        }
        Ok(())
    }
}
