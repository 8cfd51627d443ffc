//! An independent proof that a compiled cell computes what the cell declares.
//!
//! Both are evaluated on terms instead of numbers: the declaration operation by operation, the plan
//! step by step over a memory of terms. Where each element of the output is the same term, the plan
//! computes the same operations on the same operands in the same order, and so the same bits, given
//! kernels that do.

mod declared;
mod memory;
mod steps;
mod terms;

use edbatch_graph::Kind;

use crate::cell_plan::{Base, CellPlan, Hoisted};
use crate::check::PlanError;
use crate::program::Program;
use crate::record_layout::LINE;
use memory::{Memory, Readable};
use terms::{Term, Terms};

/// Proves that the steps of a compiled cell, and those of the prologue and the body that it may be
/// divided into, compute what the program's network declares for the cell of this kind: that they
/// read only what was written before, write within their regions, never read a region while they
/// write it, and leave in each field of the output the declared term. The prologue reads one
/// argument alone.
///
/// Additions and multiplications of two operands may be the other way around, which changes no bit;
/// nothing else may. *Cost*: O(elements of scratch and parameters × steps), for tests.
///
/// # Errors
/// The first violation, with the step's index: in the whole cell, then in the prologue, then in the
/// body.
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

/// Nothing or a value, or what is wrong in words.
type Checked<T = ()> = Result<T, String>;

/// By element: the term that was written there, if one was.
type Elements = Vec<Option<Term>>;

/// A cell of a program, and a plan that is to compute it.
struct Declared<'a> {
    program: &'a Program,
    kind: Kind,
    plan: &'a CellPlan,
}

impl Declared<'_> {
    fn error(&self, step: usize, what: String) -> PlanError {
        PlanError { step, what: format!("{}: {what}", self.plan.name) }
    }

    /// The output row is that of the cell's record.
    fn frame(&self) -> Checked {
        let cell = &self.program.network()[self.kind];
        let record = self.program.record(cell.record());
        let ends = record.offsets.iter().zip(&record.widths).map(|(offset, width)| offset + width);
        let (width, stride) = (ends.max().unwrap_or(0), record.stride);
        let CellPlan { name, output_width, output_stride, .. } = self.plan;
        if name != cell.name() {
            return Err(format!("the plan of {}, expected that of {}", name, cell.name()));
        }
        if (*output_width, *output_stride) != (width, stride) {
            let got = format!("{output_width} elements every {output_stride}");
            return Err(format!("writes {got}, expected {width} every {stride}"));
        }
        Ok(())
    }

    /// The parts of a divided cell fit together.
    fn parts(&self, Hoisted { from, prologue, body }: &Hoisted) -> Checked {
        if !matches!(from, Base::Table(_) | Base::Port(_)) {
            return Err("a cell is divided by a table or by a port".into());
        }
        if prologue.hoisted.is_some() || body.hoisted.is_some() {
            return Err("a part of a divided cell is divided".into());
        }
        let (width, stride) = (prologue.output_width, prologue.output_stride);
        if width > stride || !(stride as usize).is_multiple_of(LINE) || stride == 0 {
            return Err(format!("hoisted rows of {width} elements every {stride}"));
        }
        let whole = |plan: &CellPlan| (plan.output_width, plan.output_stride);
        if whole(body) != whole(self.plan) {
            return Err("the body of a divided cell writes other rows than the whole".into());
        }
        if prologue.name != self.plan.name || body.name != self.plan.name {
            return Err("parts of another cell".into());
        }
        Ok(())
    }

    /// What the steps of a plan leave in its output row.
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

    /// Each field of the output is what is declared.
    fn expect_outputs(&self, output: &Elements, declared: &[Vec<Term>]) -> Result<(), PlanError> {
        let record = self.program.network()[self.kind].record();
        let record = self.program.record(record);
        for (field, (&offset, declared)) in record.offsets.iter().zip(declared).enumerate() {
            for (element, &term) in declared.iter().enumerate() {
                let what = match output.get(offset as usize + element) {
                    Some(&Some(found)) if found == term => continue,
                    Some(Some(_)) => "another value than is declared",
                    _ => "never written",
                };
                let what = format!("field {field}, element {element}: {what}");
                return Err(self.error(self.plan.steps.len(), what));
            }
        }
        Ok(())
    }
}
