//! What a step of a tile writes.

use std::mem;

use edbatch_layout::Place;
use smallvec::SmallVec;

use super::load::{LoadedStep, region};
use crate::kernels::{Aligned, RowsMut};

/// Regions that are taken out of the scratch, with their widths.
pub(super) type Taken = Vec<(usize, usize, Aligned)>;

/// What a step writes: the output rows, or regions taken out of the scratch.
pub(super) struct Target<'a> {
    output: Option<&'a mut [f32]>,
    calls: usize,
    stride: usize,
    /// The output rows, if the step does not write them.
    pub(super) unwritten: Option<&'a [f32]>,
    taken: &'a mut Taken,
}

impl<'a> Target<'a> {
    /// Takes what a step writes; `taken` is empty, and lends its memory.
    pub(super) fn take(
        regions: &mut [Aligned],
        widths: &[u32],
        output: &'a mut [f32],
        (calls, stride): (usize, usize),
        step: &LoadedStep,
        taken: &'a mut Taken,
    ) -> Self {
        for &region in &step.regions {
            taken.push((region, widths[region] as usize, mem::take(&mut regions[region])));
        }
        let (output, unwritten) =
            if step.writes_output { (Some(output), None) } else { (None, Some(&*output)) };
        Self { output, calls, stride, unwritten, taken }
    }

    pub(super) fn give_back(self, regions: &mut [Aligned]) {
        for (region, _, memory) in self.taken.drain(..) {
            regions[region] = memory;
        }
    }

    /// The rows behind a place to the end of each, and their stride.
    pub(super) fn place(&mut self, place: Place) -> (&mut [f32], usize) {
        let offset = place.offset as usize;
        match region(place.base) {
            None => {
                let output = self.output.as_deref_mut().expect("taken for this step");
                (&mut output[offset..], self.stride)
            }
            Some(region) => {
                let taken = self.taken.iter_mut().find(|(other, ..)| *other == region);
                let (_, width, memory) = taken.expect("taken for this step");
                (&mut memory[offset..], *width)
            }
        }
    }

    /// Appends rows of `width` columns at each of several places, which are in ascending order.
    pub(super) fn places<'t>(
        &'t mut self,
        places: &[Place],
        width: usize,
        rows: &mut SmallVec<[RowsMut<'t>; 8]>,
    ) {
        let mut output = self.output.as_deref_mut();
        // Regions are taken in the order of their numbers, as places are.
        let mut taken = self.taken.iter_mut();
        for group in places.chunk_by(|a, b| a.base == b.base) {
            let (memory, stride) = match region(group[0].base) {
                None => (output.take().expect("taken for this step"), self.stride),
                Some(region) => {
                    let found = taken.find(|(other, ..)| *other == region);
                    let (_, width, memory) = found.expect("taken for this step");
                    (&mut **memory, *width)
                }
            };
            let mut rest = RowsMut::new(&mut memory[..self.calls * stride], stride, stride);
            let mut at = 0;
            for place in group {
                let (_, from) = rest.split_columns(place.offset as usize - at);
                let (written, behind) = from.split_columns(width);
                rows.push(written);
                (rest, at) = (behind, place.offset as usize + width);
            }
        }
    }
}

/// `calls` rows of `width` columns to write.
pub(super) fn writable(
    memory: &mut [f32],
    calls: usize,
    width: usize,
    stride: usize,
) -> RowsMut<'_> {
    let end = calls.saturating_sub(1) * stride + if calls > 0 { width } else { 0 };
    RowsMut::new(&mut memory[..end], width, stride)
}

pub(super) fn each_row(
    (memory, stride): (&mut [f32], usize),
    calls: usize,
    width: usize,
    mut write: impl FnMut(usize, &mut [f32]),
) {
    for call in 0..calls {
        write(call, &mut memory[call * stride..][..width]);
    }
}
