//! An independent proof that a compiled cell is legal.

use crate::cell_plan::{Base, CellPlan, CellStep};
use crate::check::PlanError;

/// Proves that the steps of a cell read only what was written before, write within their regions, and
/// never read a region while they write it; the same of the parts that it may be divided into, and that
/// the first of them reads one argument alone.
///
/// It does not prove that they compute what the cell says; running them does. *Cost*: O(elements
/// of scratch × steps), for tests.
///
/// # Errors
/// The first violation, with the step's index.
pub fn check_cell(plan: &CellPlan) -> Result<(), PlanError> {
    let mut written: Vec<Vec<bool>> =
        plan.regions.iter().map(|&width| vec![false; width as usize]).collect();
    written.push(vec![false; plan.output_width as usize]);
    let output = plan.regions.len();
    let index_of = |base: Base| match base {
        Base::Scratch(region) => Some(usize::from(region)),
        Base::Output => Some(output),
        Base::Table(_) | Base::Port(_) | Base::Parameter(_) | Base::Hoisted => None,
    };
    for (step, action) in plan.steps.iter().enumerate() {
        let error = |what: String| Err(PlanError { step, what: format!("{}: {what}", plan.name) });
        if action.reads_what_it_writes() {
            return error(format!("{action} reads where it writes"));
        }
        for (place, width) in action.reads() {
            let Some(index) = index_of(place.base) else { continue };
            let range = place.offset as usize..(place.offset + width) as usize;
            if !written[index].get(range).is_some_and(|read| read.iter().all(|&done| done)) {
                return error(format!("reads {width} elements at {place}, not all written before"));
            }
        }
        for (place, width) in action.writes() {
            let Some(index) = index_of(place.base) else {
                return error(format!("writes to {place}, which is read only"));
            };
            let range = place.offset as usize..(place.offset + width) as usize;
            match written[index].get_mut(range) {
                Some(range) => range.fill(true),
                None => return error(format!("writes {width} elements at {place}, out of bounds")),
            }
        }
    }
    let Some(hoisted) = &plan.hoisted else { return Ok(()) };
    let reads = hoisted.ahead.steps.iter().flat_map(CellStep::reads);
    let is_own = |base: Base| match base {
        Base::Scratch(_) | Base::Output | Base::Parameter(_) => true,
        argument => argument == hoisted.from,
    };
    if let Some((place, _)) = reads.into_iter().find(|(place, _)| !is_own(place.base)) {
        let what = format!("{}: the part that is hoisted reads {place}", plan.name);
        return Err(PlanError { step: plan.steps.len(), what });
    }
    check_cell(&hoisted.ahead)?;
    check_cell(&hoisted.rest)
}
