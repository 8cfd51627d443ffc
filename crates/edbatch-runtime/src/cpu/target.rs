//! What a step of a tile writes.

use std::mem;

use edbatch_layout::Place;
use smallvec::SmallVec;

use super::Aligned;
use super::load::{LoadedStep, region};
use crate::kernels::RowsMut;

/// What a step writes: the output rows, or regions taken out of the scratch.
pub(super) struct Target<'a> {
    output: Option<&'a mut [f32]>,
    calls: usize,
    stride: usize,
    /// The output rows, if the step does not write them.
    pub(super) unwritten: Option<&'a [f32]>,
    /// Regions taken, with their widths.
    taken: SmallVec<[(usize, usize, Aligned); 4]>,
}

impl<'a> Target<'a> {
    pub(super) fn take(
        regions: &mut [Aligned],
        widths: &[u32],
        output: &'a mut [f32],
        (calls, stride): (usize, usize),
        step: &LoadedStep,
    ) -> Self {
        let mut taken: SmallVec<[(usize, usize, Aligned); 4]> = SmallVec::new();
        let mut writes_output = false;
        let mut add = |place: Place| match region(place.base) {
            None => writes_output = true,
            Some(region) if taken.iter().all(|(other, ..)| *other != region) => {
                let width = widths[region] as usize;
                taken.push((region, width, mem::take(&mut regions[region])));
            }
            Some(_) => {}
        };
        match step {
            LoadedStep::Product { out, .. } => add(*out),
            LoadedStep::Elementwise { outputs, .. } => outputs.iter().copied().for_each(add),
            LoadedStep::Planned(step) => step.writes().into_iter().for_each(|(out, _)| add(out)),
        }
        let (output, unwritten) =
            if writes_output { (Some(output), None) } else { (None, Some(&*output)) };
        Self { output, calls, stride, unwritten, taken }
    }

    pub(super) fn give_back(self, regions: &mut [Aligned]) {
        for (region, _, memory) in self.taken {
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

    /// Rows of `width` columns at each of several places, which are in ascending order.
    pub(super) fn places(&mut self, places: &[Place], width: usize) -> SmallVec<[RowsMut<'_>; 8]> {
        let mut rows = SmallVec::new();
        let mut output = self.output.as_deref_mut();
        let mut taken: SmallVec<[_; 4]> = self.taken.iter_mut().map(Some).collect();
        for group in places.chunk_by(|a, b| a.base == b.base) {
            let (memory, stride) = match region(group[0].base) {
                None => (output.take().expect("taken for this step"), self.stride),
                Some(region) => {
                    let found = taken
                        .iter_mut()
                        .find(|slot| slot.as_ref().is_some_and(|(other, ..)| *other == region));
                    let slot = found.and_then(Option::take).expect("taken for this step");
                    (&mut *slot.2, slot.1)
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
        rows
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
