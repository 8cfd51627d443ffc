//! Checks that a compiled cell computes the equations of its declaration.
//!
//! Declaration and plan are evaluated symbolically: the declaration operation by operation, the
//! plan step by step over a memory of terms. If each element of the output is the same term, the
//! plan performs the same operations on the same operands in the same order. With kernels that do
//! the same, results are bit-identical.

mod declared;
mod memory;
mod steps;
mod terms;

use edbatch_graph::Kind;

use crate::cell_plan::{Base, CellPlan, Hoisted};
use crate::check::{NOT_DIVIDED, PlanError};
use crate::program::Program;
use crate::record_layout::LINE;
use memory::{Memory, Readable};
use terms::{Term, Terms};

/// Proves that a compiled cell computes the declared terms in each field of its output. Also proves
/// that its steps, and the steps of its prologue and body,
///
/// - read only elements written before;
/// - write within their regions, and only accumulating products read a region that they write;
/// - read a single argument, if they are steps of the prologue.
///
/// The operands of an addition or a multiplication may be swapped, which changes no bit.
///
/// *Cost*: O(elements of scratch and parameters × steps); meant for tests.
///
/// # Errors
/// The first violation, with the index of its step. The plan of the whole cell is checked first,
/// then the prologue, then the body.
pub fn check_cell(program: &Program, kind: Kind, plan: &CellPlan) -> Result<(), PlanError> {
    let cell = Declared { program, kind, plan };
    let mut terms = Terms::default();
    cell.frame().map_err(|what| cell.error(0, what))?;
    let declared = declared::outputs(program, kind, &mut terms);
    let whole = cell.run(plan, Readable::Call, &mut terms)?;
    cell.expect_outputs(&whole, &declared)?;
    let Some(hoisted) = &plan.hoisted else { return Ok(()) };
    cell.parts(hoisted).map_err(|what| cell.error(0, what))?;
    let handed_on = cell.run(&hoisted.prologue, Readable::Only(hoisted.from), &mut terms)?;
    let body = cell.run(&hoisted.body, Readable::CallAnd(&handed_on), &mut terms)?;
    cell.expect_outputs(&body, &declared)
}

/// A value, or a description of the violation.
type Checked<T = ()> = Result<T, String>;

/// For each element, the term that was written there.
type Elements = Vec<Option<Term>>;

/// A cell of a program, and the plan that should compute it.
struct Declared<'a> {
    program: &'a Program,
    kind: Kind,
    plan: &'a CellPlan,
}

impl Declared<'_> {
    fn error(&self, step: usize, what: String) -> PlanError {
        PlanError { step, what: format!("{}: {what}", self.plan.name) }
    }

    /// Checks that the output row has the layout of the cell's row.
    fn frame(&self) -> Checked {
        let cell = &self.program.network()[self.kind];
        let record = self.program.record(cell.row());
        let ends = record.offsets.iter().zip(&record.widths).map(|(offset, width)| offset + width);
        let (width, stride) = (ends.max().unwrap_or(0), record.stride);
        let CellPlan { name, output_width, output_stride, .. } = self.plan;
        if name != cell.name() {
            return Err(format!("a plan of cell {name}, expected cell {}", cell.name()));
        }
        if (*output_width, *output_stride) != (width, stride) {
            let got = format!("{output_width} elements with stride {output_stride}");
            return Err(format!("writes {got}, expected {width} with stride {stride}"));
        }
        Ok(())
    }

    /// Checks that prologue and body fit together and belong to this cell.
    fn parts(&self, Hoisted { from, prologue, body }: &Hoisted) -> Checked {
        if !matches!(from, Base::Table(_) | Base::Port(_)) {
            return Err(NOT_DIVIDED.into());
        }
        if prologue.hoisted.is_some() || body.hoisted.is_some() {
            return Err("a part of a divided cell is divided".into());
        }
        let (width, stride) = (prologue.output_width, prologue.output_stride);
        if width > stride || !(stride as usize).is_multiple_of(LINE) || stride == 0 {
            return Err(format!("hoisted rows of {width} elements with stride {stride}"));
        }
        let whole = |plan: &CellPlan| (plan.output_width, plan.output_stride);
        if whole(body) != whole(self.plan) {
            return Err("the body of a divided cell has another output than the whole".into());
        }
        if prologue.name != self.plan.name || body.name != self.plan.name {
            return Err("a part belongs to another cell".into());
        }
        Ok(())
    }

    /// Runs the steps of a plan. Returns the contents of its output row.
    fn run(
        &self,
        plan: &CellPlan,
        readable: Readable<'_>,
        terms: &mut Terms,
    ) -> Result<Elements, PlanError> {
        let mut memory = Memory::new(self.program, self.kind, plan, readable);
        for (index, step) in plan.steps.iter().enumerate() {
            steps::run(step, &mut memory, terms)
                .map_err(|what| self.error(index, format!("{step}: {what}")))?;
        }
        Ok(memory.into_output())
    }

    /// Checks that each field of the output consists of the declared terms.
    fn expect_outputs(&self, output: &Elements, declared: &[Vec<Term>]) -> Result<(), PlanError> {
        let record = self.program.record(self.program.network()[self.kind].row());
        for (field, (&offset, declared)) in record.offsets.iter().zip(declared).enumerate() {
            for (element, &term) in declared.iter().enumerate() {
                let what = match output.get(offset as usize + element) {
                    Some(&Some(found)) if found == term => continue,
                    Some(Some(_)) => "differs from the declared value",
                    _ => "never written",
                };
                let what = format!("field {field}, element {element}: {what}");
                return Err(self.error(self.plan.steps.len(), what));
            }
        }
        Ok(())
    }
}
