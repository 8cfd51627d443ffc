//! Taking products of looked-up rows out of a cell.
//!
//! A weight times a row of a table depends on the row alone: a mini-batch computes it once per
//! distinct row, in one large product, and calls begin from their row of the result. Sums keep
//! their order, so no bit changes.

use crate::cell_plan::{Base, CellPlan, CellStep, Hoisted, Mode, Place};

/// Hoists the first product of a looked-up row, if all that read it can read it elsewhere.
pub(super) fn hoist(plan: CellPlan) -> CellPlan {
    let hoistable = plan.steps.iter().enumerate().find_map(|(index, step)| match step {
        CellStep::Product {
            weights,
            rows,
            width,
            x: Place { base: Base::Table(table), offset: 0 },
            out: out @ Place { base: Base::Scratch(_), .. },
            mode: Mode::Set,
        } => {
            let (weights, rows, width) = (weights.clone(), *rows, *width);
            Some((index, *out, Hoisted { table: *table, weights, rows, width }))
        }
        _ => None,
    });
    let Some((index, out, hoisted)) = hoistable else { return plan };
    let mut moved = plan.clone();
    moved.steps.remove(index);
    // Columns of the region that nothing has written yet: they are read where they were hoisted.
    let mut pending = vec![true; hoisted.rows as usize];
    for step in &mut moved.steps {
        if !redirect(step, out, &mut pending) {
            return plan;
        }
    }
    moved.hoisted = Some(hoisted);
    moved
}

/// Lets a step read hoisted columns where they are; false if it reads only some of a tensor's.
fn redirect(step: &mut CellStep, hoisted: Place, pending: &mut [bool]) -> bool {
    let all = pending.len();
    let columns = |place: Place, width: u32| {
        let start = place.offset.checked_sub(hoisted.offset)? as usize;
        let end = start + width as usize;
        (place.base == hoisted.base && end <= all).then_some(start..end)
    };
    let place_of = |start: usize| Place { base: Base::Hoisted, offset: start as u32 };
    let overlaps = |pending: &[bool], place: Place, width: u32| {
        let first = place.offset.max(hoisted.offset);
        let last = (place.offset + width).min(hoisted.offset + pending.len() as u32);
        place.base == hoisted.base
            && (first..last).any(|column| pending[(column - hoisted.offset) as usize])
    };
    if let CellStep::Product { rows, out, mode: mode @ Mode::Add, .. } = step
        && overlaps(pending, *out, *rows)
    {
        let Some(range) = columns(*out, *rows) else { return false };
        if !pending[range.clone()].iter().all(|&pending| pending) {
            return false;
        }
        *mode = Mode::From(place_of(range.start));
        pending[range].fill(false);
    }
    if let CellStep::Elementwise(program) = step {
        for input in &mut program.inputs {
            if overlaps(pending, *input, program.width) {
                match columns(*input, program.width) {
                    Some(range) if pending[range.clone()].iter().all(|&pending| pending) => {
                        *input = place_of(range.start);
                    }
                    _ => return false,
                }
            }
        }
    }
    // Nothing else may touch what has been taken away.
    let touched = step.reads().into_iter().chain(step.writes());
    touched.into_iter().all(|(place, width)| !overlaps(pending, place, width))
}
