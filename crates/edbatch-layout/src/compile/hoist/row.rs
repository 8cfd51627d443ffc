//! Lays out the row of prologue results that the body reads.

use super::classify::{Parts, overlap};
use crate::cell_plan::{CellStep, Place};
use crate::record_layout::next_line;

/// The prologue results that the body reads: scratch ranges, each on cache lines of its own.
pub(super) struct Row {
    /// For each range: its place in scratch, its width, and its offset in the row.
    ranges: Vec<(Place, u32, u32)>,
    pub(super) width: u32,
}

impl Row {
    /// Merges overlapping places that the prologue reads or writes into ranges of scratch. Keeps
    /// the ranges from which the body reads.
    pub(super) fn extract(Parts { prologue, handed_on, .. }: &Parts) -> Self {
        let touched = |step: &CellStep| step.reads().into_iter().chain(step.writes());
        let touched = prologue.iter().flat_map(touched).map(|place| (place, false));
        let handed_on = handed_on.iter().map(|&place| (place, true));
        let mut places: Vec<((Place, u32), bool)> = handed_on.chain(touched).collect();
        places.sort_unstable();
        // A range, and true if the body reads a place in it.
        let mut merged: Vec<((Place, u32), bool)> = Vec::new();
        for (place, is_handed_on) in places {
            match merged.last_mut() {
                Some((range, is_read)) if overlap(*range, place) => {
                    range.1 = range.1.max(place.0.offset + place.1 - range.0.offset);
                    *is_read |= is_handed_on;
                }
                _ => merged.push((place, is_handed_on)),
            }
        }
        let (mut ranges, mut width) = (Vec::new(), 0);
        for ((place, elements), _) in merged.into_iter().filter(|&(_, is_read)| is_read) {
            let offset = next_line(width as usize) as u32;
            ranges.push((place, elements, offset));
            width = offset + elements;
        }
        Self { ranges, width }
    }

    /// Returns the offset of a place in the row, if the row holds it.
    pub(super) fn find(&self, place: Place) -> Option<u32> {
        self.ranges.iter().find_map(|&(first, width, offset)| {
            let at = place.offset.checked_sub(first.offset)?;
            (place.base == first.base && at < width).then_some(offset + at)
        })
    }
}
