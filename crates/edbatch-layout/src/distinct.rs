//! The rows of tables that a mini-batch names: the part of a plan that does not depend on its
//! topology alone.

use edbatch_graph::Kind;

use crate::plan::{Action, Operand, Plan};
use crate::planner::MiniBatch;

/// For each cell that is divided by a table, the distinct rows that its calls name.
///
/// *Cost*: O(calls); a row is looked up in an array as long as its table, which is never cleared.
#[derive(Clone, Debug, Default)]
pub(crate) struct Distinct {
    /// By kind and row of the table: the mini-batch that last named the row, and its number.
    seen: Vec<Vec<(u32, u32)>>,
    /// By kind: where each distinct row begins in its table.
    rows: Vec<Vec<u32>>,
    /// The number of each call's row, in the order in which calls run.
    numbers: Vec<u32>,
    /// By kind: where its results begin.
    results: Vec<u32>,
    /// Which mini-batch this is.
    stamp: u32,
}

impl Distinct {
    /// Finds the distinct rows of a mini-batch.
    pub(crate) fn find(&mut self, &MiniBatch { program, graph, schedule, .. }: &MiniBatch<'_>) {
        self.stamp = self.stamp.checked_add(1).unwrap_or_else(|| {
            self.seen.clear();
            1
        });
        self.seen.resize_with(program.cells().len(), Vec::new);
        self.rows.resize_with(program.cells().len(), Vec::new);
        self.rows.iter_mut().for_each(Vec::clear);
        self.numbers.clear();
        for batch in schedule.batches() {
            let hoisted = program.cell(batch.kind).hoisted.as_ref();
            let Some(port) = hoisted.and_then(|hoisted| hoisted.table()) else { continue };
            let table = &program.network()[batch.kind].tables()[port];
            let width = program.table_width(table);
            let (seen, rows) =
                (&mut self.seen[batch.kind.index()], &mut self.rows[batch.kind.index()]);
            seen.resize(table.rows as usize, (0, 0));
            for &node in batch.nodes {
                let row = graph.rows(node)[port];
                let (stamp, number) = &mut seen[row as usize];
                if *stamp != self.stamp {
                    (*stamp, *number) = (self.stamp, rows.len() as u32);
                    rows.push(row * width);
                }
                self.numbers.push(*number);
            }
        }
    }

    /// How many distinct rows the calls of a cell name, if it is divided by a table.
    pub(crate) fn count(&self, kind: Kind) -> usize {
        self.rows[kind.index()].len()
    }

    /// Whether what is hoisted in a plan has room for these rows.
    pub(crate) fn fit(&self, plan: &Plan) -> bool {
        plan.steps.iter().all(|step| match step.action {
            Action::Hoist { room } => self.count(step.cell) <= room as usize,
            Action::Call | Action::Rest => true,
        })
    }

    /// Writes all lists of [`Plan::rows`], and for how many rows something is hoisted.
    pub(crate) fn write(
        &mut self,
        &MiniBatch { program, graph, schedule, .. }: &MiniBatch<'_>,
        plan: &mut Plan,
    ) {
        let Plan { steps, operands, rows, .. } = plan;
        let results = &mut self.results;
        results.clear();
        results.resize(program.cells().len(), 0);
        let mut numbers = self.numbers.as_slice();
        let mut batches = schedule.batches();
        for step in steps {
            let hoisted = program.cell(step.cell).hoisted.as_ref();
            let table = hoisted.and_then(|hoisted| hoisted.table());
            if !step.is_batch() {
                let Some(table) = table else { continue };
                let distinct = &self.rows[step.cell.index()];
                step.calls = distinct.len() as u32;
                results[step.cell.index()] = step.out;
                let Operand::Table { start } = operands[step.operands as usize + table] else {
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
            let Some(hoisted) = hoisted.filter(|_| table.is_some()) else { continue };
            let ports = program.network()[batch.kind].ports().len();
            let Operand::Hoisted { start } = operands[tables.len() + ports] else {
                unreachable!("the rest of a cell reads rows of what was hoisted")
            };
            let (own, rest) = numbers.split_at(calls);
            numbers = rest;
            let (out, stride) = (results[batch.kind.index()], hoisted.ahead.output_stride);
            for (row, &number) in rows[start as usize..].iter_mut().zip(own) {
                *row = out + number * stride;
            }
        }
    }
}
