//! The numbered phases of a program. Jobs of a [command list](crate::CommandList) refer to the
//! numbers.

use std::ops::Range;

use edbatch_graph::Kind;
use edbatch_layout::{CellPart, Program, Step};

use crate::phases::{Phase, phases};

/// The approximate number of columns of a job: half the number of threads of a block.
const COLUMNS: u32 = 128;

/// All phases of a program's cells and of their parts, by number.
#[derive(Clone, Debug)]
pub struct PhaseTable {
    entries: Vec<PhaseEntry>,
    /// For each cell and each [`CellPart`] of it: the numbers of the part's phases.
    parts: Vec<[Range<u32>; 3]>,
}

/// A phase of a cell.
#[derive(Clone, PartialEq, Debug)]
pub struct PhaseEntry {
    /// The cell.
    pub cell: Kind,
    /// The part of the cell.
    pub part: CellPart,
    /// The steps of the part that form the phase, and their units.
    pub phase: Phase,
    /// The number of slices into which jobs divide its [units](Phase::units). If 0, each job has
    /// all units, and the blocks of a team divide them.
    pub slices: u32,
}

impl PhaseTable {
    /// Numbers the phases of all cells of a program.
    #[must_use]
    pub fn new(program: &Program) -> Self {
        let (mut entries, mut parts) = (Vec::new(), Vec::new());
        for kind in (0..program.cells().len()).map(Kind::new) {
            parts.push([CellPart::Whole, CellPart::Prologue, CellPart::Body].map(|part| {
                let first = entries.len() as u32;
                // A cell whose prologue reads a table never runs as a whole. Prologues that read
                // values are not used.
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

    /// Returns the phases, by number.
    #[must_use]
    pub fn entries(&self) -> &[PhaseEntry] {
        &self.entries
    }

    /// Makes each job of a phase have all units, which the blocks of a team then divide.
    ///
    /// # Panics
    /// If `number` is out of range.
    pub fn leave_undivided(&mut self, number: usize) {
        self.entries[number].slices = 0;
    }

    /// Returns the numbers of the phases that a step of a plan runs.
    pub(crate) fn of(&self, step: &Step) -> Range<u32> {
        self.parts[step.cell.index()][step.action.part() as usize].clone()
    }
}
