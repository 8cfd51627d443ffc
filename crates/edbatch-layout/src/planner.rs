//! Planning a mini-batch: rows for every node, operands for every batch.
//!
//! A batch writes one span, its rows in the order in which it lists its nodes. The span is given
//! back when the last batch that reads one of its rows has run, and later batches take it. An
//! operand whose rows happen to lie at equal distances is read as a span; any other is a list of
//! rows.
//!
//! What is hoisted for a table comes before the first batch that reads it, once per distinct row. What
//! is hoisted for a value comes before a batch of few calls, for that batch and for later ones whose
//! values are there already: a product of many rows in the place of many products of few.
//!
//! A first pass over the batches lists what each reads, and so finds who reads a span last. A second one
//! gives spans their places, and turns those lists into rows.
//!
//! *Cost*: O(nodes + edges), no allocation once the [`Planner`]'s tables have grown.

mod hoists;

use std::fmt;

use edbatch_graph::{Batch, Cell, Dag, Graph, Schedule, Source, Value};

use crate::arena::Arena;
use crate::distinct::Distinct;
use crate::plan::{Operand, Plan, Step, ValueRow, Want};
use crate::program::Program;
use hoists::Joined;

/// Tables that planning needs, kept from one mini-batch to the next.
#[derive(Clone, Debug, Default)]
pub struct Planner {
    /// By node: its batch, and so its span in [`Planner::spans`].
    batch_of: Vec<u32>,
    /// By node: where its row begins.
    row_of: Vec<u32>,
    /// What each batch reads, in the order in which its operands list it.
    values: Vec<Value>,
    distinct: Distinct,
    /// Batches, then hoisted results: the part of the arena that each has.
    spans: Vec<Span>,
    /// By kind that is divided by a table: the span of its hoisted results and for how many rows there is
    /// room, if any.
    hoists: Vec<Option<(usize, usize)>>,
    /// By batch: its part of results that were hoisted for several batches, if any.
    joined: Vec<Option<Joined>>,
    /// By batch: the next one of its kind; by kind: the first one.
    next: Vec<Option<u32>>,
    first: Vec<Option<u32>>,
    /// By kind: the port that divides it, while batches are joined by it.
    ports: Vec<Option<usize>>,
    /// By batch: the first of the spans that are given back when it has run.
    dying: Vec<Option<u32>>,
    arena: Arena,
}

/// How far the lists of a plan are written.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    /// Of [`Plan::rows`], which are only counted.
    rows: u32,
    /// Of [`Planner::values`].
    values: usize,
}

/// A part of the arena that is given back as a whole.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: u64,
    len: u64,
    /// The last batch that reads one of its rows; [`Span::KEPT`] if it is read afterwards.
    last: u32,
    /// The next span that is given back after that batch.
    next: Option<u32>,
}

impl Span {
    const KEPT: u32 = u32::MAX;
    /// Where a span starts that has no place yet.
    const NOWHERE: u64 = u64::MAX;

    fn new(len: u64, last: u32) -> Self {
        Self { start: Self::NOWHERE, len, last, next: None }
    }
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

/// For how many rows of tables a plan has room in its hoisted products.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Room {
    /// For the distinct ones that the calls name.
    #[default]
    Distinct,
    /// For any that calls of the same topology may name: such a plan can be refilled.
    Any,
}

impl Planner {
    /// Plans a mini-batch, writing over `plan`. Given values lie at the front of the arena.
    ///
    /// # Errors
    /// If the arena would have 2³² elements or more.
    ///
    /// # Panics
    /// If the schedule is not one of the graph, or the graph not one of the program's network.
    pub fn plan(
        &mut self,
        mini_batch: &MiniBatch<'_>,
        room: Room,
        plan: &mut Plan,
    ) -> Result<(), ArenaTooLarge> {
        let &MiniBatch { program, graph, schedule, wanted } = mini_batch;
        plan.clear();
        let mut progress = Progress::default();
        self.given(program, graph, plan)?;
        self.distinct.find(mini_batch);
        self.lives(mini_batch, room);
        for (index, batch) in schedule.batches().enumerate() {
            self.hoist(mini_batch, index, plan, &mut progress.rows)?;
            let out = self.take(index)?;
            let stride = program.cell(batch.kind).output_stride;
            for (row, &node) in (0..).zip(batch.nodes) {
                self.row_of[node.index()] = out + row * stride;
            }
            let (calls, operands) = (batch.nodes.len() as u32, plan.operands.len() as u32);
            self.operands(mini_batch, batch, out, plan, &mut progress);
            let action = self.hoisted_rows(program, index, batch, plan, &mut progress.rows);
            plan.steps.push(Step { cell: batch.kind, action, calls, out, operands });
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
        plan.rows.resize(progress.rows as usize, 0);
        self.distinct.write(mini_batch, plan);
        Ok(())
    }

    /// Turns a plan into that of another graph with the same nodes, values and schedule, whose
    /// calls may name other rows of tables. Whether the plan has [`Room`] for them; it is as
    /// before, if not.
    ///
    /// *Cost*: O(calls that name rows).
    pub fn refill(&mut self, mini_batch: &MiniBatch<'_>, plan: &mut Plan) -> bool {
        self.distinct.find(mini_batch);
        let fits = self.distinct.fit(plan);
        if fits {
            self.distinct.write(mini_batch, plan);
        }
        fits
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
            plan.given.push(ValueRow { record, start: fits(end)? });
            end += u64::from(program.record(record).stride);
        }
        fits(end)?;
        self.arena.reset(end);
        Ok(())
    }

    /// Gives a span its place; returns where it starts.
    fn take(&mut self, span: usize) -> Result<u32, ArenaTooLarge> {
        let span = &mut self.spans[span];
        span.start = self.arena.take(span.len);
        fits(self.arena.end())?;
        fits(span.start)
    }

    /// Lists what each batch reads, and finds the last reader of every span. A batch that nobody
    /// reads is its own.
    fn lives(&mut self, mini_batch: &MiniBatch<'_>, room: Room) {
        let &MiniBatch { program, graph, schedule, wanted } = mini_batch;
        self.spans.clear();
        self.values.clear();
        self.batch_of.clear();
        self.batch_of.resize(graph.nodes(), u32::MAX);
        self.row_of.resize(graph.nodes(), 0);
        for (index, batch) in schedule.batches().enumerate() {
            let stride = u64::from(program.cell(batch.kind).output_stride);
            self.spans.push(Span::new(stride * batch.nodes.len() as u64, index as u32));
            for node in batch.nodes {
                self.batch_of[node.index()] = index as u32;
            }
            let first = self.values.len();
            let cell = &program.network()[batch.kind];
            let single = single_ports(cell);
            for port in 0..single {
                self.values.extend(batch.nodes.iter().map(|&node| graph.value(node, port)));
            }
            if cell.is_variadic() {
                for &node in batch.nodes {
                    self.values.extend(graph.values(node).skip(single));
                }
            }
            for value in &self.values[first..] {
                if let Source::Node(argument) = value.source() {
                    let span = self.batch_of[argument.index()];
                    self.spans[span as usize].last = index as u32;
                }
            }
        }
        for (value, _) in wanted {
            if let Source::Node(node) = value.source() {
                self.spans[self.batch_of[node.index()] as usize].last = Span::KEPT;
            }
        }
        self.divide(mini_batch, room);
        self.join(mini_batch);
        self.dying.clear();
        self.dying.resize(schedule.len(), None);
        for (index, span) in (0..).zip(&mut self.spans) {
            if span.last != Span::KEPT {
                span.next = self.dying[span.last as usize].replace(index);
            }
        }
    }

    /// Plans the operands of a batch; lists of rows of tables are only counted.
    fn operands(
        &self,
        &MiniBatch { program, graph, .. }: &MiniBatch<'_>,
        batch: Batch<'_>,
        out: u32,
        plan: &mut Plan,
        progress: &mut Progress,
    ) {
        let Plan { given, operands, lists, .. } = plan;
        let cell = &program.network()[batch.kind];
        let calls = batch.nodes.len();
        for table in 0..cell.tables().len() {
            if program.reads_table(batch.kind, table) {
                operands.push(Operand::Table { start: progress.rows });
                progress.rows += calls as u32;
            } else {
                operands.push(Operand::Unread);
            }
        }
        let single = single_ports(cell);
        let mut list = |lists: &mut Vec<u32>, count| {
            let values = &self.values[progress.values..][..count];
            lists.extend(values.iter().map(|&value| self.row(value, given)));
            progress.values += count;
        };
        for declared in &cell.ports()[..single] {
            let start = lists.len();
            list(lists, calls);
            operands.push(listed(lists, start, program.record(declared.record).stride, out));
        }
        if cell.is_variadic() {
            let (ends, mut count) = (lists.len(), 0);
            lists.extend(batch.nodes.iter().map(|&node| {
                count += graph.values(node).len() - single;
                count as u32
            }));
            list(lists, count);
            let (ends, rows) = (ends as u32, (ends + calls) as u32);
            operands.push(Operand::Many { ends, rows });
        }
    }

    #[inline]
    fn row(&self, value: Value, given: &[ValueRow]) -> u32 {
        match value.source() {
            Source::Node(node) => self.row_of[node.index()],
            Source::Given(index) => given[index].start,
        }
    }
}

/// How many ports of a cell take one value; they come first.
fn single_ports(cell: &Cell) -> usize {
    cell.ports().len() - usize::from(cell.is_variadic())
}

/// An offset into the arena, if it can be one.
fn fits(elements: u64) -> Result<u32, ArenaTooLarge> {
    u32::try_from(elements).map_err(|_| ArenaTooLarge { elements })
}

/// The rows from `start` on as an operand: they stay in the lists unless they are a span.
fn listed(lists: &mut Vec<u32>, start: usize, stride: u32, out: u32) -> Operand {
    match span(&lists[start..], stride, out) {
        Some(span) => {
            lists.truncate(start);
            span
        }
        None => Operand::List { start: start as u32 },
    }
}

/// The span that a list of rows is, if they lie at equal distances on one side of what is written
/// at `out`; `stride` is for a single row.
fn span(rows: &[u32], stride: u32, out: u32) -> Option<Operand> {
    let (&first, rest) = rows.split_first()?;
    let stride = match rest.first() {
        Some(second) => second.checked_sub(first).filter(|&stride| stride > 0)?,
        None => stride,
    };
    let steady = rows.windows(2).all(|pair| pair[1].wrapping_sub(pair[0]) == stride);
    let beside = first > out || rows.last() < Some(&out);
    (steady && beside).then_some(Operand::Span { first, stride })
}

/// A mini-batch whose values cannot be addressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArenaTooLarge {
    /// Elements that would be needed.
    pub elements: u64,
}

impl fmt::Display for ArenaTooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the mini-batch needs at least {} MB for its values, expected below 16 GB: \
             make mini-batches smaller",
            self.elements * 4 / 1_000_000
        )
    }
}

impl std::error::Error for ArenaTooLarge {}
