//! A plan for a device: one array of numbers.
//!
//! ```text
//! head                           the number of waves, the number of words of a job, the bits of
//!                                the weight of losses, 0
//! waves                          four numbers each: the index of the first job, the number of
//!                                jobs ([`TILES_ONLY`]), the index of the first copy, the number of
//!                                copies
//! lists, rows                    those of the plan
//! pieces of rows                 a start and a length each, for the argmax of several fields
//! jobs                           at multiples of 16 words. Eight numbers: phase, calls, out,
//!                                scratch, slices, operands, the calls of a tile, and 0 if rows
//!                                are looked up for it, else operands; then two numbers an
//!                                operand
//! lookups                        after the jobs of a wave: for each the start of the table and
//!                                the width of its rows, and pieces as above; then the copies
//! losses                         for each wanted value its term, four numbers: the start of its
//!                                scores, its class, the start of its gradient, and the place of
//!                                its loss; then the place of all losses and of their sums, and
//!                                for each input the end of its wanted values
//! copies                         four numbers each: what, then three that depend on it
//! ```
//!
//! The numbers of an operand are the start of the first call's row and the distance of rows; or the
//! index of a list of starts and [`LIST`] or [`FOLDED`]; or, for any number of rows, the indices of
//! the lists of ends and of rows.
//!
//! A job is a [phase](crate::Phase) of a step. The blocks of a team divide it: into tiles of calls
//! and slices of its units ([`slices`](crate::PhaseEntry::slices)). No two jobs of a
//! wave depend on each other, and a block finds its share of a job with at most four operands
//! without loads that depend on each other, so it loads what it needs for later waves ahead
//! (`kernels/ahead.h`).
//!
//! Each wave of [steps](crate::waves()) becomes one wave of jobs per phase. The first wave also
//! copies the given rows into the arena, and a last wave copies the wanted values out of it.
//! Scratch follows the plan's arena, and each wave of steps reuses it.
//!
//! The first wave of a backward plan computes losses and their gradients, its given rows, and a
//! later one adds up the losses. These are doubles after the scratch. Terms are sorted by width.

mod jobs;
mod losses;

use std::fmt;
use std::mem;

use edbatch_layout::{CellPlan, Plan, Program};
use edbatch_runtime::GivenPlace;

use crate::CudaError;
use crate::phase_table::PhaseTable;
use crate::reads::Reads;
use crate::waves::WaveFinder;

pub(crate) use losses::Losses;

/// The words of the head, of a wave and of a copy.
const ENTRY: usize = 4;

/// Set in the number of jobs of a wave with unit tiles alone: `kernels/ahead.h`.
const TILES_ONLY: u32 = 1 << 31;

/// The words of a job before its operands, and the multiple that its length is of.
const JOB: usize = 8;
const LINE: usize = 16;

/// Replaces the distance of rows of an operand whose rows' starts are in a list: rows of the arena,
/// of the weights, or of folded tables.
const LIST: u32 = u32::MAX;
const FOLDED: u32 = u32::MAX - 1;

/// Set in the index of an argmax if an element of the value is not finite.
pub(crate) const NOT_FINITE: u32 = 1 << 31;

/// The first word of a copying job. Brackets name the job's next words, in elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum CopyJob {
    /// From the given values in host memory to the arena: (from, to, length).
    Given = u32::MAX - 8,
    /// From the trained parameters to the arena: (from, to, length).
    Initial,
    /// From a line of the store to the arena: (line, to, length).
    Stored,
    /// From the arena to the outputs in host memory: (from, to, length).
    Output,
    /// From the arena to a line of the store: (line, from, length).
    Store,
    /// The argmax over pieces of the arena: (start of the list of pieces, number of pieces, to).
    ArgMax,
    /// The same for the offset of a table's row, from the start of the table and the width of its
    /// rows, which precede the list: (start of the list of pieces, number of pieces, word).
    LookUp,
    /// The losses of rows of one width and their gradients: (first term, number of terms, width).
    Loss,
    /// The sums of losses of inputs: (place of losses in the list, number of inputs, number of the
    /// first input in the mini-batch).
    LossSum,
}

/// Where the given rows of a plan come from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Givens<'a> {
    /// The first ones from the host, the next ones from these places, the rest from the host.
    Host(usize, &'a [GivenPlace]),
    /// The initial ones from the trained parameters, whose starts are here; the rest
    /// from the host. Wanted values are copied out only if that is true.
    Trained(&'a [u32], bool),
    /// Like `Trained`, with the starts of parameters; but the others come from one memory, with the
    /// rows of the host first, and borrowed ones from an element on. Wanted values are copied out.
    Borrowed(&'a [u32], &'a [GivenPlace], u32),
    /// They are gradients that the host has; the elements of the arena from which on the plan has
    /// its scratch.
    Gradients(usize),
    /// They are gradients of losses.
    Losses(Losses<'a>),
}

/// A plan as a device reads it: waves of jobs. The next plan reuses the memory.
#[derive(Clone, Default, Debug)]
pub struct CommandList {
    words: Vec<u32>,
    /// The number of elements of the arena and scratch together.
    arena: usize,
    /// The number of elements of wanted values, and of argmax indices.
    outputs: usize,
    indices: usize,
    finder: WaveFinder,
    /// Pairs of a step's wave and its index, and of a lookup's wave and its index after all steps,
    /// sorted.
    order: Vec<(u32, u32)>,
    /// The start of each step's scratch.
    scratch: Vec<u32>,
    /// The width and the index of each wanted value that has a loss, sorted.
    terms: Vec<(u32, u32)>,
}

impl CommandList {
    /// Writes a plan. The first `given.0` of its given rows come from the host, the next ones from
    /// the places `given.1`, as in [`Given::places`](edbatch_runtime::Given::places), and the rest
    /// from the host.
    ///
    /// # Errors
    /// If the arena with scratch, the wanted values, or the command list has 2³² elements or more.
    pub fn write(
        &mut self,
        program: &Program,
        table: &PhaseTable,
        plan: &Plan,
        (initial, places): (usize, &[GivenPlace]),
    ) -> Result<(), CudaError> {
        self.write_from(program, table, plan, Givens::Host(initial, places))
    }

    /// Like [`write`](Self::write), with any source of the given rows.
    pub(crate) fn write_from(
        &mut self,
        program: &Program,
        table: &PhaseTable,
        plan: &Plan,
        given: Givens<'_>,
    ) -> Result<(), CudaError> {
        let mut finder = mem::take(&mut self.finder);
        finder.find(program, plan);
        let written = self.write_in_waves(program, table, plan, &finder.waves, given);
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
        given: Givens<'_>,
    ) -> Result<(), CudaError> {
        assert_eq!(waves.len(), plan.steps.len(), "a wave for each step");
        self.order.clear();
        self.order.extend((0..).zip(waves).map(|(step, &wave)| (wave, step)));
        let lookups = (plan.steps.len() as u32..).zip(&plan.lookups);
        self.order.extend(lookups.map(|(number, own)| (waves[own.step as usize] - 1, number)));
        self.order.sort_unstable();
        self.place_scratch(program, table, plan, given)?;
        self.begin(program, table, plan, given)?;
        let lists = (ENTRY + ENTRY * self.waves()) as u32;
        self.write_jobs((program, plan), table, (lists, lists + plan.lists.len() as u32));
        self.write_copies(program, plan, given, lists + (plan.lists.len() + plan.rows.len()) as u32)
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

    /// Returns the number of jobs and copies of a wave.
    ///
    /// # Panics
    /// If `wave` is out of range.
    #[must_use]
    pub fn jobs(&self, wave: usize) -> usize {
        let [_, jobs, _, copies] = self.wave(wave);
        (jobs + copies) as usize
    }

    /// Returns the phase and the number of calls of each job of a wave that is not a copy.
    pub(crate) fn phases(&self, wave: usize) -> impl Iterator<Item = (usize, u32)> {
        let [job, jobs, ..] = self.wave(wave).map(|word| word as usize);
        let words = self.words[job..][..jobs * self.job()].chunks_exact(self.job());
        words.map(|job| (job[0] as usize, job[1]))
    }

    /// Returns the number of words of a job.
    pub(crate) fn job(&self) -> usize {
        self.words.get(1).map_or(LINE, |&words| words as usize)
    }

    fn wave(&self, wave: usize) -> [u32; ENTRY] {
        assert!(wave < self.waves(), "wave {wave} of {}", self.waves());
        let entry = self.words[ENTRY * (wave + 1)..].first_chunk();
        let [job, jobs, copy, copies] = *entry.expect("each wave has an entry");
        [job, jobs & !TILES_ONLY, copy, copies]
    }

    /// Returns true if a wave has unit tiles alone. It needs no barrier if the wave before has unit
    /// tiles alone too, and its own tiles wait for their rows.
    ///
    /// # Panics
    /// If `wave` is out of range.
    #[must_use]
    pub fn has_tiles_only(&self, wave: usize) -> bool {
        assert!(wave < self.waves(), "wave {wave} of {}", self.waves());
        self.words[ENTRY * (wave + 1) + 1] & TILES_ONLY != 0
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

    /// Returns the cells whose values the steps of the last [`write`](Self::write) read.
    pub(crate) fn reads(&self) -> &Reads {
        &self.finder.reads
    }

    /// Returns the number of argmax indices that the host reads.
    #[must_use]
    pub fn indices(&self) -> usize {
        self.indices
    }

    /// Places the scratch of all steps after the arena.
    fn place_scratch(
        &mut self,
        program: &Program,
        table: &PhaseTable,
        plan: &Plan,
        given: Givens<'_>,
    ) -> Result<(), CudaError> {
        self.scratch.clear();
        self.scratch.resize(plan.steps.len(), 0);
        // What unit tiles store is written once, as no barrier may be between readers and writers.
        let mut begin = given.scratch_of_before().max(plan.arena) as u64;
        for (start, step) in self.scratch.iter_mut().zip(&plan.steps) {
            if let Some(stored) = table.stored_by_tiles(step) {
                *start = (begin as u32).wrapping_sub(stored.start * step.calls);
                begin += u64::from(step.calls) * stored.len() as u64;
            }
        }
        let mut most = begin;
        // Other steps of a wave run at the same time and need separate scratch. Steps of different
        // waves do not, so the scratch of each wave starts at the same place.
        for of_wave in self.order.chunk_by(|a, b| a.0 == b.0) {
            let mut end = begin;
            for &(_, step) in of_wave {
                let Some(of_step) = plan.steps.get(step as usize) else { continue };
                if table.stored_by_tiles(of_step).is_some() {
                    continue;
                }
                self.scratch[step as usize] = end as u32;
                let regions = program.carried_out(of_step).regions.iter();
                let row: u64 = regions.map(|&width| u64::from(scratch_width(width))).sum();
                end += u64::from(of_step.calls) * row;
            }
            most = most.max(end);
        }
        most = given.place_losses(most);
        self.arena = most as usize;
        check(most, "values and scratch")
    }
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

/// One line per wave: `wave 1: phase 0, 3 calls -> @40, 2 slices, 0+8, list 12; …`.
impl fmt::Display for CommandList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = |start: u32, count: u32, words: usize| {
            self.words[start as usize..][..count as usize * words].chunks_exact(words)
        };
        for wave in 0..self.waves() {
            let tiles = if self.has_tiles_only(wave) { " of unit tiles" } else { "" };
            write!(f, "wave {wave}{tiles}:")?;
            let [job, jobs, copy, copies] = self.wave(wave);
            for job in at(job, jobs, self.job()) {
                let (calls, out, slices) = (job[1], job[2], job[4]);
                write!(f, " phase {}, {calls} calls -> @{out}, {slices} slices", job[0])?;
                for operand in job[JOB..].chunks_exact(2).take(job[5] as usize) {
                    match *operand {
                        [start, LIST] => write!(f, ", list {start}")?,
                        [start, FOLDED] => write!(f, ", folded {start}")?,
                        [start, stride] => write!(f, ", {start}+{stride}")?,
                        _ => unreachable!("two numbers an operand"),
                    }
                }
                f.write_str(";")?;
            }
            for copy in at(copy, copies, ENTRY) {
                let &[what, a, b, c] = copy else { unreachable!("four numbers a copy") };
                match what {
                    _ if what == CopyJob::Given as u32 => write!(f, " given {a}+{c} -> @{b};")?,
                    _ if what == CopyJob::Initial as u32 => {
                        write!(f, " parameters {a}+{c} -> @{b};")?;
                    }
                    _ if what == CopyJob::Loss as u32 => {
                        let terms = &self.words[a as usize..][..4 * b as usize];
                        write!(f, " losses of width {c} {:?};", terms.as_chunks::<4>().0)?;
                    }
                    _ if what == CopyJob::LossSum as u32 => {
                        let list = &self.words[a as usize..][..2 + b as usize];
                        write!(f, " sums of losses {list:?} of inputs from {c};")?;
                    }
                    _ if what == CopyJob::Stored as u32 => write!(f, " line {a}+{c} -> @{b};")?,
                    _ if what == CopyJob::Output as u32 => write!(f, " @{a}+{c} -> output {b};")?,
                    _ if what == CopyJob::Store as u32 => write!(f, " @{b}+{c} -> line {a};")?,
                    _ if what == CopyJob::LookUp as u32 => {
                        let [base, width, pieces @ ..] =
                            &self.words[a as usize - 2..(a + 2 * b) as usize]
                        else {
                            unreachable!("two numbers before the pieces")
                        };
                        write!(f, " {base}+{width} × arg-max {pieces:?} -> word {c};")?;
                    }
                    _ => {
                        let pieces = &self.words[a as usize..(a + 2 * b) as usize];
                        write!(f, " arg-max {pieces:?} -> index {c};")?;
                    }
                }
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
