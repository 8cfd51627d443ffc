//! The numbered phases of a program. Jobs of a [command list](crate::CommandList) refer to the
//! numbers.

use std::ops::Range;
use std::sync::Arc;

use edbatch_graph::{Kind, Network, TrainingNetwork};
use edbatch_layout::{CellPart, CellPlan, CellStep, Program, Step};

use crate::options::DevicePrecision;
use crate::phases::{Phase, is_aligned, phases, whole_row};
use crate::shapes::{self, TILE};

/// The approximate number of columns of a slice: half the number of threads of a block.
const COLUMNS: u32 = 128;

/// The minimum depth and number of columns of large products, and the columns of a slice of them:
/// the width of a tile of `kernels/large.h`.
const MIN_LARGE: (u32, u32) = (16, 32);
const LARGE_COLUMNS: u32 = 64;

/// The passes of a program. The backward pass of a program [for
/// training](Program::for_training) has a kernel of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Way {
    /// Runs cells.
    Forward,
    /// Runs the adjoints of cells.
    Back,
}

impl Way {
    /// Returns the pass that runs a cell.
    fn of(program: &Program, kind: Kind) -> Self {
        let is_adjoint = |training: &Arc<TrainingNetwork>| training.adjoints.len() <= kind.index();
        if program.training().is_some_and(is_adjoint) { Self::Back } else { Self::Forward }
    }
}

/// The phases of all cells of a pass and of their parts, by number.
#[derive(Clone, Debug)]
pub struct PhaseTable {
    entries: Vec<PhaseEntry>,
    /// For each cell and each [`CellPart`] of it: the numbers of the part's phases.
    parts: Vec<[Range<u32>; 3]>,
    /// The SMs of the device, which decide about the size of tiles.
    sms: u32,
    pub(crate) way: Way,
}

/// The SMs of a device that is not known: an H100.
pub(crate) const SMS: u32 = 132;

/// A phase of a cell.
#[derive(Clone, PartialEq, Debug)]
pub struct PhaseEntry {
    /// The cell.
    pub cell: Kind,
    /// The part of the cell.
    pub part: CellPart,
    /// The steps of the part that form the phase, and their units.
    pub phase: Phase,
    /// The number of slices into which jobs divide its [units](Phase::units). If 0, it runs as unit
    /// tiles, and the blocks of a team divide its units.
    pub slices: u32,
    /// The floats of a call's scratch that its unit tiles store.
    stored: Range<u32>,
    /// True if its products are large: tiles have up to [`LARGE_TILE`](crate::LARGE_TILE) calls.
    pub is_large: bool,
}

/// Returns the number of slices of a phase whose products are large, or `None` if not all are.
fn large_slices(
    network: &Network,
    (kind, cell): (Kind, &CellPlan),
    phase: &Phase,
    precision: DevicePrecision,
) -> Option<u32> {
    let mut slices = None;
    for (index, &units) in phase.steps.clone().zip(&phase.units) {
        let CellStep::Product { x, width, rows, .. } = cell.steps[index] else { continue };
        let row = whole_row(cell, phase.steps.start..index, x, width)?;
        let fits = is_aligned(network, kind, row)
            && width.is_multiple_of(precision.terms())
            && width >= MIN_LARGE.0
            && rows >= MIN_LARGE.1;
        let own = units.div_ceil((LARGE_COLUMNS * units / rows).max(1));
        slices = fits.then_some(own.max(slices.unwrap_or(1)));
        slices?;
    }
    slices
}

impl PhaseTable {
    /// Numbers the phases of the forward pass of a program, with exact products.
    #[must_use]
    pub fn new(program: &Program) -> Self {
        Self::with_products(program, Way::Forward, DevicePrecision::Exact, SMS)
    }

    /// Numbers the phases of a pass of a program, for a device with `sms` SMs. Cells of the other
    /// pass have no phases.
    pub(crate) fn with_products(
        program: &Program,
        way: Way,
        precision: DevicePrecision,
        sms: u32,
    ) -> Self {
        let (mut entries, mut parts) = (Vec::new(), Vec::new());
        for kind in (0..program.cells().len()).map(Kind::new) {
            parts.push([CellPart::Whole, CellPart::Prologue, CellPart::Body].map(|part| {
                let first = entries.len() as u32;
                // A cell whose prologue reads a table never runs as a whole. Prologues that read
                // values are not used.
                let by_table = program.cell(kind).hoisted.as_ref().map(|h| h.table().is_some());
                let runs = by_table.is_none_or(|by_table| by_table == (part != CellPart::Whole));
                let runs = runs && Way::of(program, kind) == way;
                if let Some(plan) = program.part(kind, part).filter(|_| runs) {
                    entries.extend(phases(program.network(), plan).into_iter().map(|mut phase| {
                        // Slices divide a lone product by columns, in equal parts.
                        if let [CellStep::Product { rows, .. }] = &plan.steps[phase.steps.clone()] {
                            phase.units[0] = *rows;
                        }
                        let network = program.network();
                        let of_large = large_slices(network, (kind, plan), &phase, precision);
                        let least = phase.units.iter().copied().min().unwrap_or(1);
                        let slices = of_large.unwrap_or_else(|| {
                            let written = plan.steps[phase.steps.clone()]
                                .iter()
                                .map(|step| step.writes().iter().map(|of| of.1).sum::<u32>());
                            written.max().unwrap_or(1).div_ceil(COLUMNS)
                        });
                        let (slices, is_large) = (slices.clamp(1, least), of_large.is_some());
                        PhaseEntry { cell: kind, part, phase, slices, stored: 0..0, is_large }
                    }));
                }
                first..entries.len() as u32
            }));
        }
        Self { entries, parts, sms, way }
    }

    /// Returns the phases, by number.
    #[must_use]
    pub fn entries(&self) -> &[PhaseEntry] {
        &self.entries
    }

    /// Runs a phase as unit tiles, which store some floats of a call's scratch.
    pub(crate) fn run_as_unit_tiles(&mut self, number: usize, stored: Range<u32>) {
        self.entries[number].slices = 0;
        self.entries[number].stored = stored;
    }

    /// Returns the floats of a call's scratch that the unit tiles of a step store, or `None` if not
    /// all of its phases run as unit tiles.
    pub(crate) fn stored_by_tiles(&self, step: &Step) -> Option<Range<u32>> {
        let all = &self.entries[self.of(step).start as usize..self.of(step).end as usize];
        let join = |a: Range<u32>, b: &PhaseEntry| match b.stored.is_empty() {
            true => a,
            false if a.is_empty() => b.stored.clone(),
            false => a.start.min(b.stored.start)..a.end.max(b.stored.end),
        };
        all.iter().all(|entry| entry.slices == 0).then(|| all.iter().fold(0..0, join))
    }

    /// Returns the calls of a tile of a job with `calls` calls, unless it runs as unit tiles.
    pub(crate) fn tile(&self, number: u32, calls: u32) -> u32 {
        let entry = &self.entries[number as usize];
        if entry.is_large { shapes::large_tile(calls, entry.slices, self.sms) } else { TILE }
    }

    /// Returns the numbers of the phases that a step of a plan runs.
    pub(crate) fn of(&self, step: &Step) -> Range<u32> {
        self.parts[step.cell.index()][step.action.part() as usize].clone()
    }
}
