//! An independent proof that a plan is legal.

use std::fmt;

use edbatch_graph::{Graph, Kind, NodeId, Source, Value};

use crate::cell_plan::Base;
use crate::plan::{Action, Operand, Plan, Step};
use crate::planner::MiniBatch;
use crate::program::Program;
use crate::record_layout::LINE;

/// Who owns a cache line of the arena: nobody, given value `g` as `g`, node `n` as `NODES + n`,
/// or what a cell makes ahead of a row of its table or of one of those owners.
const NOBODY: u64 = u64::MAX;
const NODES: u64 = 1 << 32;
const HOISTED: u64 = 1 << 60;

/// Proves that `plan` does what `graph` says when its batches run in the order of `schedule`:
/// every operand is found where the step says, nothing was overwritten before its last reader ran,
/// rows of a batch do not overlap, and all lie within the arena.
///
/// It replays the plan on a map of the arena's cache lines. *Cost*: O(arena + edges).
///
/// # Errors
/// The first violation.
pub fn check(plan: &Plan, mini_batch: &MiniBatch<'_>) -> Result<(), PlanError> {
    let &MiniBatch { program, graph, schedule, wanted } = mini_batch;
    let mut arena = Arena { owner: vec![NOBODY; plan.arena.div_ceil(LINE)] };
    for (index, (&row, &record)) in plan.given.iter().zip(graph.given()).enumerate() {
        arena.write(row, program.record(record).stride, index as u64, 0)?;
    }
    let calls = plan.steps.iter().filter(|step| step.is_batch()).count();
    if calls != schedule.len() {
        let what = format!("{calls} calls for {} batches", schedule.len());
        return Err(PlanError { step: plan.steps.len(), what });
    }
    let mut batches = schedule.batches();
    for (index, step) in plan.steps.iter().enumerate() {
        if !step.is_batch() {
            hoist(plan, program, &mut arena, index, step)?;
            continue;
        }
        let batch = batches.next().expect("as many as calls");
        if step.cell != batch.kind || step.calls as usize != batch.nodes.len() {
            let what = "another cell or number of calls than the batch's".into();
            return Err(PlanError { step: index, what });
        }
        for (call, &node) in batch.nodes.iter().enumerate() {
            check_call(plan, program, graph, &arena, (index, call), node)?;
        }
        let stride = program.cell(step.cell).output_stride;
        for (call, &node) in batch.nodes.iter().enumerate() {
            let row = step.out + call as u32 * stride;
            arena.write(row, stride, NODES + u64::from(node.0), index)?;
        }
    }
    for (&value, &row) in wanted.iter().zip(&plan.wanted) {
        arena.expect(row, value, plan.steps.len())?;
    }
    Ok(())
}

/// Replays what is hoisted.
fn hoist(
    plan: &Plan,
    program: &Program,
    arena: &mut Arena,
    index: usize,
    step: &Step,
) -> Result<(), PlanError> {
    let error = |what: &str| Err(PlanError { step: index, what: what.into() });
    let Some(hoisted) = &program.cell(step.cell).hoisted else {
        return error("nothing of the cell is hoisted");
    };
    if !matches!(step.action, Action::Hoist { room } if step.calls <= room) {
        return error("more rows than there is room for");
    }
    let cell = &program.network()[step.cell];
    let read = match hoisted.from {
        Base::Table(table) => usize::from(table),
        Base::Port(port) => cell.tables().len() + usize::from(port),
        _ => return error("a cell is divided by a table or by a port"),
    };
    let operands = plan.operands_of(index);
    if operands.len() != cell.tables().len() + cell.ports().len() {
        return error("an operand for each table and each port was expected");
    }
    let stride = hoisted.ahead.output_stride;
    for call in 0..step.calls {
        let argument = match (hoisted.table(), operands[read]) {
            (Some(table), Operand::Table { start }) => {
                let from = plan.rows(start, step.calls)[call as usize];
                u64::from(from / program.table_width(&cell.tables()[table]))
            }
            (None, Operand::Span { first, stride }) => arena.owner(first + call * stride),
            (None, Operand::List { start }) => {
                arena.owner(plan.list(start, step.calls)[call as usize])
            }
            _ => return error("a list of rows was expected where the hoisted part reads"),
        };
        arena.write(step.out + call * stride, stride, hoisted_row(step.cell, argument), index)?;
    }
    Ok(())
}

/// The owner of what a cell makes ahead of a row of its table, or of a value.
fn hoisted_row(cell: Kind, argument: u64) -> u64 {
    HOISTED + (u64::from(cell.0) << 34) + argument.min((1 << 34) - 1)
}

fn check_call(
    plan: &Plan,
    program: &Program,
    graph: &Graph,
    arena: &Arena,
    (step, call): (usize, usize),
    node: NodeId,
) -> Result<(), PlanError> {
    let error = |what: String| Err(PlanError { step, what });
    let operands = plan.operands_of(step);
    let rows = graph.rows(node);
    let calls = plan.steps[step].calls;
    let tables = program.network()[plan.steps[step].cell].tables();
    for (port, ((operand, &row), table)) in operands.iter().zip(rows).zip(tables).enumerate() {
        let start = match *operand {
            Operand::Table { start } => start,
            Operand::Unread if !program.reads_table(plan.steps[step].cell, port) => continue,
            _ => return error("a port's operand where a table's was expected".into()),
        };
        if plan.rows(start, calls)[call] != row * program.table_width(table) {
            return error(format!("{node} reads another row of a table than {row}"));
        }
    }
    let ports = rows.len() + program.network()[plan.steps[step].cell].ports().len();
    let hoisted = program.cell(plan.steps[step].cell).hoisted.as_ref();
    if let Some(hoisted) = hoisted.filter(|_| plan.steps[step].action == Action::Rest) {
        let row = match operands.get(ports) {
            Some(&Operand::Hoisted { start }) => plan.rows(start, calls)[call],
            Some(&Operand::Span { first, stride }) => first + call as u32 * stride,
            _ => return error("no rows of what was hoisted".into()),
        };
        let argument = match hoisted.port() {
            None => u64::from(rows[hoisted.table().expect("a table or a port")]),
            Some(port) => owner_of(graph.value(node, port)),
        };
        arena.owns(row, hoisted_row(plan.steps[step].cell, argument), step)?;
    } else if hoisted.is_some_and(|hoisted| hoisted.table().is_some()) {
        return error("a whole cell that is divided by a table".into());
    } else if operands.len() != ports {
        return error("an operand for each table and each port was expected".into());
    }
    let Step { cell, out, .. } = plan.steps[step];
    let written = out..out + calls * program.cell(cell).output_stride;
    let mut values = graph.values(node);
    for operand in &operands[rows.len()..ports] {
        let found: Vec<u32> = match *operand {
            Operand::Table { .. } | Operand::Unread | Operand::Hoisted { .. } => {
                return error("rows of a table where a port's operand was expected".into());
            }
            Operand::Span { first, stride } => {
                if first < out && first + (calls - 1) * stride > out {
                    return error("a span on both sides of what its batch writes".into());
                }
                vec![first + call as u32 * stride]
            }
            Operand::List { start } => vec![plan.list(start, calls)[call]],
            Operand::Many { ends, rows } => {
                let ends = plan.list(ends, calls);
                let begin = if call == 0 { 0 } else { ends[call - 1] };
                plan.list(rows + begin, ends[call] - begin).to_vec()
            }
        };
        for row in found {
            if written.contains(&row) {
                return error(format!("{node} reads a row at {row} that its batch writes"));
            }
            match values.next() {
                Some(value) => arena.expect(row, value, step)?,
                None => return error(format!("{node} reads more values than it has arguments")),
            }
        }
    }
    match values.next() {
        Some(_) => error(format!("{node} reads fewer values than it has arguments")),
        None => Ok(()),
    }
}

/// The owner of a value's row.
fn owner_of(value: Value) -> u64 {
    match value.source() {
        Source::Node(node) => NODES + u64::from(node.0),
        Source::Given(index) => index as u64,
    }
}

struct Arena {
    owner: Vec<u64>,
}

impl Arena {
    fn write(&mut self, row: u32, stride: u32, owner: u64, step: usize) -> Result<(), PlanError> {
        let lines = row as usize / LINE..(row + stride) as usize / LINE;
        if !(row as usize).is_multiple_of(LINE) || lines.end > self.owner.len() {
            let what = format!("a row at {row}, not aligned or beyond the arena");
            return Err(PlanError { step, what });
        }
        self.owner[lines].fill(owner);
        Ok(())
    }

    fn expect(&self, row: u32, value: Value, step: usize) -> Result<(), PlanError> {
        self.owns(row, owner_of(value), step)
    }

    /// Who owns a row; nobody owns what is no row.
    fn owner(&self, row: u32) -> u64 {
        let is_row = (row as usize).is_multiple_of(LINE);
        self.owner.get(row as usize / LINE).copied().filter(|_| is_row).unwrap_or(NOBODY)
    }

    fn owns(&self, row: u32, expected: u64, step: usize) -> Result<(), PlanError> {
        if self.owner(row) == expected {
            return Ok(());
        }
        let owner = match expected {
            HOISTED.. => "what was hoisted for the call".to_string(),
            NODES.. => format!("node {}", expected - NODES),
            _ => format!("given value {expected}"),
        };
        Err(PlanError { step, what: format!("expected {owner} at {row}") })
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
