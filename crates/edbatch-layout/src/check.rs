//! Checks that a plan is legal.
//!
//! The checker replays the plan on a map of the arena that records the contents of each cache line.
//! It shares no code with the planner. It returns an error for any invalid plan, and never panics.

mod arena;
mod back;
mod hoisted;
mod lookups;
mod operands;
mod store;

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use edbatch_graph::{Batch, Source};

use crate::plan::{Action, Operand, Plan, Step};
use crate::planner::MiniBatch;
use arena::{Arena, Owner};
pub use back::check_training;
pub use store::check_store;

/// Proves that `plan` computes the graph of a mini-batch, batch by batch in the order of its
/// schedule:
///
/// - every operand has the form that its port takes, and its rows hold the call's arguments in
///   full: no row is overwritten before its last reader;
/// - no step reads rows that it writes, and all rows are within the arena;
/// - each call that runs only a body finds its prologue results, which an earlier step wrote, and
///   no lists of [`Plan::rows`] overlap;
/// - the rows of argmaxes are looked up from the right values, for the step that reads them;
/// - each given value and each wanted value has a row;
/// - no line of the store is written twice.
///
/// [`check_store`] compares what a plan writes to the store with what it reads from there.
///
/// *Cost*: O(arena + edges × cache lines of a row).
///
/// # Errors
/// The first violation.
pub fn check(plan: &Plan, mini_batch: &MiniBatch<'_>) -> Result<(), PlanError> {
    replay(plan, mini_batch).map(|_| ())
}

/// Replays a plan, as [`check`] does.
fn replay<'a>(plan: &'a Plan, mini_batch: &'a MiniBatch<'a>) -> Result<Replay<'a>, PlanError> {
    let at = |step: usize| move |what: String| PlanError { step, what };
    let end = plan.steps.len();
    let batches = plan.steps.iter().filter(|step| step.is_batch()).count();
    if batches != mini_batch.schedule.len() {
        let what = format!("{batches} batch steps, expected {}", mini_batch.schedule.len());
        return Err(at(end)(what));
    }
    let mut replay = Replay::on(Arena::new(plan.arena).map_err(at(0))?, plan, mini_batch);
    replay.given().map_err(at(0))?;
    let mut batches = mini_batch.schedule.batches();
    for (index, step) in plan.steps.iter().enumerate() {
        let entries = replay.look_up(index).map_err(at(index))?;
        let done = match step.action {
            Action::Hoist => replay.hoist(step),
            Action::Call | Action::Body => {
                replay.batch(step, batches.next().expect("a batch for each batch step"))
            }
        };
        done.and_then(|()| replay.all_are_read(entries)).map_err(at(index))?;
    }
    if replay.lookups < plan.lookups.len() {
        return Err(at(end)(format!("lookup {} is of no later step", replay.lookups)));
    }
    replay.wanted().map_err(at(end))?;
    Ok(replay)
}

/// The error for a prologue whose argument is neither a table row nor a value.
pub(crate) const NOT_DIVIDED: &str = "the cell is divided by neither a table nor a port";

/// A value, or a description of the violation.
type Checked<T = ()> = Result<T, String>;

/// The replay of a plan.
struct Replay<'a> {
    plan: &'a Plan,
    mini_batch: &'a MiniBatch<'a>,
    arena: Arena,
    /// The number of operands of all steps replayed before.
    operands: usize,
    /// By element of [`Plan::rows`]: true if an operand replayed before lists it.
    claimed: Vec<bool>,
    /// By kind: the table rows for which its prologue has run.
    hoisted: Vec<HashSet<u32>>,
    /// The number of lookups replayed before.
    lookups: usize,
    /// By entry of [`Plan::rows`] that was looked up: the value, and the offset and width of the
    /// table's rows.
    looked_up: HashMap<u32, (Source, u32, u32)>,
}

/// A batch, and the part of the arena that it writes.
struct Reading<'a> {
    batch: Batch<'a>,
    written: Range<u64>,
}

impl<'a> Replay<'a> {
    fn on(arena: Arena, plan: &'a Plan, mini_batch: &'a MiniBatch<'a>) -> Self {
        Self {
            plan,
            mini_batch,
            arena,
            operands: 0,
            claimed: vec![false; plan.rows.len()],
            hoisted: vec![HashSet::new(); mini_batch.program.cells().len()],
            lookups: 0,
            looked_up: HashMap::new(),
        }
    }

    /// Checks that each given value has its own row.
    fn given(&mut self) -> Checked {
        let &MiniBatch { program, graph, .. } = self.mini_batch;
        let (rows, given) = (&self.plan.given, graph.given());
        if rows.len() != given.len() {
            return Err(format!("{} rows of given values, expected {}", rows.len(), given.len()));
        }
        for (index, (row, &record)) in rows.iter().zip(given).enumerate() {
            if row.record != record {
                return Err(format!(
                    "given value {index}: got {:?}, expected {record:?}",
                    row.record
                ));
            }
            let (start, stride) = (row.start, program.record(record).stride);
            let range = self.arena.rows(start, stride, 1)?;
            if !self.arena.is_free(&range) {
                return Err(format!("given value {index} at {start} overlaps another value"));
            }
            self.arena.write(start, stride, Owner::Value(Source::Given(index)));
        }
        Ok(())
    }

    /// Checks that the operands of a step hold the arguments of the batch's calls. Then records the
    /// batch's results in the map of the arena.
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
        let stride = program.record(cell.row()).stride;
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
            self.arena.write(row, stride, Owner::Value(Source::Node(node)));
        }
        Ok(())
    }

    /// Returns true if a step runs only the body of its cell. Fails if it runs the whole cell
    /// although the prologue reads a table.
    fn is_divided(&self, step: &Step) -> Checked<bool> {
        let hoisted = self.mini_batch.program.cell(step.cell).hoisted.as_ref();
        match (step.action, hoisted) {
            (Action::Body, None) => Err("runs the body of a cell that is not divided".into()),
            (Action::Call, Some(hoisted)) if hoisted.table().is_some() => {
                Err("runs the whole of a cell that is divided by a table".into())
            }
            (action, _) => Ok(action == Action::Body),
        }
    }

    /// Returns the operands of a step, which must follow the operands of the previous step.
    fn operands_of(&mut self, step: &Step, expected: usize) -> Checked<&'a [Operand]> {
        let start = step.operands as usize;
        if start != self.operands {
            return Err(format!("operands start at {start}, expected {}", self.operands));
        }
        self.operands += expected;
        let operands = self.plan.operands.get(start..self.operands);
        operands.ok_or_else(|| format!("expected {expected} operands, got fewer"))
    }

    /// Checks that each wanted value is still in its row after the last step.
    fn wanted(&self) -> Checked {
        let (operands, read) = (self.plan.operands.len(), self.operands);
        if operands != read {
            return Err(format!("{operands} operands, but the steps use {read}"));
        }
        let (rows, wanted) = (&self.plan.wanted, self.mini_batch.wanted);
        if rows.len() != wanted.len() {
            return Err(format!("{} rows of wanted values, expected {}", rows.len(), wanted.len()));
        }
        for (index, (&(row, want), &(value, expected))) in rows.iter().zip(wanted).enumerate() {
            let record = self.mini_batch.graph.record_of(value);
            if want != expected || Some(row.record) != record {
                let got = (row.record, want);
                return Err(format!("wanted value {index}: got {got:?}, expected {expected:?}"));
            }
            self.holds(row.start, value, &(0..0))?;
        }
        store::written(self.plan, self.mini_batch.program).map(|_| ())
    }
}

/// A violation in a plan.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("step {step}: {what}")]
pub struct PlanError {
    /// The index of the step, or the number of steps for a violation after the last one.
    pub step: usize,
    /// A description of the violation.
    pub what: String,
}
