//! The rows of tables that a mini-batch names: the part of a plan that does not depend on its
//! topology alone.

use std::hint::select_unpredictable;

use edbatch_graph::Kind;

use crate::plan::{Action, Operand, Plan};
use crate::planner::{Capacity, MiniBatch};

/// For each cell that is divided by a table, the distinct rows that its calls name.
///
/// *Cost*: O(calls); a row is looked up in an array as long as its table, which is never cleared.
#[derive(Clone, Debug, Default)]
pub(crate) struct Distinct {
    kinds: Vec<OfKind>,
    /// The number of each call's row, in the order in which calls run.
    numbers: Vec<u32>,
    /// Which mini-batch this is.
    stamp: u32,
}

#[derive(Clone, Debug, Default)]
struct OfKind {
    /// The table port that divides its cell, if one does.
    port: Option<usize>,
    /// Elements of a row of that table.
    width: u32,
    /// By row of the table: the mini-batch that last named the row, and its number.
    seen: Vec<(u32, u32)>,
    /// Where each distinct row begins in the table.
    rows: Vec<u32>,
    /// Where its results begin.
    results: u32,
}

impl Distinct {
    /// Finds the distinct rows of a mini-batch.
    pub(crate) fn find(&mut self, &MiniBatch { program, graph, schedule, .. }: &MiniBatch<'_>) {
        self.stamp = self.stamp.checked_add(1).unwrap_or_else(|| {
            self.kinds.clear();
            1
        });
        self.kinds.resize_with(program.cells().len(), OfKind::default);
        for ((of_kind, plan), cell) in
            self.kinds.iter_mut().zip(program.cells()).zip(program.network().cells())
        {
            of_kind.rows.clear();
            of_kind.port = plan.hoisted.as_ref().and_then(|hoisted| hoisted.table());
            if let Some(port) = of_kind.port {
                let table = &cell.tables()[port];
                of_kind.width = program.table_width(table);
                of_kind.seen.resize(table.rows as usize, (0, 0));
            }
        }
        self.numbers.clear();
        for batch in schedule.batches() {
            let OfKind { port, width, seen, rows, .. } = &mut self.kinds[batch.kind.index()];
            let Some(port) = *port else { continue };
            let mut count = rows.len();
            rows.resize(count + batch.nodes.len(), 0);
            self.numbers.extend(batch.nodes.iter().map(|&node| {
                let row = graph.rows(node)[port];
                let (stamp, number) = seen[row as usize];
                // No branch, for any row may be new: what is not is overwritten by the next one.
                let is_new = stamp != self.stamp;
                let number = select_unpredictable(is_new, count as u32, number);
                rows[count] = row * *width;
                count += usize::from(is_new);
                seen[row as usize] = (self.stamp, number);
                number
            }));
            rows.truncate(count);
        }
    }

    /// For how many rows of its table a cell needs capacity, if it is divided by one.
    pub(crate) fn rows(&self, mini_batch: &MiniBatch<'_>, kind: Kind, capacity: Capacity) -> usize {
        let &MiniBatch { program, schedule, .. } = mini_batch;
        match (self.kinds[kind.index()].port, capacity) {
            (None, _) => 0,
            (Some(_), Capacity::Distinct) => self.count(kind),
            (Some(table), Capacity::Any) => {
                let batches = schedule.batches().filter(|batch| batch.kind == kind);
                let calls: usize = batches.map(|batch| batch.nodes.len()).sum();
                calls.min(program.network()[kind].tables()[table].rows as usize)
            }
        }
    }

    /// How many distinct rows the calls of a cell name, if it is divided by a table.
    pub(crate) fn count(&self, kind: Kind) -> usize {
        self.kinds[kind.index()].rows.len()
    }

    /// Whether a plan has capacity for these rows.
    pub(crate) fn has_capacity(&self, plan: &Plan) -> bool {
        plan.steps.iter().all(|step| match step.action {
            Action::Hoist { capacity } => self.count(step.cell) <= capacity as usize,
            Action::Call | Action::Body => true,
        })
    }

    /// Writes all lists of [`Plan::rows`], and for how many rows something is hoisted.
    pub(crate) fn write(
        &mut self,
        &MiniBatch { program, graph, schedule, .. }: &MiniBatch<'_>,
        plan: &mut Plan,
    ) {
        let Plan { steps, operands, rows, .. } = plan;
        let mut numbers = self.numbers.as_slice();
        let mut batches = schedule.batches();
        for step in steps {
            let of_kind = &mut self.kinds[step.cell.index()];
            if !step.is_batch() {
                let Some(port) = of_kind.port else { continue };
                let distinct = &of_kind.rows;
                step.calls = distinct.len() as u32;
                of_kind.results = step.out;
                let Operand::Table { start } = operands[step.operands as usize + port] else {
                    unreachable!("what is hoisted for a table reads a list of its rows")
                };
                rows[start as usize..][..distinct.len()].copy_from_slice(distinct);
                continue;
            }
            let batch = batches.next().expect("a batch for every call");
            let calls = batch.nodes.len();
            let tables = program.network()[batch.kind].tables();
            let operands = &operands[step.operands as usize..];
            for (port, (table, operand)) in tables.iter().zip(operands).enumerate() {
                // Others are not read, but by what was hoisted.
                let Operand::Table { start } = *operand else { continue };
                let width = program.table_width(table);
                let list = &mut rows[start as usize..][..calls];
                for (row, &node) in list.iter_mut().zip(batch.nodes) {
                    *row = graph.rows(node)[port] * width;
                }
            }
            if of_kind.port.is_none() {
                continue;
            }
            let hoisted = program.cell(batch.kind).hoisted.as_ref().expect("a table divides it");
            let ports = program.network()[batch.kind].ports().len();
            let Operand::Hoisted { start } = operands[tables.len() + ports] else {
                unreachable!("the body of a cell reads rows of its prologue's results")
            };
            let (own, rest) = numbers.split_at(calls);
            numbers = rest;
            let (out, stride) = (of_kind.results, hoisted.prologue.output_stride);
            for (row, &number) in rows[start as usize..].iter_mut().zip(own) {
                *row = out + number * stride;
            }
        }
    }
}
