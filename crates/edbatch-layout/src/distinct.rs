//! The rows of tables that a mini-batch names: the part of a plan that does not depend on its
//! topology alone.

use std::hint::select_unpredictable;

use edbatch_graph::{Batch, Kind};

use crate::cell_plan::Base;
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
        for (kind, cell) in program.network().cells().iter().enumerate() {
            let of_kind = &mut self.kinds[kind];
            of_kind.rows.clear();
            of_kind.port = match program.signature(Kind::new(kind)).hoisted {
                Some((Base::Table(port), _)) => Some(usize::from(port)),
                _ => None,
            };
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
    pub(crate) fn write(&mut self, mini_batch: &MiniBatch<'_>, plan: &mut Plan) {
        let &MiniBatch { program, graph, schedule, .. } = mini_batch;
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
            let operands = &operands[step.operands as usize..];
            table_rows(mini_batch, batch, operands, rows);
            if step.action != Action::Body {
                continue;
            }
            // Behind the ports, the rows of what the prologue made.
            let cell = &program.network()[batch.kind];
            match operands[cell.tables().len() + cell.ports().len()] {
                Operand::Folded { start } => {
                    let folded = program.folded(batch.kind).expect("it reads a folded table");
                    for (row, &node) in rows[start as usize..].iter_mut().zip(batch.nodes) {
                        *row = folded.start + graph.rows(node)[folded.port] * folded.stride;
                    }
                }
                Operand::Hoisted { start } => {
                    let hoisted = program.signature(batch.kind).hoisted;
                    let (_, stride) = hoisted.expect("a table divides it");
                    let (own, rest) = numbers.split_at(batch.nodes.len());
                    numbers = rest;
                    for (row, &number) in rows[start as usize..].iter_mut().zip(own) {
                        *row = of_kind.results + number * stride;
                    }
                }
                // A prologue of values leaves its rows where the topology says.
                _ => {}
            }
        }
    }
}

/// Writes the rows of tables that the calls of a batch read; others are not read, but by a
/// prologue.
fn table_rows(
    &MiniBatch { program, graph, .. }: &MiniBatch<'_>,
    batch: Batch<'_>,
    operands: &[Operand],
    rows: &mut [u32],
) {
    let tables = program.network()[batch.kind].tables();
    for (port, (table, operand)) in tables.iter().zip(operands).enumerate() {
        let Operand::Table { start } = *operand else { continue };
        let width = program.table_width(table);
        for (row, &node) in rows[start as usize..].iter_mut().zip(batch.nodes) {
            *row = graph.rows(node)[port] * width;
        }
    }
}
