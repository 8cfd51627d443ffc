//! A plan for a device: one array of numbers.
//!
//! ```text
//! waves                          their number
//! first job of each wave, end    as indices into the array
//! jobs                           six numbers each: what, then five that depend on it
//! pieces of rows                 a start and a length each, for the argmax of several fields
//! steps                          calls, out, scratch; then three numbers an operand: its form
//!                                (a span, a list, any number of rows, rows of a folded table),
//!                                then two that depend on it
//! lists, rows                    those of the plan
//! ```
//!
//! A job is the work of one block: a [phase](crate::Phase) of a step for at most [`TILE`] calls
//! and a slice of its units, or a copy. No two jobs of a wave depend on each other. Each wave of
//! [steps](crate::waves()) becomes one wave of jobs per phase. A first wave copies the given rows
//! into the arena, and a last wave copies the wanted values out of it. In each wave, jobs that
//! all blocks of a team share ([`slices`](crate::PhaseEntry::slices) is 0) come first. Scratch
//! follows the plan's arena, and each wave of steps reuses it.

mod jobs;

use std::fmt;
use std::mem;

use edbatch_layout::{CellPlan, Operand, Plan, Program};

use crate::CudaError;
use crate::phase_table::PhaseTable;
use crate::waves::WaveFinder;

/// The maximum number of calls of a cell in one job.
pub const TILE: u32 = 16;

/// The number of words that a job takes in the array.
const JOB: usize = 6;

/// Set in the index of an argmax if an element of the value is not finite.
pub(crate) const NOT_FINITE: u32 = 1 << 31;

/// The first word of a copying job. Brackets name the job's next words, in elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum CopyJob {
    /// From the given values in host memory to the arena: (from, to, length).
    Given = u32::MAX - 4,
    /// From the rows kept by the previous plan to the arena: (from, to, length).
    Stayed,
    /// From the arena to the outputs in host memory: (from, to, length).
    Output,
    /// From the arena to the rows kept for the next plan: (from, to, length).
    Stay,
    /// The argmax over pieces of the arena: (start of the list of pieces, number of pieces, to).
    ArgMax,
}

/// A plan as a device reads it: waves of jobs. The next plan reuses the memory.
#[derive(Clone, Default, Debug)]
pub struct CommandList {
    words: Vec<u32>,
    /// The number of elements of the arena and scratch together.
    arena: usize,
    /// The number of elements of wanted values, of argmax indices, and of elements kept for the
    /// next plan.
    outputs: usize,
    indices: usize,
    stay: usize,
    finder: WaveFinder,
    /// Pairs of a step's wave and its index, sorted.
    order: Vec<(u32, u32)>,
    /// For each step: the start of its numbers, and the start of its scratch.
    steps: Vec<(u32, u32)>,
    /// Positions of the words relative to the start of the steps, until that start is known.
    from_steps: Vec<usize>,
    /// Positions of the words that are relative to the first piece, and the words of the pieces.
    from_pieces: Vec<usize>,
    pieces: Vec<u32>,
}

impl CommandList {
    /// Writes a plan. The first `initial` of its given rows come from the host, the next `stayed`
    /// from the previous plan, and the rest from the host.
    ///
    /// # Errors
    /// If the arena with scratch, the wanted values, or the command list has 2³² elements or more.
    pub fn write(
        &mut self,
        program: &Program,
        table: &PhaseTable,
        plan: &Plan,
        (initial, stayed): (usize, usize),
    ) -> Result<(), CudaError> {
        let mut finder = mem::take(&mut self.finder);
        finder.find(program, plan);
        let written = self.write_in_waves(program, table, plan, &finder.waves, (initial, stayed));
        self.finder = finder;
        written
    }

    /// Like [`write`](Self::write), but with the given waves of the steps.
    pub(crate) fn write_in_waves(
        &mut self,
        program: &Program,
        table: &PhaseTable,
        plan: &Plan,
        waves: &[u32],
        (initial, stayed): (usize, usize),
    ) -> Result<(), CudaError> {
        assert_eq!(waves.len(), plan.steps.len(), "a wave for each step");
        self.order.clear();
        self.order.extend((0..).zip(waves).map(|(step, &wave)| (wave, step)));
        self.order.sort_unstable();
        check_length(numbers_of_steps(plan))?;
        self.place_scratch(program, plan)?;
        let given = !plan.given.is_empty();
        let wanted = !plan.wanted.is_empty();
        let waves = usize::from(given) + self.phase_waves(table, plan) + usize::from(wanted);
        self.words.clear();
        self.words.resize(waves + 2, 0);
        let steps_at = self.lay_out_jobs(program, table, plan, (initial, stayed))?;
        self.write_steps(plan, steps_at);
        Ok(())
    }

    /// Returns the whole array of numbers.
    #[must_use]
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// Returns the number of waves.
    #[must_use]
    pub fn waves(&self) -> usize {
        self.words.first().map_or(0, |&waves| waves as usize)
    }

    /// Returns the number of jobs of a wave.
    ///
    /// # Panics
    /// If `wave` is out of range.
    #[must_use]
    pub fn jobs(&self, wave: usize) -> usize {
        assert!(wave < self.waves(), "wave {wave} of {}", self.waves());
        (self.words[wave + 2] - self.words[wave + 1]) as usize / JOB
    }

    /// Returns the number of elements of the arena and scratch together.
    #[must_use]
    pub fn arena(&self) -> usize {
        self.arena
    }

    /// Returns the number of elements of all wanted values, which the host reads.
    #[must_use]
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// Returns the number of argmax indices that the host reads.
    #[must_use]
    pub fn indices(&self) -> usize {
        self.indices
    }

    /// Returns the number of elements kept for the next plan.
    #[must_use]
    pub fn stay(&self) -> usize {
        self.stay
    }

    /// Places the scratch of all steps after the arena.
    fn place_scratch(&mut self, program: &Program, plan: &Plan) -> Result<(), CudaError> {
        self.steps.clear();
        self.steps.resize(plan.steps.len(), (0, 0));
        let mut most = plan.arena as u64;
        // Steps of a wave run at the same time and need separate scratch. Steps of different waves
        // do not, so the scratch of each wave starts at the end of the arena.
        for of_wave in self.order.chunk_by(|a, b| a.0 == b.0) {
            let mut end = plan.arena as u64;
            for &(_, step) in of_wave {
                let of_step = &plan.steps[step as usize];
                self.steps[step as usize].1 = end as u32;
                let regions = program.carried_out(of_step).regions.iter();
                let row: u64 = regions.map(|&width| u64::from(scratch_width(width))).sum();
                end += u64::from(of_step.calls) * row;
            }
            most = most.max(end);
        }
        self.arena = most as usize;
        check(most, "values and scratch")
    }

    /// Returns the number of waves that run the phases of all steps.
    fn phase_waves(&self, table: &PhaseTable, plan: &Plan) -> usize {
        let of_step = |&(_, step): &(u32, u32)| table.of(&plan.steps[step as usize]).len();
        let of_wave = |steps: &[(u32, u32)]| steps.iter().map(of_step).max().unwrap_or(0);
        self.order.chunk_by(|a, b| a.0 == b.0).map(of_wave).sum()
    }

    /// Writes the number of calls, the places and the operands of each step, and the plan's lists.
    fn write_steps(&mut self, plan: &Plan, steps_at: usize) {
        debug_assert_eq!(self.words.len(), steps_at);
        let operands: usize = (0..plan.steps.len()).map(|step| plan.operands_of(step).len()).sum();
        let lists = (steps_at + 3 * plan.steps.len() + 3 * operands) as u32;
        let rows = lists + plan.lists.len() as u32;
        for (step, of_step) in plan.steps.iter().enumerate() {
            self.words.extend([of_step.calls, of_step.out, self.steps[step].1]);
            for operand in plan.operands_of(step) {
                self.words.extend(match *operand {
                    Operand::Unread => [0, 0, 0],
                    Operand::Span { first, stride } => [1, first, stride],
                    Operand::List { start } => [2, lists + start, 0],
                    Operand::Table { start } | Operand::Hoisted { start } => [2, rows + start, 0],
                    Operand::Many { ends, rows } => [3, lists + ends, lists + rows],
                    Operand::Folded { start } => [4, rows + start, 0],
                });
            }
        }
        self.words.extend(&plan.lists);
        self.words.extend(&plan.rows);
    }
}

/// Returns the number of words that the steps and the plan's lists take.
fn numbers_of_steps(plan: &Plan) -> u64 {
    let of_steps = 3 * (plan.steps.len() as u64 + plan.operands.len() as u64);
    of_steps + plan.lists.len() as u64 + plan.rows.len() as u64
}

fn check_length(numbers: u64) -> Result<(), CudaError> {
    check(numbers, "the command list")
}

/// Fails if 32 bits cannot hold a number of elements.
fn check(elements: u64, what: &'static str) -> Result<(), CudaError> {
    match elements > u64::from(u32::MAX) {
        true => Err(CudaError::TooLarge { what, elements }),
        false => Ok(()),
    }
}

/// Returns the layout of a step's scratch, in elements per call: for each region the size of all
/// earlier regions and its own size; then the size of all regions. A region has a row for each
/// call. Rows start at multiples of four floats.
pub(crate) fn scratch(cell: &CellPlan) -> (Vec<(u32, u32)>, u32) {
    let mut before = 0;
    let place = |&width: &u32| {
        let width = scratch_width(width);
        before += width;
        (before - width, width)
    };
    let regions = cell.regions.iter().map(place).collect();
    (regions, before)
}

/// Returns the distance between rows of scratch that hold `width` floats each, in floats.
fn scratch_width(width: u32) -> u32 {
    width.next_multiple_of(4)
}

/// One line per wave: `wave 1: phase 0 of step @40, calls 0..3, slice 0/2; …`.
impl fmt::Display for CommandList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for wave in 0..self.waves() {
            write!(f, "wave {wave}:")?;
            let jobs = &self.words[self.words[wave + 1] as usize..self.words[wave + 2] as usize];
            for (index, job) in jobs.chunks_exact(JOB).enumerate() {
                f.write_str(if index == 0 { " " } else { "; " })?;
                let &[what, a, b, c, d, e] = job else { unreachable!("six numbers per job") };
                match what {
                    _ if what == CopyJob::Given as u32 => write!(f, "given {a}+{c} -> @{b}")?,
                    _ if what == CopyJob::Stayed as u32 => write!(f, "stayed {a}+{c} -> @{b}")?,
                    _ if what == CopyJob::Output as u32 => write!(f, "@{a}+{c} -> output {b}")?,
                    _ if what == CopyJob::Stay as u32 => write!(f, "@{a}+{c} -> stay {b}")?,
                    _ if what == CopyJob::ArgMax as u32 => {
                        let pieces = &self.words[a as usize..(a + 2 * b) as usize];
                        write!(f, "arg-max {pieces:?} -> index {c}")?;
                    }
                    phase => {
                        let end = b + c;
                        write!(f, "phase {phase} of [{a}], calls {b}..{end}, slice {d}/{e}")?;
                    }
                }
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
