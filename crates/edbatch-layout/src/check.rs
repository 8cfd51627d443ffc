//! An independent proof that a plan is legal.

use std::fmt;

use edbatch_graph::{Graph, Kind, NodeId, Source, Value};

use crate::plan::{Action, Operand, Plan, Step};
use crate::planner::MiniBatch;
use crate::program::Program;
use crate::record_layout::{LINE, next_line};

/// Who owns a cache line of the arena: nobody, given value `g` as `g`, node `n` as `NODES + n`,
/// or a hoisted row.
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
    let calls = plan.steps.iter().filter(|step| step.action == Action::Call).count();
    if calls != schedule.len() {
        let what = format!("{calls} calls for {} batches", schedule.len());
        return Err(PlanError { step: plan.steps.len(), what });
    }
    let mut batches = schedule.batches();
    for (index, step) in plan.steps.iter().enumerate() {
        if step.action != Action::Call {
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

/// Replays a hoisted product.
fn hoist(
    plan: &Plan,
    program: &Program,
    arena: &mut Arena,
    index: usize,
    step: &Step,
) -> Result<(), PlanError> {
    let error = |what: &str| Err(PlanError { step: index, what: what.into() });
    let Some(hoisted) = &program.cell(step.cell).hoisted else {
        return error("the cell has no hoisted product");
    };
    let &[Operand::Table { start }] = plan.operands_of(index) else {
        return error("a hoisted product reads one list of rows");
    };
    if !matches!(step.action, Action::Hoist { room } if step.calls <= room) {
        return error("more rows than there is room for");
    }
    let stride = next_line(hoisted.rows as usize) as u32;
    let table = &program.network()[step.cell].tables()[usize::from(hoisted.table)];
    for (call, &from) in (0..).zip(plan.rows(start, step.calls)) {
        let row = from / program.table_width(table);
        arena.write(step.out + call * stride, stride, hoisted_row(step.cell, row), index)?;
    }
    Ok(())
}

/// The owner of the hoisted result of a row.
fn hoisted_row(cell: Kind, row: u32) -> u64 {
    HOISTED + (u64::from(cell.0) << 32) + u64::from(row)
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
    if let Some(hoisted) = &program.cell(plan.steps[step].cell).hoisted {
        let Some(&Operand::Hoisted { start }) = operands.get(ports) else {
            return error("no list of the hoisted product's rows".into());
        };
        let owner = hoisted_row(plan.steps[step].cell, rows[usize::from(hoisted.table)]);
        arena.owns(plan.rows(start, calls)[call], owner, step)?;
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
        let expected = match value.source() {
            Source::Node(node) => NODES + u64::from(node.0),
            Source::Given(index) => index as u64,
        };
        self.owns(row, expected, step)
    }

    fn owns(&self, row: u32, expected: u64, step: usize) -> Result<(), PlanError> {
        match self.owner.get(row as usize / LINE) {
            Some(&owner) if owner == expected && (row as usize).is_multiple_of(LINE) => Ok(()),
            _ => {
                let owner = match expected {
                    HOISTED.. => format!("the hoisted row {}", expected & (NODES - 1)),
                    NODES.. => format!("node {}", expected - NODES),
                    _ => format!("given value {expected}"),
                };
                let what = format!("expected {owner} at {row}");
                Err(PlanError { step, what })
            }
        }
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
