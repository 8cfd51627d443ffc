//! What is hoisted in a mini-batch: for the distinct rows of a table, or for several batches at once.

use edbatch_graph::{Batch, Kind, NodeId, Source};

use super::{ArenaTooLarge, MiniBatch, Planner, Room, Span, listed};
use crate::cell_plan::{Base, CellPlan};
use crate::plan::{Action, Operand, Plan, Step};
use crate::program::Program;

/// A batch's part of results that were hoisted for several.
#[derive(Clone, Copy, Debug)]
pub(super) struct Joined {
    /// In [`Planner::spans`].
    span: usize,
    /// The row of the batch's first call.
    first: u32,
}

/// Batches of fewer calls are joined to hoist something for them...
const FEW_CALLS: usize = 16;

/// ...until they have so many together.
const ENOUGH_CALLS: usize = 64;

impl Planner {
    /// For how many rows of its table a divided cell gets room.
    fn room(&self, mini_batch: &MiniBatch<'_>, kind: Kind, room: Room) -> usize {
        let &MiniBatch { program, schedule, .. } = mini_batch;
        let hoisted = program.cell(kind).hoisted.as_ref();
        match (hoisted.and_then(|hoisted| hoisted.table()), room) {
            (None, _) => 0,
            (Some(_), Room::Distinct) => self.distinct.count(kind),
            (Some(table), Room::Any) => {
                let batches = schedule.batches().filter(|batch| batch.kind == kind);
                let calls: usize = batches.map(|batch| batch.nodes.len()).sum();
                calls.min(program.network()[kind].tables()[table].rows as usize)
            }
        }
    }

    /// Makes a span for what is hoisted for the tables of divided cells.
    pub(super) fn divide(&mut self, mini_batch: &MiniBatch<'_>, room: Room) {
        let &MiniBatch { program, schedule, .. } = mini_batch;
        self.hoists.clear();
        for (kind, cell) in program.cells().iter().enumerate() {
            let room = self.room(mini_batch, Kind::new(kind), room);
            self.hoists.push((room > 0).then_some((self.spans.len(), room)));
            if let (Some(hoisted), 1..) = (&cell.hoisted, room) {
                let len = u64::from(hoisted.prologue.output_stride) * room as u64;
                let mut batches = (0..schedule.len()).rev();
                let last = batches.find(|&index| schedule.batch(index).kind.index() == kind);
                let last = last.expect("a batch of a cell that names rows") as u32;
                self.spans.push(Span::new(len, last));
            }
        }
    }

    /// Joins batches of few calls for which the same part of their cell can be computed at once: those of
    /// a kind, from one on, whose values all lie in batches before that one.
    pub(super) fn join(&mut self, mini_batch: &MiniBatch<'_>) {
        let &MiniBatch { program, graph, schedule, .. } = mini_batch;
        self.joined.clear();
        self.joined.resize(schedule.len(), None);
        self.ports.clear();
        let port = |cell: &CellPlan| cell.hoisted.as_ref().and_then(|hoisted| hoisted.port());
        self.ports.extend(program.cells().iter().map(port));
        if self.ports.iter().all(Option::is_none) {
            return;
        }
        self.next.clear();
        self.next.resize(schedule.len(), None);
        self.first.clear();
        self.first.resize(program.cells().len(), None);
        for index in (0..schedule.len()).rev() {
            let kind = schedule.batch(index).kind.index();
            self.next[index] = self.first[kind].replace(index as u32);
        }
        for index in 0..schedule.len() {
            let batch = schedule.batch(index);
            let Some(port) = self.ports[batch.kind.index()] else { continue };
            if self.joined[index].is_some() || batch.nodes.len() >= FEW_CALLS {
                continue;
            }
            let is_there = |&node: &NodeId| match graph.value(node, port).source() {
                Source::Node(argument) => self.batch_of[argument.index()] < index as u32,
                Source::Given(_) => true,
            };
            let joins = |nodes: &[NodeId]| nodes.len() < FEW_CALLS && nodes.iter().all(is_there);
            let (mut calls, mut last) = (batch.nodes.len(), index);
            while let Some(next) = self.next[last].map(|next| next as usize)
                && calls < ENOUGH_CALLS
                && joins(schedule.batch(next).nodes)
            {
                (calls, last) = (calls + schedule.batch(next).nodes.len(), next);
            }
            if last == index {
                // Later ones of the kind would hardly find any.
                self.ports[batch.kind.index()] = None;
                continue;
            }
            let hoisted = program.cell(batch.kind).hoisted.as_ref().expect("it has a port");
            let len = u64::from(hoisted.prologue.output_stride) * calls as u64;
            let (mut at, mut first) = (index, 0);
            loop {
                self.joined[at] = Some(Joined { span: self.spans.len(), first });
                if at == last {
                    break;
                }
                first += schedule.batch(at).nodes.len() as u32;
                at = self.next[at].expect("not the last yet") as usize;
            }
            self.spans.push(Span::new(len, last as u32));
        }
    }

    /// Plans what is hoisted for a batch, unless an earlier one had it done.
    pub(super) fn hoist(
        &mut self,
        mini_batch: &MiniBatch<'_>,
        index: usize,
        plan: &mut Plan,
        rows: &mut u32,
    ) -> Result<(), ArenaTooLarge> {
        let &MiniBatch { program, graph, schedule, .. } = mini_batch;
        let cell = schedule.batch(index).kind;
        let for_table = self.hoists[cell.index()];
        let Some(span) = for_table.map(|(span, _)| span).or(self.joined[index].map(|j| j.span))
        else {
            return Ok(());
        };
        if self.spans[span].start != Span::NOWHERE {
            return Ok(());
        }
        let out = self.take(span)?;
        let hoisted = program.cell(cell).hoisted.as_ref().expect("a divided cell");
        let (operand, room) = match (for_table, hoisted.port()) {
            (Some((_, room)), _) => {
                let start = *rows;
                *rows += room as u32;
                (Operand::Table { start }, room as u32)
            }
            (None, port) => {
                let port = port.expect("a cell is divided by a table or by a port");
                let start = plan.lists.len();
                let mut batch = Some(index as u32);
                while let Some(at) = batch.map(|at| at as usize)
                    && self.joined[at].is_some_and(|joined| joined.span == span)
                {
                    let nodes = schedule.batch(at).nodes.iter();
                    let row = |&node| self.row(graph.value(node, port), &plan.given);
                    plan.lists.extend(nodes.map(row));
                    batch = self.next[at];
                }
                let calls = (plan.lists.len() - start) as u32;
                let stride = program.record(program.network()[cell].ports()[port].record).stride;
                (listed(&mut plan.lists, start, stride, out), calls)
            }
        };
        let declared = &program.network()[cell];
        let operands = plan.operands.len() as u32;
        let bases = (0..declared.tables().len()).map(|table| Base::Table(table as u16));
        let bases = bases.chain((0..declared.ports().len()).map(|port| Base::Port(port as u16)));
        let of_base = |base| if base == hoisted.from { operand } else { Operand::Unread };
        plan.operands.extend(bases.map(of_base));
        let action = Action::Hoist { room };
        plan.steps.push(Step { cell, action, calls: room, out, operands });
        Ok(())
    }

    /// Where a batch finds its rows of what was hoisted, if anything was: another operand, and what is
    /// left to do.
    pub(super) fn hoisted_rows(
        &self,
        program: &Program,
        index: usize,
        batch: Batch<'_>,
        plan: &mut Plan,
        rows: &mut u32,
    ) -> Action {
        let Some(hoisted) = &program.cell(batch.kind).hoisted else { return Action::Call };
        plan.operands.push(match self.joined[index] {
            Some(Joined { span, first }) => {
                let stride = hoisted.prologue.output_stride;
                let first = self.spans[span].start as u32 + first * stride;
                Operand::Span { first, stride }
            }
            None if hoisted.table().is_some() => {
                let start = *rows;
                *rows += batch.nodes.len() as u32;
                Operand::Hoisted { start }
            }
            None => return Action::Call,
        });
        Action::Body
    }
}
