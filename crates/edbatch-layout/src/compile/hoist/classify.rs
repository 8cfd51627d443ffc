//! Finds the steps of a cell that depend on one argument alone.

use std::ops::Range;

use crate::cell_plan::{Base, CellPlan, CellStep, Place};

/// The steps of a cell, in two parts.
pub(super) struct Parts {
    pub(super) prologue: Vec<CellStep>,
    /// Each step with the places of prologue results that it reads.
    pub(super) body: Vec<(CellStep, Vec<Place>)>,
    /// All places of prologue results that the body reads, with the number of elements.
    pub(super) handed_on: Vec<(Place, u32)>,
}

/// Divides the steps into those that depend on the argument `from` alone, and the others. Returns
/// `None` if a step reads a place that holds results of both parts, or if the prologue would
/// overwrite results that the body reads.
pub(super) fn classify(plan: &CellPlan, from: Base) -> Option<Parts> {
    let mut columns = Columns::new(from, &plan.regions);
    let (mut prologue, mut body) = (Vec::new(), Vec::new());
    let mut handed_on: Vec<(Place, u32)> = Vec::new();
    for step in &plan.steps {
        let is_prologue = columns.follows(step);
        if is_prologue {
            // The body must read the old contents.
            let mut writes = step.writes().into_iter();
            if writes.any(|write| handed_on.iter().any(|&read| overlap(write, read))) {
                return None;
            }
            prologue.push(step.clone());
        } else {
            let mut found = Vec::new();
            for read in step.reads() {
                match columns.share(read) {
                    Share::All => found.push(read.0),
                    Share::Some => return None,
                    Share::None => continue,
                }
                handed_on.push(read);
            }
            body.push((step.clone(), found));
        }
        columns.write(step, is_prologue);
    }
    Some(Parts { prologue, body, handed_on })
}

/// The columns of scratch that depend on one argument alone.
struct Columns {
    from: Base,
    /// By region and column: true if it depends on the argument alone.
    follow: Vec<Vec<bool>>,
}

/// The share of a place's columns that depend on the argument alone.
enum Share {
    None,
    Some,
    All,
}

impl Columns {
    fn new(from: Base, regions: &[u32]) -> Self {
        let follow = regions.iter().map(|&width| vec![false; width as usize]).collect();
        Self { from, follow }
    }

    fn share(&self, (place, width): (Place, u32)) -> Share {
        let Base::Scratch(region) = place.base else { return Share::None };
        let columns = &self.follow[usize::from(region)][range(place, width)];
        match columns.iter().filter(|&&follows| follows).count() {
            0 => Share::None,
            count if count == columns.len() => Share::All,
            _ => Share::Some,
        }
    }

    /// Returns true if a step reads only the argument, results that depend on it alone, and
    /// parameters.
    fn follows(&self, step: &CellStep) -> bool {
        let follows =
            |read: (Place, u32)| read.0.base == self.from || matches!(self.share(read), Share::All);
        let reads = step.reads();
        let reads_the_call = match step {
            CellStep::Reduce { .. } | CellStep::Attention { .. } => true,
            CellStep::AttentionBack { .. } => true,
            CellStep::Rows(step) => step.kernel.reads_the_call(),
            _ => false,
        };
        !reads_the_call
            && reads.iter().any(|&read| follows(read))
            && reads.iter().all(|&read| follows(read) || matches!(read.0.base, Base::Parameter(_)))
            && step.writes().iter().all(|(place, _)| matches!(place.base, Base::Scratch(_)))
    }

    fn write(&mut self, step: &CellStep, follows: bool) {
        for (place, width) in step.writes() {
            if let Base::Scratch(region) = place.base {
                self.follow[usize::from(region)][range(place, width)].fill(follows);
            }
        }
    }
}

fn range(place: Place, width: u32) -> Range<usize> {
    place.offset as usize..(place.offset + width) as usize
}

pub(super) fn overlap((a, a_width): (Place, u32), (b, b_width): (Place, u32)) -> bool {
    a.base == b.base && a.offset < b.offset + b_width && b.offset < a.offset + a_width
}
