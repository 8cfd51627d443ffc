//! Planning a mini-batch: rows for every node, operands for every batch.
//!
//! Batches get their rows one after the other, in the order in which they list their nodes, so a
//! batch always writes one span. Hoisted products come before all batches, once per distinct row. An operand whose rows happen to lie at equal distances is read
//! as a span; any other is a list of rows. *Cost*: O(nodes + edges), no allocation once the
//! [`Planner`]'s tables have grown.

use std::fmt;

use edbatch_graph::{Dag, Graph, Kind, Schedule, Source, Value};

use crate::plan::{Action, Operand, Plan, Step};
use crate::program::Program;
use crate::record_layout::next_line;

/// Tables that planning needs, kept from one mini-batch to the next.
#[derive(Clone, Debug, Default)]
pub struct Planner {
    /// Where the row of each node begins.
    row_of: Vec<u32>,
    /// For each kind with a hoisted product and each row of its table: the mini-batch that last
    /// named the row, and where its result lies.
    hoisted: Vec<Vec<(u32, u32)>>,
    /// Which mini-batch this is.
    stamp: u32,
}

impl Planner {
    /// Plans `schedule`, writing over `plan`.
    ///
    /// `given` says where the rows of the graph's given values lie; they occupy the arena below
    /// `base`. `wanted` are the values that will be read afterwards.
    ///
    /// # Errors
    /// If the arena would have 2³² elements or more.
    ///
    /// # Panics
    /// If the schedule is not one of this graph, or the graph not one of the program's network.
    pub fn plan(
        &mut self,
        program: &Program,
        graph: &Graph,
        schedule: &Schedule,
        given: &Given<'_>,
        wanted: &[Value],
        plan: &mut Plan,
    ) -> Result<(), ArenaTooLarge> {
        assert_eq!(given.rows.len(), graph.given().len(), "a row for every given value");
        plan.clear();
        self.row_of.clear();
        self.row_of.resize(graph.nodes(), u32::MAX);
        let mut end = self.hoist(program, graph, schedule, given.end as u64, plan)?;
        for batch in schedule.batches() {
            let stride = u64::from(program.cell(batch.kind).output_stride);
            let next = end + stride * batch.nodes.len() as u64;
            fits(next)?;
            let step = Step {
                cell: batch.kind,
                action: Action::Call,
                calls: batch.nodes.len() as u32,
                out: end as u32,
                operands: plan.operands.len() as u32,
            };
            self.operands(graph, batch, given, program, plan);
            plan.steps.push(step);
            for (row, &node) in batch.nodes.iter().enumerate() {
                self.row_of[node.index()] = (end + stride * row as u64) as u32;
            }
            end = next;
        }
        plan.arena = end as usize;
        plan.wanted.extend(wanted.iter().map(|&value| self.row(value, given)));
        Ok(())
    }

    /// Plans a hoisted product per cell that has one and runs at all, over the distinct rows that
    /// its calls name. Returns where the results end.
    fn hoist(
        &mut self,
        program: &Program,
        graph: &Graph,
        schedule: &Schedule,
        mut end: u64,
        plan: &mut Plan,
    ) -> Result<u64, ArenaTooLarge> {
        self.stamp = self.stamp.checked_add(1).unwrap_or_else(|| {
            self.hoisted.clear();
            1
        });
        self.hoisted.resize_with(program.cells().len(), Vec::new);
        for (kind, cell) in program.cells().iter().enumerate() {
            let Some(hoisted) = &cell.hoisted else { continue };
            let (kind, port) = (Kind::new(kind), usize::from(hoisted.table));
            let table = &program.network()[kind].tables()[port];
            let (width, stride) = (program.table_width(table), next_line(hoisted.rows as usize));
            let seen = &mut self.hoisted[kind.index()];
            seen.resize(table.rows as usize, (0, 0));
            let (out, start) = (end, plan.lists.len() as u32);
            let batches = schedule.batches().filter(|batch| batch.kind == kind);
            for &node in batches.flat_map(|batch| batch.nodes) {
                let row = graph.rows(node)[port];
                let (stamp, place) = &mut seen[row as usize];
                if *stamp != self.stamp {
                    (*stamp, *place) = (self.stamp, fits(end)?);
                    plan.lists.push(row * width);
                    end += stride as u64;
                }
            }
            let calls = plan.lists.len() as u32 - start;
            if calls > 0 {
                let operands = plan.operands.len() as u32;
                plan.operands.push(Operand::Table { start });
                let (action, out) = (Action::Hoist, fits(out)?);
                plan.steps.push(Step { cell: kind, action, calls, out, operands });
            }
        }
        Ok(end)
    }

    fn operands(
        &self,
        graph: &Graph,
        batch: edbatch_graph::Batch<'_>,
        given: &Given<'_>,
        program: &Program,
        plan: &mut Plan,
    ) {
        let cell = &program.network()[batch.kind];
        for (table, declared) in cell.tables().iter().enumerate() {
            let start = plan.lists.len() as u32;
            let width = program.table_width(declared);
            plan.lists.extend(batch.nodes.iter().map(|&node| graph.rows(node)[table] * width));
            plan.operands.push(Operand::Table { start });
        }
        let single = cell.ports().len() - usize::from(cell.is_variadic());
        for (port, declared) in cell.ports()[..single].iter().enumerate() {
            let stride = program.record(declared.record).stride;
            let start = plan.lists.len();
            plan.lists.extend(batch.nodes.iter().map(|&node| {
                let value = graph.value(node, port);
                self.row(value, given)
            }));
            plan.operands.push(match span(&plan.lists[start..], stride) {
                Some(span) => {
                    plan.lists.truncate(start);
                    span
                }
                None => Operand::List { start: start as u32 },
            });
        }
        if cell.is_variadic() {
            let ends = plan.lists.len() as u32;
            let mut count = 0;
            plan.lists.extend(batch.nodes.iter().map(|&node| {
                count += (graph.values(node).len() - single) as u32;
                count
            }));
            let rows = plan.lists.len() as u32;
            for &node in batch.nodes {
                let values = graph.values(node).skip(single);
                plan.lists.extend(values.map(|value| self.row(value, given)));
            }
            plan.operands.push(Operand::Many { ends, rows });
        }
        if let Some(hoisted) = &program.cell(batch.kind).hoisted {
            let start = plan.lists.len() as u32;
            let (seen, port) = (&self.hoisted[batch.kind.index()], usize::from(hoisted.table));
            plan.lists
                .extend(batch.nodes.iter().map(|&node| seen[graph.rows(node)[port] as usize].1));
            plan.operands.push(Operand::List { start });
        }
    }

    #[inline]
    fn row(&self, value: Value, given: &Given<'_>) -> u32 {
        match value.source() {
            Source::Node(node) => {
                let row = self.row_of[node.index()];
                debug_assert_ne!(row, u32::MAX, "arguments run before their users");
                row
            }
            Source::Given(index) => given.rows[index],
        }
    }
}

/// An offset into the arena, if it can be one.
fn fits(elements: u64) -> Result<u32, ArenaTooLarge> {
    u32::try_from(elements).map_err(|_| ArenaTooLarge { elements })
}

/// Where the values lie that exist before a graph runs.
#[derive(Clone, Copy, Debug)]
pub struct Given<'a> {
    /// Where each value's row begins.
    pub rows: &'a [u32],
    /// The end of the part of the arena that they occupy.
    pub end: usize,
}

/// The span that a list of rows is, if they lie at equal distances; `stride` is for a single row.
fn span(rows: &[u32], stride: u32) -> Option<Operand> {
    let (&first, rest) = rows.split_first()?;
    let stride = match rest.first() {
        Some(second) => second.checked_sub(first).filter(|&stride| stride > 0)?,
        None => stride,
    };
    let steady = rows.windows(2).all(|pair| pair[1].wrapping_sub(pair[0]) == stride);
    steady.then_some(Operand::Span { first, stride })
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
