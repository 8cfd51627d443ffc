//! Liveness of compiled cells. A step may compute some elements that nothing reads; changes of
//! these are harmless.

use std::collections::HashSet;

use edbatch_layout::{Base, CellPlan, CellStep, Elementwise, Mode, Place};

use super::cells::CellPart;

/// Returns copies of a cell's plan, each without one step of the cell or of one of its parts.
pub(crate) fn without_a_step(plan: &CellPlan) -> Vec<CellPlan> {
    let mut made = Vec::new();
    for part in [CellPart::Whole, CellPart::Prologue, CellPart::Body] {
        let steps = part.of(&mut plan.clone()).map_or(0, |plan| plan.steps.len());
        for step in 0..steps {
            let mut mutant = plan.clone();
            part.of(&mut mutant).expect("it has steps").steps.remove(step);
            made.push(mutant);
        }
    }
    made
}

/// Returns true if every element that a step computes reaches the output, in the whole cell and in
/// its parts.
pub(crate) fn all_is_live(plan: &CellPlan) -> bool {
    let output = |plan: &CellPlan| (0..plan.output_width).collect();
    let Some(hoisted) = &plan.hoisted else { return is_read(plan, output(plan)) };
    let reads = hoisted.body.steps.iter().flat_map(CellStep::reads).flat_map(elements);
    let handed_on = reads.filter(|(base, _)| *base == Base::Hoisted).map(|(_, element)| element);
    is_read(plan, output(plan))
        && is_read(&hoisted.prologue, handed_on.collect())
        && is_read(&hoisted.body, output(&hoisted.body))
}

/// Returns true if all steps are live, given the live elements of the output.
fn is_read(plan: &CellPlan, output: Vec<u32>) -> bool {
    let mut read: HashSet<(Base, u32)> =
        output.into_iter().map(|element| (Base::Output, element)).collect();
    plan.steps.iter().rev().all(|step| {
        let written: Vec<(Base, u32)> = step.writes().into_iter().flat_map(elements).collect();
        let mut live = !written.is_empty() && written.iter().all(|element| read.contains(element));
        if let CellStep::Elementwise { program, .. } = step {
            live &= is_live(program);
        }
        if !matches!(step, CellStep::Product { mode: Mode::Add, .. }) {
            read.retain(|element| !written.contains(element));
        }
        read.extend(step.reads().into_iter().flat_map(elements));
        live
    })
}

fn elements((place, width): (Place, u32)) -> impl Iterator<Item = (Base, u32)> {
    (place.offset..place.offset + width).map(move |element| (place.base, element))
}

/// Returns true if all inputs and assignments of a program reach its outputs.
fn is_live(program: &Elementwise) -> bool {
    let inputs = program.inputs();
    let mut read: HashSet<usize> = (inputs..inputs + program.outputs()).collect();
    let mut all = true;
    for assignment in program.assignments().iter().rev() {
        all &= read.remove(&assignment.result.index());
        read.extend(assignment.operands().iter().map(|operand| operand.index()));
    }
    all && (0..inputs).all(|input| read.contains(&input))
}
