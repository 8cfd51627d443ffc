//! Which steps of a cell depend on one argument alone.

use std::ops::Range;

use crate::cell_plan::{Base, CellPlan, CellStep, Place};

/// The steps of a cell in two parts.
pub(super) struct Parts {
    pub(super) prologue: Vec<CellStep>,
    /// Each with the places that it reads of the prologue's results.
    pub(super) body: Vec<(CellStep, Vec<Place>)>,
    /// Those places, and how many elements are read.
    pub(super) handed_on: Vec<(Place, u32)>,
}

/// Divides the steps by an argument; `None` if one reads results of both parts at once, or the
/// prologue would write over what the body reads.
pub(super) fn classify(plan: &CellPlan, from: Base) -> Option<Parts> {
    let mut columns = Columns::new(from, &plan.regions);
    let (mut prologue, mut body) = (Vec::new(), Vec::new());
    let mut handed_on: Vec<(Place, u32)> = Vec::new();
    for step in &plan.steps {
        let is_prologue = columns.follows(step);
        if is_prologue {
            // The body has read what was there before.
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

/// Which columns of scratch follow from one argument.
struct Columns {
    from: Base,
    follow: Vec<Vec<bool>>,
}

/// How much of a place that is.
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

    /// Whether a step reads only the argument, what follows from it, and parameters.
    fn follows(&self, step: &CellStep) -> bool {
        let follows =
            |read: (Place, u32)| read.0.base == self.from || matches!(self.share(read), Share::All);
        let reads = step.reads();
        !matches!(step, CellStep::Reduce { .. })
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
