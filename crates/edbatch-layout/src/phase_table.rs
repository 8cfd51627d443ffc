//! The phases of a whole program, numbered: what a job of a [tape](crate::Tape) names.

use std::ops::Range;

use edbatch_graph::Kind;

use crate::phases::{Phase, phases};
use crate::plan::{CellPart, Step};
use crate::program::Program;

/// About as many columns of a job: half as many as a block has threads.
const COLUMNS: u32 = 128;

/// All phases of a program's cells and their parts, with their numbers.
#[derive(Clone, Debug)]
pub struct PhaseTable {
    /// The phases by number.
    entries: Vec<PhaseEntry>,
    /// By cell and [`CellPart`]: its phases.
    parts: Vec<[Range<u32>; 3]>,
}

/// A phase and what it belongs to.
#[derive(Clone, PartialEq, Debug)]
pub struct PhaseEntry {
    /// A cell.
    pub cell: Kind,
    /// A part of that cell.
    pub part: CellPart,
    /// Steps of that part.
    pub phase: Phase,
    /// Into how many slices its units are divided; 0: the device divides them by itself, and a job
    /// is for all.
    pub slices: u32,
}

impl PhaseTable {
    /// The phases of all cells of a program.
    #[must_use]
    pub fn new(program: &Program) -> Self {
        let (mut entries, mut parts) = (Vec::new(), Vec::new());
        for kind in (0..program.cells().len()).map(Kind::new) {
            parts.push([CellPart::Whole, CellPart::Prologue, CellPart::Body].map(|part| {
                let first = entries.len() as u32;
                // Nothing is hoisted for a value where waves count, and what a table divides never
                // runs as a whole.
                let by_table = program.cell(kind).hoisted.as_ref().map(|h| h.table().is_some());
                let runs = by_table.is_none_or(|by_table| by_table == (part != CellPart::Whole));
                if let Some(plan) = program.part(kind, part).filter(|_| runs) {
                    entries.extend(phases(program.network(), plan).into_iter().map(|phase| {
                        let written = plan.steps[phase.steps.clone()]
                            .iter()
                            .map(|step| step.writes().iter().map(|(_, width)| width).sum::<u32>());
                        let least = phase.units.iter().copied().min().unwrap_or(1);
                        let slices = written.max().unwrap_or(1).div_ceil(COLUMNS).clamp(1, least);
                        PhaseEntry { cell: kind, part, phase, slices }
                    }));
                }
                first..entries.len() as u32
            }));
        }
        Self { entries, parts }
    }

    /// The phases by number.
    #[must_use]
    pub fn entries(&self) -> &[PhaseEntry] {
        &self.entries
    }

    /// Lets the device divide the units of a phase.
    ///
    /// # Panics
    /// If there is no phase of this number.
    pub fn leave_undivided(&mut self, number: usize) {
        self.entries[number].slices = 0;
    }

    /// The numbers of the phases of what a step carries out.
    pub(crate) fn of(&self, step: &Step) -> Range<u32> {
        self.parts[step.cell.index()][step.action.part() as usize].clone()
    }
}
