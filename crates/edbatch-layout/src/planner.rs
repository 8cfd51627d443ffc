//! Planning a mini-batch: rows for every node, operands for every batch.
//!
//! A batch writes one span, its rows in the order in which it lists its nodes. The span is freed
//! when the last batch that reads one of its rows has run, and later batches take it (not with
//! [`Lifetimes::Distinct`]). An operand whose rows rise at equal distances, on one side of
//! what is written, is read as a span; any other is a list of rows.
//!
//! A prologue (what is *hoisted* out of a cell) that depends on a row of a table is run before the
//! first batch that reads it, once per distinct row; of a [folded](Program::fold_tables) table, it
//! has been run for all rows. One that depends on a value is run once for several small batches,
//! before the first, as soon as all their values exist: a product of many rows in the place of many
//! products of few.
//!
//! A first pass over the batches lists what each reads, and so finds who reads a span last. A
//! second one gives spans their places, and turns those lists into rows.
//!
//! *Cost*: O(nodes + edges), no allocation once the [`Planner`]'s tables have grown.

mod arena;
mod groups;
mod operands;

use std::fmt;

use edbatch_graph::{Graph, Schedule, Source, Value};

use crate::distinct::Distinct;
use crate::plan::{Plan, Step, ValueRow, Want};
use crate::program::Program;
use arena::{Arena, Span};
use groups::Groups;

/// Tables that planning needs, kept from one mini-batch to the next.
#[derive(Clone, Debug, Default)]
pub struct Planner {
    /// By node: its batch, and so its span in [`Planner::spans`].
    batch_of: Vec<u32>,
    /// By node: where its row begins.
    row_of: Vec<u32>,
    /// What each batch reads, in the order in which its operands list it.
    values: Vec<Value>,
    /// By batch: where those end.
    ends: Vec<usize>,
    distinct: Distinct,
    /// Batches, then hoisted results: the part of the arena that each has.
    spans: Vec<Span>,
    groups: Groups,
    /// By batch: the first of the spans that are given back when it has run.
    dying: Vec<Option<u32>>,
    arena: Arena,
    /// Whether the steps of a wave run in any order, or at once.
    for_waves: bool,
    /// By batch: its wave.
    waves: Vec<u32>,
}

/// How far the lists of a plan are written.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    /// Of [`Plan::rows`], which are only counted.
    rows: u64,
    /// Of [`Planner::values`].
    values: usize,
}

/// What is to be planned.
#[derive(Clone, Copy, Debug)]
pub struct MiniBatch<'a> {
    /// The compiled network.
    pub program: &'a Program,
    /// Calls of its cells.
    pub graph: &'a Graph,
    /// The order in which they run.
    pub schedule: &'a Schedule,
    /// The values that are used afterwards, and what for.
    pub wanted: &'a [(Value, Want)],
}

/// How long a row of the arena belongs to its value.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Lifetimes {
    /// Until the last step that reads it has run; then later steps may reuse its place.
    #[default]
    Reuse,
    /// To the end of the plan: each row has a place of its own, so steps that do not read each other
    /// may run in any order or at once. Nothing is hoisted for a value.
    Distinct,
}

/// For how many distinct rows of tables a plan has memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Capacity {
    /// For the distinct ones that the calls name.
    #[default]
    Distinct,
    /// For any that calls of the same topology may name: such a plan can be refilled.
    Any,
}

impl Planner {
    /// A planner whose rows live as long as `lifetimes` says.
    #[must_use]
    pub fn new(lifetimes: Lifetimes) -> Self {
        Self { for_waves: lifetimes == Lifetimes::Distinct, ..Self::default() }
    }

    /// Plans a mini-batch, writing over `plan`. Given values lie at the front of the arena.
    ///
    /// # Errors
    /// If the arena would have 2³² elements or more, or a list of the plan as many numbers. Nothing
    /// of the arena's size is allocated before.
    ///
    /// # Panics
    /// If the schedule is not one of the graph, or the graph not one of the program's network.
    pub fn plan(
        &mut self,
        mini_batch: &MiniBatch<'_>,
        capacity: Capacity,
        plan: &mut Plan,
    ) -> Result<(), ArenaTooLarge> {
        let &MiniBatch { program, graph, schedule, wanted } = mini_batch;
        plan.clear();
        let mut progress = Progress::default();
        self.given(program, graph, plan)?;
        self.distinct.find(mini_batch);
        self.find_lifetimes(mini_batch, capacity);
        for (index, batch) in schedule.batches().enumerate() {
            self.hoist(mini_batch, index, plan, &mut progress)?;
            let (signature, out) = (program.signature(batch.kind), self.take(index)?);
            for (row, &node) in (0..).zip(batch.nodes) {
                self.row_of[node.index()] = out + row * signature.stride;
            }
            let (calls, operands) = (batch.nodes.len() as u32, plan.operands.len() as u32);
            self.operands(graph, signature, batch.nodes, out, plan, &mut progress);
            let of_batch = (index, calls);
            let action =
                self.hoisted_rows(schedule.len(), signature, of_batch, plan, &mut progress);
            plan.steps.push(Step { cell: batch.kind, action, calls, out, operands });
            numbered(plan.operands.len(), plan.lists.len(), progress.rows)?;
            // What is read no more makes room for later batches; but steps of a wave run side by
            // side, so for waves nothing takes the place of anything.
            let mut dying = self.dying[index];
            while let Some(span) = dying {
                let Span { start, len, next, .. } = self.spans[span as usize];
                self.arena.give(start..start + len);
                dying = next;
            }
        }
        plan.arena = self.arena.end() as usize;
        let Plan { given, wanted: rows, .. } = &mut *plan;
        rows.extend(wanted.iter().map(|&(value, want)| {
            let record = graph.record_of(value).expect("a wanted value is one of the graph");
            (ValueRow { record, start: self.row(value, given) }, want)
        }));
        // Written last, and by itself, so that a refill can write the same lists again.
        plan.rows.resize(progress.rows as usize, 0);
        self.distinct.write(mini_batch, plan);
        if self.for_waves {
            // What is hoisted waits for nothing.
            let mut waves = self.waves.iter().copied();
            let mut next = || waves.next().expect("a batch for each call");
            let wave = |step: &Step| if step.is_batch() { next() } else { 0 };
            plan.waves.extend(plan.steps.iter().map(wave));
        }
        Ok(())
    }

    /// Turns a plan into that of another graph with the same nodes, values and schedule, whose
    /// calls may name other rows of tables. Whether the plan has the [`Capacity`]; it is as before,
    /// if not.
    ///
    /// *Cost*: O(calls that name rows).
    pub fn refill(&mut self, mini_batch: &MiniBatch<'_>, plan: &mut Plan) -> bool {
        self.distinct.find(mini_batch);
        let suffices = self.distinct.has_capacity(plan);
        if suffices {
            self.distinct.write(mini_batch, plan);
        }
        suffices
    }

    /// Puts the given values at the front of the arena.
    fn given(
        &mut self,
        program: &Program,
        graph: &Graph,
        plan: &mut Plan,
    ) -> Result<(), ArenaTooLarge> {
        let mut end = 0;
        for &record in graph.given() {
            plan.given.push(ValueRow { record, start: offset(end)? });
            end += u64::from(program.record(record).stride);
        }
        offset(end)?;
        self.arena.reset(end);
        Ok(())
    }

    /// Gives a span its place; returns where it starts.
    fn take(&mut self, span: usize) -> Result<u32, ArenaTooLarge> {
        let span = &mut self.spans[span];
        span.start = self.arena.take(span.len);
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

/// An offset into the arena, where 32 bits hold it.
fn offset(elements: u64) -> Result<u32, ArenaTooLarge> {
    let what = Addressed::Values;
    u32::try_from(elements).map_err(|_| ArenaTooLarge { elements, what })
}

/// Refuses a plan with lists of which 32 bits cannot number the elements. They are looked at behind
/// each batch, so that nothing is made of a number that was cut off before.
fn numbered(operands: usize, lists: usize, rows: u64) -> Result<(), ArenaTooLarge> {
    let elements = rows.max(operands.max(lists) as u64);
    match u32::try_from(elements) {
        Ok(_) => Ok(()),
        Err(_) => Err(ArenaTooLarge { elements, what: Addressed::Lists }),
    }
}

/// A mini-batch of whose plan something cannot be addressed: 32 bits number its elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArenaTooLarge {
    /// Elements that would be needed at least.
    pub elements: u64,
    /// Elements of what.
    pub what: Addressed,
}

/// What the numbers of a plan address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Addressed {
    /// The arena, with a device's scratch.
    Values,
    /// A list of the plan, or the [tape](crate::Tape) of numbers that a device reads.
    Lists,
    /// What a device hands out: all wanted elements, one after the other.
    Results,
}

impl fmt::Display for ArenaTooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let elements = self.elements;
        match self.what {
            Addressed::Values => {
                let megabytes = u128::from(elements) * 4 / 1_000_000;
                write!(
                    f,
                    "the mini-batch needs at least {megabytes} MB for its values, expected "
                )?;
                f.write_str("below 17179 MB, which are 2^32 elements")
            }
            Addressed::Lists => {
                write!(f, "the mini-batch's plan has {elements} numbers, expected below 2^32")
            }
            Addressed::Results => {
                write!(f, "the mini-batch has {elements} elements of results, expected below 2^32")
            }
        }?;
        f.write_str(": make mini-batches smaller")
    }
}

impl std::error::Error for ArenaTooLarge {}

#[cfg(test)]
mod tests {
    use super::*;

    /// No test has the memory for such lists.
    #[test]
    fn lists_have_fewer_than_two_to_the_32_numbers() {
        let most = u32::MAX as usize;
        assert_eq!(numbered(most, most, most as u64), Ok(()));
        let over = most as u64 + 1;
        let error = ArenaTooLarge { elements: over, what: Addressed::Lists };
        for (operands, lists, rows) in [(most + 1, 0, 0), (0, most + 1, 0), (0, 0, over)] {
            assert_eq!(numbered(operands, lists, rows), Err(error));
        }
        let expected = "the mini-batch's plan has 4294967296 numbers, expected below 2^32: make \
                        mini-batches smaller";
        assert_eq!(error.to_string(), expected);
    }
}
