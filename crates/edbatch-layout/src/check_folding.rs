//! Checks that a plan computes all folded tables of a program.

use edbatch_graph::Kind;

use crate::PlanError;
use crate::plan::{Action, Operand, Plan, Step};
use crate::program::Program;
use crate::record_layout::LINE;

/// Proves that `plan` writes every row of every [folded table](crate::FoldedTable) to its place,
/// and nothing else; so no two tables overlap. Steps may run in any order.
///
/// *Cost*: O(cache lines of all folded tables).
///
/// # Errors
/// The first violation.
pub fn check_folding(plan: &Plan, program: &Program) -> Result<(), PlanError> {
    let end = plan.steps.len();
    let Plan { steps, operands, lists, rows, lookups, arena, given, wanted } = plan;
    let at = |step| move |what| PlanError { step, what };
    let elements = program.folded_elements();
    if *arena != elements {
        return Err(at(end)(format!("an arena of {arena} elements, expected {elements}")));
    }
    if !(lists.is_empty() && lookups.is_empty() && given.is_empty() && wanted.is_empty()) {
        return Err(at(end)("has given values, wanted values, lookups or lists".into()));
    }
    let mut folding = Folding { plan, program, lines: vec![None; arena / LINE] };
    let (mut next_operand, mut next_row) = (0, 0);
    for (index, step) in steps.iter().enumerate() {
        if step.operands as usize != next_operand {
            let what = format!("operands start at {}, expected {next_operand}", step.operands);
            return Err(at(index)(what));
        }
        next_operand += folding.step(step, next_row).map_err(at(index))?;
        next_row += step.calls as usize;
    }
    if (next_operand, next_row) != (operands.len(), rows.len()) {
        return Err(at(end)("operands or rows without a step".into()));
    }
    folding.is_whole().map_err(at(end))
}

/// The replay of a plan.
struct Folding<'a> {
    plan: &'a Plan,
    program: &'a Program,
    /// By cache line: the cell and table row whose result it holds, and its index in the result.
    lines: Vec<Option<(Kind, u32, u32)>>,
}

impl Folding<'_> {
    /// Replays a step, which reads its rows from `first_row` on. Returns the number of its
    /// operands.
    fn step(&mut self, step: &Step, first_row: usize) -> Result<usize, String> {
        let Self { plan, program, lines } = self;
        let kinds = program.cells().len();
        let folded = Some(step.cell).filter(|kind| kind.index() < kinds);
        let folded = folded.and_then(|kind| program.folded(kind));
        let folded = folded.ok_or_else(|| format!("the table of {} is not folded", step.cell))?;
        if step.action != Action::Hoist {
            return Err(format!("{:?} for {} rows", step.action, step.calls));
        }
        let cell = &program.network()[step.cell];
        let count = cell.tables().len() + cell.ports().len();
        let operands = plan.operands.get(step.operands as usize..).unwrap_or_default();
        let operands = operands.get(..count).ok_or("too few operands")?;
        for (index, operand) in operands.iter().enumerate() {
            let expected = match index == folded.port {
                true => Operand::Table { start: first_row as u32 },
                false => Operand::Unread,
            };
            if *operand != expected {
                return Err(format!("operand {index} is {operand:?}, expected {expected:?}"));
            }
        }
        let rows = plan.rows.get(first_row..first_row + step.calls as usize);
        let width = program.table_width(&cell.tables()[folded.port]);
        let mut out = step.out as usize;
        for &at in rows.ok_or("too few rows")? {
            if at % width != 0 || at / width >= folded.rows || !out.is_multiple_of(LINE) {
                return Err(format!("computes {out} from {at}, which is not a row of the table"));
            }
            for index in 0..folded.stride / LINE as u32 {
                let line = lines.get_mut(out / LINE).ok_or("a row beyond the folded tables")?;
                if line.replace((step.cell, at / width, index)).is_some() {
                    return Err(format!("the line at {out} is written twice"));
                }
                out += LINE;
            }
        }
        Ok(count)
    }

    /// Checks that every row of every folded table is in its place.
    fn is_whole(&self) -> Result<(), String> {
        for kind in (0..self.program.cells().len()).map(Kind::new) {
            let Some(folded) = self.program.folded(kind) else { continue };
            let of_row = folded.stride / LINE as u32;
            let expected = (0..folded.rows)
                .flat_map(|row| (0..of_row).map(move |index| Some((kind, row, index))));
            let first = folded.start as usize / LINE;
            let lines = self.lines.get(first..).unwrap_or_default();
            let count = (folded.rows * of_row) as usize;
            if lines.len() < count || !lines[..count].iter().copied().eq(expected) {
                return Err(format!("the folded table of {kind} is incomplete"));
            }
        }
        Ok(())
    }
}
