//! An independent proof that a plan is legal.
//!
//! The plan is replayed on a map of the arena that says of each cache line what it holds. The
//! checker shares no code with the planner, and refuses a spoilt plan with an error: it never
//! panics on one.

mod arena;
mod hoisted;
mod operands;

use std::fmt;
use std::ops::Range;

use edbatch_graph::Batch;

use crate::plan::{Action, Operand, Plan, Step};
use crate::planner::MiniBatch;
use arena::{Arena, Owner};

/// Proves that `plan` does what `graph` says when its batches run in the order of `schedule`:
///
/// - every operand has the form that its port takes, and its rows hold what the call's arguments
///   name, each of them whole: nothing was overwritten before its last reader ran;
/// - no step reads what it writes, and all rows lie within the arena;
/// - what is hoisted is there for each call that needs it, and its capacity is left alone, so that
///   the plan may be refilled: no list of [`Plan::rows`] overlaps another;
/// - the given and the wanted values have a row each.
///
/// *Cost*: O(arena + edges × lines of a row).
///
/// # Errors
/// The first violation.
pub fn check(plan: &Plan, mini_batch: &MiniBatch<'_>) -> Result<(), PlanError> {
    let at = |step: usize| move |what: String| PlanError { step, what };
    let end = plan.steps.len();
    let batches = plan.steps.iter().filter(|step| step.is_batch()).count();
    if batches != mini_batch.schedule.len() {
        let what = format!("{batches} calls for {} batches", mini_batch.schedule.len());
        return Err(at(end)(what));
    }
    let mut replay = Replay::new(plan, mini_batch).map_err(at(0))?;
    replay.given().map_err(at(0))?;
    let mut batches = mini_batch.schedule.batches();
    for (index, step) in plan.steps.iter().enumerate() {
        let done = match step.action {
            Action::Hoist { capacity } => replay.hoist(step, capacity),
            Action::Call | Action::Body => {
                replay.batch(step, batches.next().expect("as many as calls"))
            }
        };
        done.map_err(at(index))?;
    }
    replay.wanted().map_err(at(end))
}

/// Nothing or a value, or what is wrong in words.
type Checked<T = ()> = Result<T, String>;

/// A plan that is being replayed, step by step.
struct Replay<'a> {
    plan: &'a Plan,
    mini_batch: &'a MiniBatch<'a>,
    arena: Arena,
    /// How many of the plan's operands belong to the steps so far.
    operands: usize,
    /// By element of [`Plan::rows`]: whether it belongs to a list of an operand so far.
    claimed: Vec<bool>,
    /// By kind: whether something was hoisted for its table.
    hoisted: Vec<bool>,
}

/// A batch and the part of the arena that it writes.
struct Reading<'a> {
    batch: Batch<'a>,
    written: Range<u64>,
}

impl<'a> Replay<'a> {
    fn new(plan: &'a Plan, mini_batch: &'a MiniBatch<'a>) -> Checked<Self> {
        Ok(Self {
            plan,
            mini_batch,
            arena: Arena::new(plan.arena, mini_batch.program.cells().len())?,
            operands: 0,
            claimed: vec![false; plan.rows.len()],
            hoisted: vec![false; mini_batch.program.cells().len()],
        })
    }

    /// Each given value has a row to itself.
    fn given(&mut self) -> Checked {
        let &MiniBatch { program, graph, .. } = self.mini_batch;
        let (rows, given) = (&self.plan.given, graph.given());
        if rows.len() != given.len() {
            return Err(format!("{} rows for {} given values", rows.len(), given.len()));
        }
        for (index, (row, &record)) in rows.iter().zip(given).enumerate() {
            if row.record != record {
                return Err(format!(
                    "given value {index} of {:?}, expected {record:?}",
                    row.record
                ));
            }
            let (start, stride) = (row.start, program.record(record).stride);
            let range = self.arena.rows(start, stride, 1)?;
            if !self.arena.is_free(&range) {
                return Err(format!("given value {index} at {start} overlaps another"));
            }
            self.arena.write(start, stride, Owner::Given(index));
        }
        Ok(())
    }

    /// A batch finds all that its calls read, and writes a row for each.
    fn batch(&mut self, step: &Step, batch: Batch<'_>) -> Checked {
        let calls = batch.nodes.len();
        if step.cell != batch.kind || step.calls as usize != calls {
            let Step { cell, calls: got, .. } = step;
            return Err(format!("{got} calls of {cell}, expected {calls} of {}", batch.kind));
        }
        let program = self.mini_batch.program;
        let cell = &program.network()[batch.kind];
        let (tables, ports) = (cell.tables().len(), cell.ports().len());
        let divided = self.is_divided(step)?;
        let operands = self.operands_of(step, tables + ports + usize::from(divided))?;
        let stride = program.record(cell.record()).stride;
        let reading = Reading { batch, written: self.arena.rows(step.out, stride, step.calls)? };
        for (table, &operand) in operands[..tables].iter().enumerate() {
            self.table(&reading, table, operand)?;
        }
        for (port, &operand) in operands[tables..][..ports].iter().enumerate() {
            self.port(&reading, port, operand)?;
        }
        if divided {
            self.hoisted_rows(&reading, operands[tables + ports])?;
        }
        for (row, &node) in (step.out..).step_by(stride as usize).zip(batch.nodes) {
            self.arena.write(row, stride, Owner::Node(node));
        }
        if divided && self.arena.is_spoilt(step.cell) {
            return Err("part of what was hoisted is written over".into());
        }
        Ok(())
    }

    /// Whether a batch calls the body of a divided cell; it must if a table divides it.
    fn is_divided(&self, step: &Step) -> Checked<bool> {
        let hoisted = self.mini_batch.program.cell(step.cell).hoisted.as_ref();
        match (step.action, hoisted) {
            (Action::Body, None) => Err("calls the body of a cell that is not divided".into()),
            (Action::Call, Some(hoisted)) if hoisted.table().is_some() => {
                Err("calls the whole of a cell that is divided by a table".into())
            }
            (action, _) => Ok(action == Action::Body),
        }
    }

    /// The operands of a step, which follow those of the step before.
    fn operands_of(&mut self, step: &Step, expected: usize) -> Checked<&'a [Operand]> {
        let start = step.operands as usize;
        if start != self.operands {
            return Err(format!("operands from {start} on, expected from {}", self.operands));
        }
        self.operands += expected;
        let operands = self.plan.operands.get(start..self.operands);
        operands.ok_or_else(|| format!("expected {expected} operands, got fewer"))
    }

    /// Each wanted value is still in its row when all steps have run.
    fn wanted(&self) -> Checked {
        let (operands, read) = (self.plan.operands.len(), self.operands);
        if operands != read {
            return Err(format!("{operands} operands, of which the steps have {read}"));
        }
        let (rows, wanted) = (&self.plan.wanted, self.mini_batch.wanted);
        if rows.len() != wanted.len() {
            return Err(format!("{} rows for {} wanted values", rows.len(), wanted.len()));
        }
        for (index, (&(row, want), &(value, expected))) in rows.iter().zip(wanted).enumerate() {
            let record = self.mini_batch.graph.record_of(value);
            if want != expected || Some(row.record) != record {
                let got = (row.record, want);
                return Err(format!("wanted value {index} for {got:?}, expected {expected:?}"));
            }
            self.holds(row.start, value, &(0..0))?;
        }
        Ok(())
    }
}

/// Where a plan is wrong, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlanError {
    /// The step; the number of steps if it is about what is read afterwards.
    pub step: usize,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {}: {}", self.step, self.what)
    }
}

impl std::error::Error for PlanError {}
