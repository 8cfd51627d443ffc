//! Taking out of a cell what depends on one of its arguments alone.
//!
//! What follows from a row of a table is the same wherever the row is named: a mini-batch computes it
//! once per distinct row. What follows from a value can be computed for many calls at once as soon as
//! they all have theirs, though the calls themselves must wait for each other: the input projections
//! of a layer of LSTMs, for all words of a sentence.
//!
//! The cell is divided in two: the steps **ahead**, and the **rest**, which finds their results in a
//! row of the arena. Sums keep their order, so no bit changes.
//!
//! *Cost*: O(elements of scratch × steps), for each argument.

use std::ops::Range;

use crate::cell_plan::{Base, CellPlan, CellStep, Hoisted, Mode, Place};
use crate::record_layout::next_line;

/// Divides a cell by the first of its arguments that has a product to itself.
pub(super) fn hoist(plan: &CellPlan) -> Option<Hoisted> {
    let read = plan.steps.iter().flat_map(CellStep::reads).map(|(place, _)| place.base);
    let mut arguments: Vec<Base> =
        read.filter(|base| matches!(base, Base::Table(_) | Base::Port(_))).collect();
    arguments.sort_unstable();
    arguments.dedup();
    arguments.into_iter().find_map(|from| divide(plan, from))
}

/// Divides a cell by an argument, if a product depends on it alone.
fn divide(plan: &CellPlan, from: Base) -> Option<Hoisted> {
    let mut early = Early::new(from, &plan.regions);
    let (mut ahead, mut rest) = (Vec::new(), Vec::new());
    let mut handed_on: Vec<(Place, u32)> = Vec::new();
    for step in &plan.steps {
        if early.allows(step) {
            // The rest has read what was there before.
            if step.writes().iter().any(|write| handed_on.iter().any(|read| overlap(*write, *read)))
            {
                return None;
            }
            early.note(step, true);
            ahead.push(step.clone());
        } else {
            let mut found = Vec::new();
            for read in step.reads() {
                match early.share(read) {
                    Share::All => found.push(read.0),
                    Share::Some => return None,
                    Share::None => continue,
                }
                handed_on.push(read);
            }
            early.note(step, false);
            rest.push((step.clone(), found));
        }
    }
    let multiplies = ahead.iter().any(|step| matches!(step, CellStep::Product { .. }));
    if !multiplies || handed_on.is_empty() {
        return None;
    }
    let row = Row::of(handed_on, &ahead);
    for step in &mut ahead {
        let into_row = |place: &mut Place| {
            if let Some(offset) = row.find(*place, 1) {
                *place = Place { base: Base::Output, offset };
            }
        };
        step.inputs_mut().into_iter().for_each(into_row);
        step.outputs_mut().into_iter().for_each(into_row);
        step.sort_outputs();
        if step.reads_what_it_writes() {
            return None;
        }
    }
    let rest = rest.into_iter().map(|(mut step, found)| {
        if let CellStep::Product { out, mode: mode @ Mode::Add, .. } = &mut step
            && found.contains(out)
        {
            *mode = Mode::From(*out);
        }
        for place in step.inputs_mut().into_iter().filter(|place| found.contains(place)) {
            let offset = row.find(*place, 1).expect("every place that was found is in the row");
            *place = Place { base: Base::Hoisted, offset };
        }
        step
    });
    let part = |steps: Vec<CellStep>, output_stride: u32, output_width: u32| CellPlan {
        name: plan.name.clone(),
        hoisted: None,
        regions: regions_of(&steps, &plan.regions),
        output_stride,
        output_width,
        steps,
    };
    let ahead = part(ahead, next_line(row.width as usize) as u32, row.width);
    let rest = part(rest.collect(), plan.output_stride, plan.output_width);
    Some(Hoisted { from, ahead, rest })
}

/// The widths of the regions that steps touch; the others take no room.
fn regions_of(steps: &[CellStep], widths: &[u32]) -> Vec<u32> {
    let mut regions = vec![0; widths.len()];
    for (place, _) in steps.iter().flat_map(|step| step.reads().into_iter().chain(step.writes())) {
        if let Base::Scratch(region) = place.base {
            regions[usize::from(region)] = widths[usize::from(region)];
        }
    }
    regions
}

/// Which columns of scratch hold what follows from one argument.
struct Early {
    from: Base,
    columns: Vec<Vec<bool>>,
}

/// How much of a place that is.
enum Share {
    None,
    Some,
    All,
}

impl Early {
    fn new(from: Base, regions: &[u32]) -> Self {
        let columns = regions.iter().map(|&width| vec![false; width as usize]).collect();
        Self { from, columns }
    }

    fn share(&self, (place, width): (Place, u32)) -> Share {
        let Base::Scratch(region) = place.base else { return Share::None };
        let columns = &self.columns[usize::from(region)][columns(place, width)];
        match columns.iter().filter(|&&early| early).count() {
            0 => Share::None,
            count if count == columns.len() => Share::All,
            _ => Share::Some,
        }
    }

    /// Whether a step reads only the argument, what follows from it, and parameters.
    fn allows(&self, step: &CellStep) -> bool {
        let follows =
            |read: (Place, u32)| read.0.base == self.from || matches!(self.share(read), Share::All);
        let reads = step.reads();
        !matches!(step, CellStep::Reduce { .. })
            && reads.iter().any(|&read| follows(read))
            && reads.iter().all(|&read| follows(read) || matches!(read.0.base, Base::Parameter(_)))
            && step.writes().iter().all(|(place, _)| matches!(place.base, Base::Scratch(_)))
    }

    fn note(&mut self, step: &CellStep, is_early: bool) {
        for (place, width) in step.writes() {
            if let Base::Scratch(region) = place.base {
                self.columns[usize::from(region)][columns(place, width)].fill(is_early);
            }
        }
    }
}

fn columns(place: Place, width: u32) -> Range<usize> {
    place.offset as usize..(place.offset + width) as usize
}

fn overlap((a, a_width): (Place, u32), (b, b_width): (Place, u32)) -> bool {
    a.base == b.base && a.offset < b.offset + b_width && b.offset < a.offset + a_width
}

/// What the rest reads of the steps ahead, side by side: stretches of scratch, each from a cache line on.
struct Row {
    /// Where a stretch is in scratch, its width, and its offset in the row.
    stretches: Vec<(Place, u32, u32)>,
    width: u32,
}

impl Row {
    /// A stretch for all places that overlap, of those that are handed on and of those that steps ahead read or
    /// write; but only where one is handed on.
    fn of(handed_on: Vec<(Place, u32)>, ahead: &[CellStep]) -> Self {
        let touched = ahead.iter().flat_map(|step| step.reads().into_iter().chain(step.writes()));
        let touched = touched.map(|place| (place, false));
        let mut places: Vec<_> =
            handed_on.into_iter().map(|place| (place, true)).chain(touched).collect();
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

    /// Where a place is in the row, if all of it is.
    fn find(&self, place: Place, width: u32) -> Option<u32> {
        self.stretches.iter().find_map(|&(first, of_it, offset)| {
            let at = place.offset.checked_sub(first.offset)?;
            (place.base == first.base && at + width <= of_it).then_some(offset + at)
        })
    }
}
