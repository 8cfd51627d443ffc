//! Plans a mini-batch: a row for every node, and the operands of every batch.
//!
//! A batch writes one span of the arena: the rows of its nodes, in the order of the batch. The span
//! is freed after the last batch that reads one of its rows, and later batches reuse it (except
//! with [`Lifetimes::Distinct`]). An operand is an [`Operand::Span`](crate::Operand::Span) if its
//! rows ascend at equal distances and are all before or all after the rows that the batch writes;
//! otherwise it is a list of rows.
//!
//! A [prologue](crate::Hoisted) that depends on a row of a table runs once per distinct row, in
//! blocks of 256 rows: a block runs before the first batch that names one of its rows, so that the
//! results are still in the cache when they are read. If the table is
//! [folded](Program::fold_tables), the prologue ran for all rows at load. A prologue that depends
//! on a value runs once for several small batches, as soon as all their values exist: one product
//! of many rows instead of many products of few rows.
//!
//! Rows of an argmax are looked up while the plan runs ([`Lookup`](crate::Lookup)). The
//! prologue of a batch that names such a row runs for this batch, once for each call.
//!
//! A first pass over the batches lists the values that each batch reads, and finds the last reader
//! of each span. A second pass allocates the spans, and turns the values into offsets of rows.
//!
//! *Source*: ours. *Cost*: O(nodes + edges), and no allocation once the [`Planner`]'s tables have
//! grown.

mod arena;
mod back;
mod free_ranges;
mod groups;
mod operands;

use edbatch_graph::{Graph, Schedule, Source, Value};

use crate::distinct::Distinct;
use crate::plan::{Plan, Step, ValueRow, Want};
use crate::program::Program;
use arena::{Arena, Span};
use back::Back;
use groups::Groups;

/// Maximum number of distinct table rows that a prologue step computes.
const BLOCK: u32 = 256;

/// Plans mini-batches. Its memory is reused from one mini-batch to the next.
#[derive(Clone, Debug)]
pub struct Planner {
    /// By node: its batch, which is also the index of its span in [`Planner::spans`]; not kept if
    /// rows are [distinct](Lifetimes::Distinct).
    batch_of: Vec<u32>,
    /// By node: the offset of its row.
    row_of: Vec<u32>,
    /// The values that each batch reads, in the order of its operands.
    values: Vec<Value>,
    distinct: Distinct,
    /// The span of each batch, then the span of results of each prologue step.
    spans: Vec<Span>,
    groups: Groups,
    /// By batch: the head of a linked list of the spans that are freed after it.
    freed_after: Vec<Option<u32>>,
    arena: Arena,
    lifetimes: Lifetimes,
    /// Maximum number of distinct table rows that a prologue step computes.
    block: u32,
    back: Back,
}

impl Default for Planner {
    fn default() -> Self {
        Self::new(Lifetimes::Reuse)
    }
}

/// The progress of planning.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    /// The length of [`Plan::rows`] for the steps planned so far. Its contents are written last.
    rows: u64,
    /// The number of [`Planner::values`] whose operands are planned.
    values: usize,
}

/// The input of the planner.
#[derive(Clone, Copy, Debug)]
pub struct MiniBatch<'a> {
    /// The compiled network.
    pub program: &'a Program,
    /// The calls of the network's cells.
    pub graph: &'a Graph,
    /// The batches of these calls.
    pub schedule: &'a Schedule,
    /// The values that are used after the plan has run, and their use.
    pub wanted: &'a [(Value, Want)],
}

/// The lifetime of rows in the arena.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Lifetimes {
    /// A row is freed after the last step that reads it, and later steps may reuse its memory.
    #[default]
    Reuse,
    /// No row is freed, so independent steps may run in any order or concurrently. Prologues that
    /// read values do not run as steps of their own, and the prologue of a table is one step.
    Distinct,
}

impl Planner {
    /// Creates a planner. [`Planner::default`] reuses the memory of rows.
    #[must_use]
    pub fn new(lifetimes: Lifetimes) -> Self {
        let block = match lifetimes {
            Lifetimes::Reuse => BLOCK,
            Lifetimes::Distinct => u32::MAX,
        };
        Self {
            batch_of: Vec::new(),
            row_of: Vec::new(),
            values: Vec::new(),
            distinct: Distinct::default(),
            spans: Vec::new(),
            groups: Groups::default(),
            freed_after: Vec::new(),
            arena: Arena::default(),
            lifetimes,
            block,
            back: Back::default(),
        }
    }

    /// Sets the maximum number of distinct table rows that a prologue step computes, by default
    /// 256; with [`Lifetimes::Distinct`], a single step computes all. No bit of a result depends
    /// on it.
    ///
    /// # Panics
    /// If it is 0.
    #[must_use]
    pub fn block(self, rows: u32) -> Self {
        assert!(rows > 0, "a block has a row");
        Self { block: rows, ..self }
    }

    /// Plans a mini-batch and overwrites `plan`. Given values are at the start of the arena.
    ///
    /// # Errors
    /// If the arena or a list of the plan would have 2³² elements or more. The arena itself is not
    /// allocated here.
    ///
    /// # Panics
    /// If the schedule does not belong to the graph, or the graph to the program's network.
    pub fn plan(
        &mut self,
        mini_batch: &MiniBatch<'_>,
        plan: &mut Plan,
    ) -> Result<(), ArenaTooLarge> {
        plan.clear();
        let end = self.given(mini_batch, plan)?;
        self.arena.reset(end);
        self.find_spans(mini_batch);
        self.keep_wanted(mini_batch);
        self.free_spans(mini_batch.schedule.len());
        self.plan_batches(mini_batch, plan)?;
        plan.arena = self.arena.end() as usize;
        Ok(())
    }

    /// Plans all batches, whose spans and lifetimes are known.
    fn plan_batches(
        &mut self,
        mini_batch: &MiniBatch<'_>,
        plan: &mut Plan,
    ) -> Result<(), ArenaTooLarge> {
        let &MiniBatch { program, graph, schedule, wanted } = mini_batch;
        let mut progress = Progress::default();
        for (index, batch) in schedule.batches().enumerate() {
            self.hoist(mini_batch, index, plan, &mut progress)?;
            let (signature, out) = (program.signature(batch.kind), self.place(index)?);
            for (row, &node) in (0..).zip(batch.nodes) {
                self.row_of[node.index()] = out + row * signature.stride;
            }
            let (calls, operands) = (batch.nodes.len() as u32, plan.operands.len() as u32);
            self.operands(graph, signature, batch.nodes, out, plan, &mut progress);
            let of_batch = (index, calls);
            let action =
                self.hoisted_rows(schedule.len(), signature, of_batch, plan, &mut progress);
            plan.steps.push(Step { cell: batch.kind, action, calls, out, operands });
            if graph.looks_up() {
                self.look_up(mini_batch, index, plan);
            }
            check_lengths(plan.operands.len(), plan.lists.len(), progress.rows)?;
            self.free_after(index);
        }
        let Plan { given, wanted: rows, .. } = &mut *plan;
        rows.extend(wanted.iter().map(|&(value, want)| {
            let record = graph.record_of(value).expect("a wanted value of the graph");
            (ValueRow { record, start: self.row(value, given) }, want)
        }));
        // Written last, because all prologue results have offsets by then.
        plan.rows.resize(progress.rows as usize, 0);
        self.distinct.write(mini_batch, plan);
        Ok(())
    }

    /// Places the given values at the start of the arena. Returns the end of their rows.
    fn given(
        &mut self,
        &MiniBatch { program, graph, .. }: &MiniBatch<'_>,
        plan: &mut Plan,
    ) -> Result<u64, ArenaTooLarge> {
        let mut end = 0;
        for &record in graph.given() {
            plan.given.push(ValueRow { record, start: offset(end)? });
            end += u64::from(program.record(record).stride);
        }
        offset(end)?;
        Ok(end)
    }

    /// Frees the spans that are not read after this batch.
    fn free_after(&mut self, batch: usize) {
        let mut freed = self.freed_after[batch];
        while let Some(span) = freed {
            let Span { start, len, next, .. } = self.spans[span as usize];
            self.arena.free(start..start + len);
            freed = next;
        }
    }

    /// Allocates a span in the arena and returns its offset.
    fn place(&mut self, span: usize) -> Result<u32, ArenaTooLarge> {
        let span = &mut self.spans[span];
        span.start = self.arena.allocate(span.len);
        offset(self.arena.end())?;
        offset(span.start)
    }

    #[inline]
    fn row(&self, value: Value, given: &[ValueRow]) -> u32 {
        match value.source() {
            Source::Node(node) => self.row_of[node.index()],
            Source::Given(index) => given[index].start,
        }
    }
}

/// Returns an offset into the arena, if it fits 32 bits.
fn offset(elements: u64) -> Result<u32, ArenaTooLarge> {
    let what = Addressed::Values;
    u32::try_from(elements).map_err(|_| ArenaTooLarge { elements, what })
}

/// Fails if a list of the plan has more than `u32::MAX` entries. Called after each batch, before a
/// truncated index can be used.
fn check_lengths(operands: usize, lists: usize, rows: u64) -> Result<(), ArenaTooLarge> {
    let elements = rows.max(operands.max(lists) as u64);
    match u32::try_from(elements) {
        Ok(_) => Ok(()),
        Err(_) => Err(ArenaTooLarge { elements, what: Addressed::Lists }),
    }
}

/// The error of a mini-batch that needs more elements than 32 bits can address.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the mini-batch{}: make mini-batches smaller", self.excess())]
pub struct ArenaTooLarge {
    /// The minimum number of elements needed.
    pub elements: u64,
    /// The memory that would be too large.
    pub what: Addressed,
}

/// The part of a mini-batch or its plan that 32-bit offsets cannot address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Addressed {
    /// The arena.
    Values,
    /// A list of the plan.
    Lists,
}

impl ArenaTooLarge {
    fn excess(&self) -> String {
        let elements = self.elements;
        match self.what {
            Addressed::Values => format!(
                " needs at least {} MB for its values, expected below 17179 MB, which are 2^32 \
                 elements",
                u128::from(elements) * 4 / 1_000_000
            ),
            Addressed::Lists => format!("'s plan has {elements} numbers, expected below 2^32"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests the check alone: lists of this size would not fit into a test's memory.
    #[test]
    fn lists_have_at_most_u32_max_entries() {
        let max = u32::MAX as usize;
        assert_eq!(check_lengths(max, max, max as u64), Ok(()));
        let over = max as u64 + 1;
        let error = ArenaTooLarge { elements: over, what: Addressed::Lists };
        for (operands, lists, rows) in [(max + 1, 0, 0), (0, max + 1, 0), (0, 0, over)] {
            assert_eq!(check_lengths(operands, lists, rows), Err(error));
        }
        let expected = "the mini-batch's plan has 4294967296 numbers, expected below 2^32: make \
                        mini-batches smaller";
        assert_eq!(error.to_string(), expected);
    }
}
