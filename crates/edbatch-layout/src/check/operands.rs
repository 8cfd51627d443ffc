//! Checks the operands of a batch against the arguments of its calls.

use std::ops::Range;

use edbatch_graph::{Arity, Row, Value};

use super::arena::Owner;
use super::{Checked, Reading, Replay};
use crate::plan::Operand;
use crate::planner::MiniBatch;

impl<'a> Replay<'a> {
    /// Checks that each call reads its own row of a table, if the step reads the table.
    pub(super) fn table(
        &mut self,
        reading: &Reading<'_>,
        port: usize,
        operand: Operand,
    ) -> Checked {
        let &MiniBatch { program, graph, .. } = self.mini_batch;
        let batch = reading.batch;
        let table = &program.network()[batch.kind].tables()[port];
        let (start, rows) = match operand {
            Operand::Table { start } => (start, self.claim(start, batch.nodes.len())?),
            Operand::Unread if !program.reads_table(batch.kind, port) => return Ok(()),
            other => return Err(format!("table {port}: expected rows of a table, got {other:?}")),
        };
        let width = program.table_width(table);
        for ((entry, &got), &node) in (start..).zip(rows).zip(batch.nodes) {
            let row = graph.row(node, port);
            if !self.is_row((entry, got), row, (0, width)) {
                return Err(format!("{node} reads table {port} at {got}, expected row {row}"));
            }
        }
        Ok(())
    }

    /// Returns true if an entry of [`Plan::rows`](crate::Plan::rows), or its lookup, is the offset
    /// of a row of a table that begins at `base`.
    pub(super) fn is_row(
        &self,
        (entry, got): (u32, u32),
        row: Row,
        (base, width): (u32, u32),
    ) -> bool {
        match (row, self.looked_up.get(&entry)) {
            (Row::Index(row), None) => {
                u64::from(got) == u64::from(base) + u64::from(row) * u64::from(width)
            }
            (Row::ArgMax(value), Some(&lookup)) => lookup == (value.source(), base, width),
            _ => false,
        }
    }

    /// Checks the values that the calls read at a port.
    pub(super) fn port(&self, reading: &Reading<'_>, port: usize, operand: Operand) -> Checked {
        let &MiniBatch { program, graph, .. } = self.mini_batch;
        let batch = reading.batch;
        let arity = program.network()[batch.kind].ports()[port].arity;
        let rows = match (arity, operand) {
            (Arity::One, Operand::Span { first, stride }) => {
                self.span(reading.written.start, first, stride, batch.nodes.len())?
            }
            (Arity::One, Operand::List { start }) => self.list(start, batch.nodes.len())?.to_vec(),
            (Arity::Many, Operand::Many { ends, rows }) => {
                return self.many(reading, port, ends, rows);
            }
            (Arity::One, got) => {
                return Err(format!("port {port}: expected a span or a list, got {got:?}"));
            }
            (Arity::Many, got) => {
                return Err(format!("port {port}: expected many rows a call, got {got:?}"));
            }
        };
        rows.into_iter()
            .zip(batch.nodes)
            .try_for_each(|(row, &node)| self.holds(row, graph.value(node, port), &reading.written))
    }

    /// Returns the rows of a span. They must be all before or all after the rows that the step
    /// writes.
    pub(super) fn span(
        &self,
        out: u64,
        first: u32,
        stride: u32,
        calls: usize,
    ) -> Checked<Vec<u32>> {
        if stride == 0 {
            return Err("a span with stride 0".into());
        }
        let last = u64::from(first) + (calls as u64).saturating_sub(1) * u64::from(stride);
        let last = u32::try_from(last).map_err(|_| "a span beyond the arena".to_string())?;
        if u64::from(first) < out && u64::from(last) > out {
            return Err("a span on both sides of the rows that its step writes".into());
        }
        Ok((first..=last).step_by(stride as usize).collect())
    }

    /// Returns `calls` entries of [`Plan::lists`](crate::Plan::lists), from `start` on.
    pub(super) fn list(&self, start: u32, calls: usize) -> Checked<&'a [u32]> {
        let start = start as usize;
        let list = self.plan.lists.get(start..start + calls);
        list.ok_or_else(|| format!("a list of {calls} rows at {start}, beyond the plan's lists"))
    }

    /// Checks the values at a port that takes any number: a row for each value of a call, in order.
    fn many(&self, reading: &Reading<'_>, port: usize, ends: u32, rows: u32) -> Checked {
        let nodes = reading.batch.nodes;
        let ends = self.list(ends, nodes.len())?;
        let mut begin = 0;
        for (&end, &node) in ends.iter().zip(nodes) {
            // This is the last port; each earlier port takes one value.
            let values = self.mini_batch.graph.values(node).skip(port);
            if u64::from(begin) + values.len() as u64 != u64::from(end) {
                let (got, expected) = (i64::from(end) - i64::from(begin), values.len());
                return Err(format!("{node} reads {got} values at port {port}, not {expected}"));
            }
            let start = rows.checked_add(begin).ok_or("a list beyond the plan's lists")?;
            for (&row, value) in self.list(start, values.len())?.iter().zip(values) {
                self.holds(row, value, &reading.written)?;
            }
            begin = end;
        }
        Ok(())
    }

    /// Returns entries of [`Plan::rows`](crate::Plan::rows) that no other operand may list.
    pub(super) fn claim(&mut self, start: u32, count: usize) -> Checked<&'a [u32]> {
        let range = start as usize..start as usize + count;
        let Some(claimed) = self.claimed.get_mut(range.clone()) else {
            return Err(format!("a list of {count} rows at {start}, beyond the plan's rows"));
        };
        if claimed.contains(&true) {
            return Err(format!("a list of rows at {start} overlaps another list"));
        }
        claimed.fill(true);
        Ok(&self.plan.rows[range])
    }

    /// Checks that a value is at `row`, outside the memory that the step writes.
    pub(super) fn holds(&self, row: u32, value: Value, written: &Range<u64>) -> Checked {
        let &MiniBatch { program, graph, .. } = self.mini_batch;
        let record = graph.record_of(value).ok_or("a value of another graph")?;
        self.row(row, program.record(record).stride, Owner::Value(value.source()), written)
    }

    /// Checks that the row of `owner` is at `row`, outside the memory that the step writes.
    pub(super) fn row(&self, row: u32, stride: u32, owner: Owner, written: &Range<u64>) -> Checked {
        let (start, end) = (u64::from(row), u64::from(row) + u64::from(stride));
        if start < written.end && written.start < end {
            return Err(format!("reads {owner} at {row}, which the same step writes"));
        }
        self.arena.holds(row, stride, owner)
    }
}
