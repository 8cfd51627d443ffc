//! Planning a mini-batch: rows for every node, operands for every batch.
//!
//! A batch writes one span, its rows in the order in which it lists its nodes. The span is given
//! back when the last batch that reads one of its rows has run, and later batches take it. An
//! operand whose rows happen to lie at equal distances is read as a span; any other is a list of
//! rows. A hoisted product comes before the first batch that reads it, once per distinct row.
//!
//! *Cost*: two passes over nodes and edges, no allocation once the [`Planner`]'s tables have grown.

use std::fmt;

use edbatch_graph::{Batch, Dag, Graph, Kind, Schedule, Source, Value};

use crate::arena::Arena;
use crate::distinct::Distinct;
use crate::plan::{Action, Operand, Plan, Step};
use crate::program::Program;
use crate::record_layout::next_line;

/// Tables that planning needs, kept from one mini-batch to the next.
#[derive(Clone, Debug, Default)]
pub struct Planner {
    places: Vec<Place>,
    distinct: Distinct,
    /// Batches, then hoisted results: the part of the arena that each has.
    spans: Vec<Span>,
    /// By kind: the span of its hoisted results and how many rows there is room for, if any.
    hoists: Vec<Option<(usize, usize)>>,
    /// The spans in the order in which they are given back.
    deaths: Vec<(u32, u32)>,
    arena: Arena,
}

/// Where a node is.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Where its row begins.
    row: u32,
    /// Its batch, and so its span in [`Planner::spans`].
    span: u32,
}

/// A part of the arena that is given back as a whole.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: u64,
    len: u64,
    /// The last batch that reads one of its rows; [`Span::KEPT`] if it is read afterwards.
    last: u32,
}

impl Span {
    const KEPT: u32 = u32::MAX;
    /// Where a span starts that has no place yet.
    const NOWHERE: u64 = u64::MAX;
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
    /// The values that are read afterwards.
    pub wanted: &'a [Value],
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
        let mut rows = 0;
        self.given(program, graph, plan)?;
        self.distinct.find(mini_batch);
        self.lives(mini_batch, room);
        let mut dead = 0;
        for (index, batch) in schedule.batches().enumerate() {
            if let Some((span, room)) = self.hoists[batch.kind.index()]
                && self.spans[span].start == Span::NOWHERE
            {
                let (out, operands) = (self.take(span)?, plan.operands.len() as u32);
                plan.operands.push(Operand::Table { start: rows });
                rows += room as u32;
                let action = Action::Hoist { room: room as u32 };
                plan.steps.push(Step { cell: batch.kind, action, calls: 0, out, operands });
            }
            let out = self.take(index)?;
            let stride = program.cell(batch.kind).output_stride;
            for (row, &node) in (0..).zip(batch.nodes) {
                self.places[node.index()].row = out + row * stride;
            }
            let (calls, operands) = (batch.nodes.len() as u32, plan.operands.len() as u32);
            self.operands(mini_batch, batch, out, plan, &mut rows);
            plan.steps.push(Step { cell: batch.kind, action: Action::Call, calls, out, operands });
            while let Some((_, span)) = self.deaths.get(dead).filter(|dies| dies.0 == index as u32)
            {
                let Span { start, len, .. } = self.spans[*span as usize];
                self.arena.give(start..start + len);
                dead += 1;
            }
        }
        plan.arena = self.arena.end() as usize;
        let Plan { given, wanted: places, .. } = &mut *plan;
        places.extend(wanted.iter().map(|&value| self.row(value, given)));
        plan.rows.resize(rows as usize, 0);
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
            plan.given.push(fits(end)?);
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

    /// For how many rows the hoisted product of a kind gets room.
    fn room(&self, mini_batch: &MiniBatch<'_>, kind: Kind, room: Room) -> usize {
        let &MiniBatch { program, schedule, .. } = mini_batch;
        match (&program.cell(kind).hoisted, room) {
            (None, _) => 0,
            (Some(_), Room::Distinct) => self.distinct.count(kind),
            (Some(hoisted), Room::Any) => {
                let batches = schedule.batches().filter(|batch| batch.kind == kind);
                let calls: usize = batches.map(|batch| batch.nodes.len()).sum();
                let table = &program.network()[kind].tables()[usize::from(hoisted.table)];
                calls.min(table.rows as usize)
            }
        }
    }

    /// Finds the last reader of every span. A batch that nobody reads is its own.
    fn lives(&mut self, mini_batch: &MiniBatch<'_>, room: Room) {
        let &MiniBatch { program, graph, schedule, wanted } = mini_batch;
        self.spans.clear();
        self.places.clear();
        self.places.resize(graph.nodes(), Place { row: u32::MAX, span: u32::MAX });
        for (index, batch) in schedule.batches().enumerate() {
            let cell = program.cell(batch.kind);
            let len = u64::from(cell.output_stride) * batch.nodes.len() as u64;
            self.spans.push(Span { start: Span::NOWHERE, len, last: index as u32 });
            for &node in batch.nodes {
                self.places[node.index()].span = index as u32;
                for value in graph.values(node) {
                    if let Source::Node(argument) = value.source() {
                        let span = self.places[argument.index()].span;
                        self.spans[span as usize].last = index as u32;
                    }
                }
            }
        }
        for value in wanted {
            if let Source::Node(node) = value.source() {
                self.spans[self.places[node.index()].span as usize].last = Span::KEPT;
            }
        }
        self.hoists.clear();
        for (kind, cell) in program.cells().iter().enumerate() {
            let room = self.room(mini_batch, Kind::new(kind), room);
            self.hoists.push((room > 0).then_some((self.spans.len(), room)));
            if let (Some(hoisted), 1..) = (&cell.hoisted, room) {
                let len = (next_line(hoisted.rows as usize) * room) as u64;
                let mut batches = (0..schedule.len()).rev();
                let last = batches.find(|&index| schedule.batch(index).kind.index() == kind);
                let last = last.expect("a batch of a cell that names rows") as u32;
                self.spans.push(Span { start: Span::NOWHERE, len, last });
            }
        }
        self.deaths.clear();
        let spans = (0..).zip(&self.spans).filter(|(_, span)| span.last != Span::KEPT);
        self.deaths.extend(spans.map(|(index, span)| (span.last, index)));
        self.deaths.sort_unstable();
    }

    /// Plans the operands of a batch; lists of rows of tables are only counted, in `rows`.
    fn operands(
        &self,
        &MiniBatch { program, graph, .. }: &MiniBatch<'_>,
        batch: Batch<'_>,
        out: u32,
        plan: &mut Plan,
        rows: &mut u32,
    ) {
        let Plan { given, operands, lists, .. } = plan;
        let cell = &program.network()[batch.kind];
        let calls = batch.nodes.len() as u32;
        for table in 0..cell.tables().len() {
            if program.reads_table(batch.kind, table) {
                operands.push(Operand::Table { start: *rows });
                *rows += calls;
            } else {
                operands.push(Operand::Unread);
            }
        }
        let single = cell.ports().len() - usize::from(cell.is_variadic());
        for (port, declared) in cell.ports()[..single].iter().enumerate() {
            let stride = program.record(declared.record).stride;
            let start = lists.len();
            lists.extend(batch.nodes.iter().map(|&node| {
                let value = graph.value(node, port);
                self.row(value, given)
            }));
            operands.push(match span(&lists[start..], stride, out) {
                Some(span) => {
                    lists.truncate(start);
                    span
                }
                None => Operand::List { start: start as u32 },
            });
        }
        if cell.is_variadic() {
            let ends = lists.len() as u32;
            let mut count = 0;
            lists.extend(batch.nodes.iter().map(|&node| {
                count += (graph.values(node).len() - single) as u32;
                count
            }));
            let rows = lists.len() as u32;
            for &node in batch.nodes {
                let values = graph.values(node).skip(single);
                lists.extend(values.map(|value| self.row(value, given)));
            }
            operands.push(Operand::Many { ends, rows });
        }
        if program.cell(batch.kind).hoisted.is_some() {
            operands.push(Operand::Hoisted { start: *rows });
            *rows += calls;
        }
    }

    #[inline]
    fn row(&self, value: Value, given: &[u32]) -> u32 {
        match value.source() {
            Source::Node(node) => {
                let Place { row, .. } = self.places[node.index()];
                debug_assert_ne!(row, u32::MAX, "arguments run before their users");
                row
            }
            Source::Given(index) => given[index],
        }
    }
}

/// An offset into the arena, if it can be one.
fn fits(elements: u64) -> Result<u32, ArenaTooLarge> {
    u32::try_from(elements).map_err(|_| ArenaTooLarge { elements })
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
