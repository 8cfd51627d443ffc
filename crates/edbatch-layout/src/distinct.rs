//! The distinct table rows that a mini-batch reads, and the lists of offsets in [`Plan::rows`].

use std::hint::select_unpredictable;
use std::ops::Range;

use edbatch_graph::{Batch, Kind, Row};

use crate::cell_plan::Base;
use crate::plan::{Action, Operand, Plan};
use crate::planner::MiniBatch;

/// For each cell with a prologue that depends only on a table row: the distinct rows that the calls
/// of a mini-batch read.
///
/// *Cost*: O(calls). An array with an entry per table row finds duplicates. It is not cleared
/// between mini-batches; each entry stores the number of the mini-batch that wrote it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Distinct {
    /// Indexed by kind.
    tables: Vec<TableRows>,
    /// For each call of a cell whose prologue reads a table row, in the order in which calls run:
    /// the index of that row among the distinct rows.
    numbers: Vec<u32>,
    /// By batch: the number of distinct rows that it and the earlier batches of its kind name.
    named: Vec<u32>,
    /// The number of the current mini-batch.
    stamp: u32,
}

/// The distinct rows of one cell's table.
#[derive(Clone, Debug, Default)]
struct TableRows {
    /// The table port that the prologue reads, if the cell has such a prologue.
    port: Option<usize>,
    /// The number of elements of a table row.
    width: u32,
    /// By table row: the last mini-batch that read it, and its index among that mini-batch's rows.
    seen: Vec<(u32, u32)>,
    /// The offset of each distinct row in the table.
    rows: Vec<u32>,
    /// The offset of the prologue's results in the arena.
    results: u32,
    /// The number of rows that the steps planned so far, or written so far, hoist.
    hoisted: u32,
}

impl Distinct {
    /// Finds the distinct rows of a mini-batch.
    pub(crate) fn find(&mut self, &MiniBatch { program, graph, schedule, .. }: &MiniBatch<'_>) {
        self.stamp = self.stamp.checked_add(1).unwrap_or_else(|| {
            self.tables.clear();
            1
        });
        self.tables.resize_with(program.cells().len(), TableRows::default);
        for (kind, cell) in program.network().cells().iter().enumerate() {
            let table_rows = &mut self.tables[kind];
            table_rows.rows.clear();
            table_rows.hoisted = 0;
            table_rows.port = match program.signature(Kind::new(kind)).hoisted {
                Some((Base::Table(port), _)) => Some(usize::from(port)),
                _ => None,
            };
            if let Some(port) = table_rows.port {
                let table = &cell.tables()[port];
                table_rows.width = program.table_width(table);
                table_rows.seen.resize(table.rows as usize, (0, 0));
            }
        }
        self.numbers.clear();
        self.named.clear();
        self.named.resize(schedule.len(), 0);
        for (batch, named) in schedule.batches().zip(&mut self.named) {
            let TableRows { port, width, seen, rows, .. } = &mut self.tables[batch.kind.index()];
            let mut count = rows.len();
            let own = port.filter(|&port| !graph.look_up(batch.nodes, port));
            let Some(port) = own else { continue };
            rows.resize(count + batch.nodes.len(), 0);
            self.numbers.extend(batch.nodes.iter().map(|&node| {
                let row = graph.rows(node)[port];
                let (stamp, number) = seen[row as usize];
                // Branch-free, because new rows are unpredictable: every row is written, and the
                // next row overwrites a repeated one.
                let is_new = stamp != self.stamp;
                let number = select_unpredictable(is_new, count as u32, number);
                rows[count] = row * *width;
                count += usize::from(is_new);
                seen[row as usize] = (self.stamp, number);
                number
            }));
            rows.truncate(count);
            *named = count as u32;
        }
    }

    /// Returns the number of distinct rows that the calls of a cell read.
    pub(crate) fn count(&self, kind: Kind) -> usize {
        self.tables[kind.index()].rows.len()
    }

    /// Returns the blocks of at most `size` distinct rows that must be hoisted before a batch of
    /// this cell: those with a row that the batch names, unless an earlier call returned them.
    pub(crate) fn blocks(
        &mut self,
        kind: Kind,
        batch: usize,
        size: u32,
    ) -> impl Iterator<Item = Range<u32>> + use<> {
        let TableRows { rows, hoisted, .. } = &mut self.tables[kind.index()];
        let (first, all) = (*hoisted, rows.len() as u32);
        while *hoisted < self.named[batch] {
            *hoisted = all.min(hoisted.saturating_add(size));
        }
        let starts = (first..*hoisted).step_by(size as usize);
        starts.map(move |start| start..all.min(start.saturating_add(size)))
    }

    /// Writes all lists of [`Plan::rows`].
    pub(crate) fn write(&mut self, mini_batch: &MiniBatch<'_>, plan: &mut Plan) {
        let &MiniBatch { program, graph, schedule, .. } = mini_batch;
        let Plan { steps, operands, rows, .. } = plan;
        let mut numbers = self.numbers.as_slice();
        let mut batches = schedule.batches().peekable();
        self.tables.iter_mut().for_each(|table| table.hoisted = 0);
        for step in steps {
            let hoisted = &mut self.tables[step.cell.index()];
            if !step.is_batch() {
                let Some(port) = hoisted.port else { continue };
                let next = *batches.peek().expect("a prologue precedes a batch");
                if graph.look_up(next.nodes, port) {
                    // The prologue runs for this batch alone, and for each call.
                    table_rows(mini_batch, next, &operands[step.operands as usize..], rows);
                    continue;
                }
                let first = hoisted.hoisted as usize;
                let block = &hoisted.rows[first..first + step.calls as usize];
                if first == 0 {
                    hoisted.results = step.out;
                }
                hoisted.hoisted += step.calls;
                let Operand::Table { start } = operands[step.operands as usize + port] else {
                    unreachable!("the prologue of a table reads a list of its rows")
                };
                rows[start as usize..][..block.len()].copy_from_slice(block);
                continue;
            }
            let batch = batches.next().expect("a batch for each batch step");
            let operands = &operands[step.operands as usize..];
            table_rows(mini_batch, batch, operands, rows);
            if step.action != Action::Body {
                continue;
            }
            // The operand after the ports locates the prologue results.
            let cell = &program.network()[batch.kind];
            match operands[cell.tables().len() + cell.ports().len()] {
                Operand::Folded { start } => {
                    let folded = program.folded(batch.kind).expect("it reads a folded table");
                    for (row, &node) in rows[start as usize..].iter_mut().zip(batch.nodes) {
                        if let Row::Index(index) = graph.row(node, folded.port) {
                            *row = folded.start + index * folded.stride;
                        }
                    }
                }
                Operand::Hoisted { start } => {
                    let signature = program.signature(batch.kind);
                    let (_, stride) = signature.hoisted.expect("a table divides it");
                    let (own, rest) = numbers.split_at(batch.nodes.len());
                    numbers = rest;
                    for (row, &number) in rows[start as usize..].iter_mut().zip(own) {
                        *row = hoisted.results + number * stride;
                    }
                }
                // A prologue that reads values has its results in a span, without a list.
                _ => {}
            }
        }
    }
}

/// Writes the offsets of the table rows that the calls of a batch read, unless only a prologue
/// reads them.
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
            if let Row::Index(index) = graph.row(node, port) {
                *row = index * width;
            }
        }
    }
}
