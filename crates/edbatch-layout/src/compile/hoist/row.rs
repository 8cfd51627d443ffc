//! The row in which a prologue hands on its results.

use super::classify::{Parts, overlap};
use crate::cell_plan::{CellStep, Place};
use crate::record_layout::next_line;

/// What the body reads of the prologue, side by side: stretches of scratch, each from a cache line
/// on.
pub(super) struct Row {
    /// Where a stretch is in scratch, its width, and its offset in the row.
    stretches: Vec<(Place, u32, u32)>,
    pub(super) width: u32,
}

impl Row {
    /// A stretch for all places that overlap, of those that are handed on and of those that the
    /// prologue reads or writes; but only where one is handed on.
    pub(super) fn extract(Parts { prologue, handed_on, .. }: &Parts) -> Self {
        let touched = |step: &CellStep| step.reads().into_iter().chain(step.writes());
        let touched = prologue.iter().flat_map(touched).map(|place| (place, false));
        let handed_on = handed_on.iter().map(|&place| (place, true));
        let mut places: Vec<((Place, u32), bool)> = handed_on.chain(touched).collect();
        places.sort_unstable();
        // A stretch, and whether a place in it is handed on.
        let mut merged: Vec<((Place, u32), bool)> = Vec::new();
        for (place, is_handed_on) in places {
            match merged.last_mut() {
                Some((stretch, has_one)) if overlap(*stretch, place) => {
                    stretch.1 = stretch.1.max(place.0.offset + place.1 - stretch.0.offset);
                    *has_one |= is_handed_on;
                }
                _ => merged.push((place, is_handed_on)),
            }
        }
        let (mut stretches, mut width) = (Vec::new(), 0);
        for ((place, elements), _) in merged.into_iter().filter(|&(_, has_one)| has_one) {
            let offset = next_line(width as usize) as u32;
            stretches.push((place, elements, offset));
            width = offset + elements;
        }
        Self { stretches, width }
    }

    /// Where a place is in the row, if it is.
    pub(super) fn find(&self, place: Place) -> Option<u32> {
        self.stretches.iter().find_map(|&(first, width, offset)| {
            let at = place.offset.checked_sub(first.offset)?;
            (place.base == first.base && at < width).then_some(offset + at)
        })
    }
}
