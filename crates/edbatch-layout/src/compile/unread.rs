//! Drops the steps of a compiled cell whose results nothing reads.
//!
//! A cell that reduces a record at a port reduces each field, although its equations may read only
//! some of them. A step is kept if it writes an element of the output row, which holds the values
//! that a call returns and those that its adjoint reads, or an element that a kept step reads. A
//! fused element-wise step is kept with all its operations if one of its results is read.
//!
//! *Cost*: O(elements that steps read and write).

use super::Compiled;
use super::hoist::regions_of;
use crate::cell_plan::{Base, CellStep, Place};

/// Drops the steps whose results nothing reads. [`check_cell`](crate::check_cell()) proves that a
/// plan has all other steps.
pub(super) fn drop_unread(mut compiled: Compiled) -> Compiled {
    let kept = kept(&compiled.plan.steps, &compiled.plan.regions);
    if kept.iter().all(|&kept| kept) {
        return compiled;
    }
    let before = |step: usize| kept[..step].iter().filter(|&&kept| kept).count();
    compiled.moves.retain_mut(|moved| {
        let is_kept = kept[moved.step];
        moved.step = before(moved.step);
        is_kept
    });
    let mut of_step = kept.iter();
    compiled.plan.steps.retain(|_| *of_step.next().expect("an entry for each step"));
    compiled.plan.regions = regions_of(&compiled.plan.steps, &compiled.plan.regions);
    compiled
}

/// Returns, for each step, true if the step is kept.
fn kept(steps: &[CellStep], regions: &[u32]) -> Vec<bool> {
    // By region and element: true if a later step that is kept reads the element.
    let mut read: Vec<Vec<bool>> =
        regions.iter().map(|&width| vec![false; width as usize]).collect();
    let mut kept = vec![false; steps.len()];
    for (step, is_kept) in steps.iter().zip(&mut kept).rev() {
        *is_kept = step.writes().into_iter().any(|(place, width)| match place.base {
            Base::Scratch(_) => elements(&mut read, place, width).contains(&true),
            _ => true,
        });
        if *is_kept {
            for (places, is_read) in [(step.writes(), false), (step.reads(), true)] {
                for (place, width) in places {
                    elements(&mut read, place, width).fill(is_read);
                }
            }
        }
    }
    kept
}

/// Returns the marks of elements in scratch, or no marks for elements elsewhere.
fn elements(read: &mut [Vec<bool>], Place { base, offset }: Place, width: u32) -> &mut [bool] {
    match base {
        Base::Scratch(region) => {
            &mut read[usize::from(region)][offset as usize..(offset + width) as usize]
        }
        _ => &mut [],
    }
}

#[cfg(test)]
mod tests {
    use super::super::CellStyle;
    use super::super::notation::CellText;

    /// In the other styles, the element-wise operations are one fused step.
    #[test]
    fn results_that_nothing_reads_are_not_computed_if_operations_are_not_fused() {
        let cell = "x many -> p = w1 x, q = tanh p, r = u1 x, s = sigmoid r | s";
        for style in [CellStyle::Declaration, CellStyle::Batched, CellStyle::Paper] {
            let steps = CellText::parse(cell).compiled(style);
            let second = steps.lines().nth(2).unwrap();
            assert!(second.contains("sigmoid") && !steps.contains("tanh"), "{style:?}: {steps}");
        }
    }
}
