//! Checks hoisted rows: prologues run before the batches that need them, and each call reads its
//! own row.

use std::ops::Range;

use edbatch_graph::{RecordId, Row, Source};

use super::arena::{Argument, Owner};
use super::{Checked, NOT_DIVIDED, Reading, Replay};
use crate::cell_plan::{Base, Hoisted};
use crate::plan::{Operand, Step};
use crate::program::FoldedTable;

impl Replay<'_> {
    /// Replays a step that runs a prologue, for distinct rows of a table or for values.
    pub(super) fn hoist(&mut self, step: &Step) -> Checked {
        let program = self.mini_batch.program;
        let cell = program.cells().get(step.cell.index()).and_then(|cell| cell.hoisted.as_ref());
        let hoisted = cell.ok_or_else(|| format!("{} has no prologue", step.cell))?;
        if program.folded(step.cell).is_some() {
            return Err(format!("runs the prologue of {}, whose table is folded", step.cell));
        }
        let stride = hoisted.prologue.output_stride;
        let written = self.arena.rows(step.out, stride, step.calls)?;
        let read = self.only_read(step, hoisted)?;
        let arguments = match hoisted.from {
            Base::Table(table) => self.table_rows(step, usize::from(table), read)?,
            Base::Port(port) => {
                let ports = program.network()[step.cell].ports();
                let record = ports[usize::from(port)].record;
                self.values(step.calls, record, read, &written)?
            }
            _ => return Err(NOT_DIVIDED.into()),
        };
        let rows = (step.out..).step_by(stride as usize);
        for (argument, row) in arguments.into_iter().zip(rows) {
            self.arena.write(row, stride, Owner::Hoisted(step.cell, argument));
        }
        Ok(())
    }

    /// Returns the only operand that a prologue step reads.
    fn only_read(&mut self, step: &Step, hoisted: &Hoisted) -> Checked<Operand> {
        let cell = &self.mini_batch.program.network()[step.cell];
        let (tables, ports) = (cell.tables().len(), cell.ports().len());
        let read = match (hoisted.table(), hoisted.port()) {
            (Some(table), _) => table,
            (None, Some(port)) => tables + port,
            (None, None) => return Err(NOT_DIVIDED.into()),
        };
        let operands = self.operands_of(step, tables + ports)?;
        for (index, operand) in operands.iter().enumerate() {
            if index != read && *operand != Operand::Unread {
                return Err(format!("a prologue step reads operand {index}: {operand:?}"));
            }
        }
        Ok(operands[read])
    }

    /// Returns the table rows that a prologue step reads. No other step may compute them.
    fn table_rows(
        &mut self,
        step: &Step,
        table: usize,
        operand: Operand,
    ) -> Checked<Vec<Argument>> {
        let program = self.mini_batch.program;
        let Operand::Table { start } = operand else {
            return Err(format!("expected rows of table {table}, got {operand:?}"));
        };
        let rows = self.claim(start, step.calls as usize)?;
        let table = &program.network()[step.cell].tables()[table];
        let width = program.table_width(table);
        // A step that looks rows up runs for all calls of its batch.
        let once = !(start..start + step.calls).any(|entry| self.looked_up.contains_key(&entry));
        let hoisted = &mut self.hoisted[step.cell.index()];
        (start..)
            .zip(rows)
            .map(|(entry, &at)| match (self.looked_up.get(&entry), at / width) {
                (Some(&(source, 0, own)), _) if own == width => Ok(Argument::ArgMax(source)),
                (Some(_), _) => Err(format!("looks up the row at {entry} elsewhere")),
                (None, row) if at % width != 0 || row >= table.rows => {
                    Err(format!("hoists from {at}, which is not a row of the table"))
                }
                (None, row) if once && !hoisted.insert(row) => {
                    Err(format!("row {row} is hoisted twice"))
                }
                (None, row) => Ok(Argument::Row(row)),
            })
            .collect()
    }

    /// Returns the values that a prologue step reads from `operand`. Each must have the record
    /// `record`, because the step's port takes it.
    fn values(
        &self,
        calls: u32,
        record: RecordId,
        operand: Operand,
        written: &Range<u64>,
    ) -> Checked<Vec<Argument>> {
        let rows = match operand {
            Operand::Span { first, stride } => {
                self.span(written.start, first, stride, calls as usize)?
            }
            Operand::List { start } => self.list(start, calls as usize)?.to_vec(),
            other => return Err(format!("expected a span or a list of values, got {other:?}")),
        };
        rows.into_iter().map(|row| self.value_at(row, record, written)).collect()
    }

    fn value_at(&self, row: u32, record: RecordId, written: &Range<u64>) -> Checked<Argument> {
        let graph = self.mini_batch.graph;
        let owner = self.arena.owner(row);
        let Owner::Value(source) = owner else {
            return Err(format!("hoists from {row}, which holds {owner}"));
        };
        let found = match source {
            Source::Given(index) => Some(graph.given()[index]),
            Source::Node(node) => graph.record_of(node.into()),
        };
        if found != Some(record) {
            return Err(format!("hoists from {owner}, which has another record"));
        }
        self.row(row, self.mini_batch.program.record(record).stride, owner, written)?;
        Ok(Argument::Value(source))
    }

    /// Checks the last operand of a batch: each call reads the prologue results for its own
    /// argument.
    pub(super) fn hoisted_rows(&mut self, reading: &Reading<'_>, operand: Operand) -> Checked {
        let kind = reading.batch.kind;
        let hoisted = self.mini_batch.program.cell(kind).hoisted.as_ref().expect("was looked up");
        let calls = reading.batch.nodes.len();
        if let Some(folded) = self.mini_batch.program.folded(kind) {
            return self.folded_rows(reading, folded, operand);
        }
        let rows = match (hoisted.from, operand) {
            (Base::Table(_), Operand::Hoisted { start }) => self.claim(start, calls)?.to_vec(),
            (_, Operand::Span { first, stride }) => {
                self.span(reading.written.start, first, stride, calls)?
            }
            (_, other) => return Err(format!("expected rows of a prologue, got {other:?}")),
        };
        let stride = hoisted.prologue.output_stride;
        for (call, row) in rows.into_iter().enumerate() {
            let argument = self.argument(hoisted, reading, call);
            self.row(row, stride, Owner::Hoisted(kind, argument), &reading.written)?;
        }
        Ok(())
    }

    /// Checks that each call of a batch reads its own row of a folded table.
    fn folded_rows(
        &mut self,
        Reading { batch, .. }: &Reading<'_>,
        folded: FoldedTable,
        operand: Operand,
    ) -> Checked {
        let Operand::Folded { start } = operand else {
            return Err(format!("expected rows of a folded table, got {operand:?}"));
        };
        let rows = self.claim(start, batch.nodes.len())?;
        for ((entry, &got), &node) in (start..).zip(rows).zip(batch.nodes) {
            let row = self.mini_batch.graph.row(node, folded.port);
            if !self.is_row((entry, got), row, (folded.start, folded.stride)) {
                return Err(format!("{node} reads folded tables at {got}, expected row {row}"));
            }
        }
        Ok(())
    }

    /// Returns the argument of the prologue for one call.
    fn argument(&self, hoisted: &Hoisted, reading: &Reading<'_>, call: usize) -> Argument {
        let (graph, node) = (self.mini_batch.graph, reading.batch.nodes[call]);
        match hoisted.table() {
            Some(table) => match graph.row(node, table) {
                Row::Index(row) => Argument::Row(row),
                Row::ArgMax(value) => Argument::ArgMax(value.source()),
            },
            None => {
                let port = hoisted.port().expect("a table or a port");
                Argument::Value(graph.value(node, port).source())
            }
        }
    }
}
