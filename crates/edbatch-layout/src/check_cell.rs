//! An independent proof that a compiled cell is legal.

use crate::cell_plan::{Base, CellPlan, CellStep, Mode};
use crate::check::PlanError;

/// Proves that the steps of a cell read only what was written before, write within their regions,
/// never read a region while they write it, and together write the whole output.
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
        let accumulates = matches!(action, CellStep::Product { mode: Mode::Add, .. });
        let writes = action.writes();
        for (place, width) in action.reads() {
            let Some(index) = index_of(place.base) else { continue };
            let range = place.offset as usize..(place.offset + width) as usize;
            let own = accumulates && writes.contains(&(place, width));
            if !own && writes.iter().any(|(out, _)| out.base == place.base) {
                return error(format!("reads {place} while it writes there"));
            }
            if !written[index].get(range).is_some_and(|read| read.iter().all(|&done| done)) {
                return error(format!("reads {width} elements at {place}, not all written before"));
            }
        }
        for (place, width) in writes {
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
    Ok(())
}
