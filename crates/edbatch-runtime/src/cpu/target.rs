//! The memory that a step of a tile writes.

use std::mem;

use edbatch_layout::Place;
use smallvec::SmallVec;

use super::load::{LoadedStep, region};
use crate::kernels::{Aligned, RowsMut};

/// Regions taken out of the scratch memory: (index, width in floats, memory).
pub(super) type Taken = Vec<(usize, usize, Aligned)>;

/// The memory that a step writes: the output rows, or regions taken out of the scratch memory.
pub(super) struct Target<'a> {
    output: Option<&'a mut [f32]>,
    calls: usize,
    stride: usize,
    /// The output rows, which the step may read if it does not write them.
    pub(super) unwritten: Option<&'a [f32]>,
    taken: &'a mut Taken,
}

impl<'a> Target<'a> {
    /// Takes the memory that `step` writes. `taken` must be empty; its allocation is reused.
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

    /// Returns the taken regions to the scratch memory.
    pub(super) fn give_back(self, regions: &mut [Aligned]) {
        for (region, _, memory) in self.taken.drain(..) {
            regions[region] = memory;
        }
    }

    /// Returns the memory from `place` on, and the stride of its rows in floats.
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

    /// Appends a view of `width` columns to `rows` for each of `places`, which must be sorted.
    pub(super) fn places<'t>(
        &'t mut self,
        places: &[Place],
        width: usize,
        rows: &mut SmallVec<[RowsMut<'t>; 8]>,
    ) {
        let mut output = self.output.as_deref_mut();
        // `taken` is sorted by region, like `places`.
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
                let (written, next) = from.split_columns(width);
                rows.push(written);
                (rest, at) = (next, place.offset as usize + width);
            }
        }
    }
}

/// Returns `calls` rows of `width` columns to write, `stride` floats apart.
pub(super) fn writable(
    memory: &mut [f32],
    calls: usize,
    width: usize,
    stride: usize,
) -> RowsMut<'_> {
    let end = calls.saturating_sub(1) * stride + if calls > 0 { width } else { 0 };
    RowsMut::new(&mut memory[..end], width, stride)
}

/// Calls `write` with the index and the `width` floats of each of `calls` rows.
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
