//! A plan for a device: one list of numbers, which it reads as it stands.
//!
//! ```text
//! waves                          how many
//! first job of each wave, end    as indices into the list
//! jobs                           six numbers each: what, then five that depend on it
//! pieces of rows                 a start and a length each, for the greatest of several fields
//! steps                          calls, out, scratch; then three numbers an operand: its form
//!                                (a span, a list, any number of rows, rows of a folded table),
//!                                then two that depend on it
//! lists, rows                    those of the plan
//! ```
//!
//! A job is what a block does without waiting: a [phase](crate::Phase) of a step for a tile of its
//! calls, or for one of them, and a slice of its units; or a copy. No two jobs of a wave depend on
//! each other. Waves are those of the plan, one for each phase; before them come the given rows,
//! behind them what is wanted. In a wave the jobs come first whose units the device divides by
//! itself ([`PhaseEntry::slices`](crate::PhaseEntry::slices)). Scratch lies behind the plan's
//! arena, and every wave of the plan uses it again.

use std::fmt;

use crate::cell_plan::CellPlan;
use crate::phase_table::{PhaseEntry, PhaseTable};
use crate::plan::{Operand, Plan, ValueRow, Want};
use crate::planner::{Addressed, ArenaTooLarge};
use crate::program::Program;

/// The most calls of a job.
pub const TILE: u32 = 16;

/// Numbers of a job.
const JOB: usize = 6;

/// What a job does, other than a phase: the first of its numbers. Starts count elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum CopyJob {
    /// From what the host gives into the arena: from, to, length.
    Given = u32::MAX - 4,
    /// From what stayed into the arena: from, to, length.
    Stayed,
    /// From the arena to what the host reads: from, to, length.
    Output,
    /// From the arena to what stays: from, to, length.
    Stay,
    /// The index of the greatest element of pieces of the arena: where the pieces are listed, how
    /// many, to.
    ArgMax,
}

/// A plan with [waves](Plan::waves) as a device reads it. Memory is kept from one to the next.
#[derive(Clone, Default, Debug)]
pub struct Tape {
    words: Vec<u32>,
    /// Elements of the arena, scratch included.
    arena: usize,
    /// Elements and indices that the host reads, and elements that stay.
    outputs: usize,
    indices: usize,
    stay: usize,
    /// By step: its wave and its number. Sorted.
    order: Vec<(u32, u32)>,
    /// By step: where its numbers begin, and its scratch.
    steps: Vec<(u32, u32)>,
    /// Words that count from where the steps begin, until that is known.
    from_steps: Vec<usize>,
    /// Words that count from where the pieces begin, and the pieces.
    from_pieces: Vec<usize>,
    pieces: Vec<u32>,
}

impl Tape {
    /// Writes a plan of which the first `initial` given rows and the last come from the host, and
    /// so many in between stayed.
    ///
    /// # Errors
    /// If arena and scratch together have 2³² elements or more, or what is wanted, or the tape as
    /// many numbers.
    ///
    /// # Panics
    /// If the plan has no waves.
    pub fn write(
        &mut self,
        program: &Program,
        table: &PhaseTable,
        plan: &Plan,
        (initial, stayed): (usize, usize),
    ) -> Result<(), ArenaTooLarge> {
        assert_eq!(plan.waves.len(), plan.steps.len(), "a plan with waves");
        self.order.clear();
        self.order.extend((0..).zip(&plan.waves).map(|(step, &wave)| (wave, step)));
        self.order.sort_unstable();
        of_lists(numbers_of_steps(plan))?;
        self.place_scratch(program, plan)?;
        let given = !plan.given.is_empty();
        let wanted = !plan.wanted.is_empty();
        let waves = usize::from(given) + self.phase_waves(table, plan) + usize::from(wanted);
        self.words.clear();
        self.words.resize(waves + 2, 0);
        self.words[0] = waves as u32;
        let steps_at = self.lay_out_jobs(program, table, plan, (initial, stayed))?;
        self.write_steps(plan, steps_at);
        Ok(())
    }

    /// The numbers.
    #[must_use]
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// Number of waves: launches of a driver that launches each.
    #[must_use]
    pub fn waves(&self) -> usize {
        self.words.first().map_or(0, |&waves| waves as usize)
    }

    /// How many jobs a wave has.
    ///
    /// # Panics
    /// If there are fewer waves.
    #[must_use]
    pub fn jobs(&self, wave: usize) -> usize {
        assert!(wave < self.waves(), "wave {wave} of {}", self.waves());
        (self.words[wave + 2] - self.words[wave + 1]) as usize / JOB
    }

    /// Elements of the arena, with scratch.
    #[must_use]
    pub fn arena(&self) -> usize {
        self.arena
    }

    /// Elements that the host reads, one wanted value after the other.
    #[must_use]
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// Indices that the host reads.
    #[must_use]
    pub fn indices(&self) -> usize {
        self.indices
    }

    /// Elements that stay.
    #[must_use]
    pub fn stay(&self) -> usize {
        self.stay
    }

    /// Gives every step of a wave scratch of its own, behind the arena.
    fn place_scratch(&mut self, program: &Program, plan: &Plan) -> Result<(), ArenaTooLarge> {
        self.steps.clear();
        self.steps.resize(plan.steps.len(), (0, 0));
        let mut most = plan.arena as u64;
        // Steps of a wave run side by side and need scratch of their own; those of different waves
        // never do, so each wave begins behind the arena again.
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
        at_most(most, Addressed::Values)
    }

    /// How many waves the phases of all steps take.
    fn phase_waves(&self, table: &PhaseTable, plan: &Plan) -> usize {
        let of_step = |&(_, step): &(u32, u32)| table.of(&plan.steps[step as usize]).len();
        let of_wave = |steps: &[(u32, u32)]| steps.iter().map(of_step).max().unwrap_or(0);
        self.order.chunk_by(|a, b| a.0 == b.0).map(of_wave).sum()
    }

    /// Writes all jobs and where waves begin; returns where the steps' numbers begin.
    fn lay_out_jobs(
        &mut self,
        program: &Program,
        table: &PhaseTable,
        plan: &Plan,
        given: (usize, usize),
    ) -> Result<usize, ArenaTooLarge> {
        let Self { words, order, steps, from_steps, from_pieces, pieces, .. } = self;
        from_steps.clear();
        from_pieces.clear();
        pieces.clear();
        let mut wave = 1;
        let mut begin = |words: &mut Vec<u32>| {
            words[wave] = words.len() as u32;
            wave += 1;
        };
        if !plan.given.is_empty() {
            begin(words);
            give(words, program, &plan.given, given);
        }
        // The numbers of steps stand behind all jobs, so first they count from there.
        let mut at = 0;
        for (step, of_step) in steps.iter_mut().enumerate() {
            of_step.0 = at;
            at += 3 + 3 * plan.operands_of(step).len() as u32;
        }
        for of_wave in order.chunk_by(|a, b| a.0 == b.0) {
            let most = of_wave.iter().map(|&(_, step)| table.of(&plan.steps[step as usize]).len());
            for phase in 0..most.max().unwrap_or(0) {
                begin(words);
                let of_phase = of_wave.iter().filter_map(|&(_, step)| {
                    let number = table.of(&plan.steps[step as usize]).nth(phase)?;
                    Some((step as usize, number, &table.entries()[number as usize]))
                });
                // Those without slices first.
                let undivided = of_phase.clone().filter(|(.., entry)| entry.slices == 0);
                let divided = of_phase.filter(|(.., entry)| entry.slices > 0);
                for (step, number, entry) in undivided.chain(divided) {
                    let &PhaseEntry { slices, .. } = entry;
                    let calls = plan.steps[step].calls;
                    for first in (0..calls).step_by(TILE as usize) {
                        let count = TILE.min(calls - first);
                        for slice in 0..slices.max(1) {
                            from_steps.push(words.len() + 1);
                            let step = steps[step].0;
                            words.extend([number, step, first, count, slice, slices]);
                        }
                    }
                }
            }
        }
        (self.outputs, self.indices, self.stay) = (0, 0, 0);
        if !plan.wanted.is_empty() {
            begin(words);
            for &(row, want) in &plan.wanted {
                match want {
                    Want::Elements => copy(words, CopyJob::Output, program, row, &mut self.outputs),
                    Want::Stay => copy(words, CopyJob::Stay, program, row, &mut self.stay),
                    Want::ArgMax => {
                        let before = pieces.len() as u32;
                        pieces.extend(fields(program, row).flat_map(|(start, len)| [start, len]));
                        from_pieces.push(words.len() + 1);
                        let count = (pieces.len() as u32 - before) / 2;
                        let to = self.indices as u32;
                        words.extend([CopyJob::ArgMax as u32, before, count, to, 0, 0]);
                        self.indices += 1;
                    }
                }
            }
        }
        at_most(self.outputs.max(self.stay) as u64, Addressed::Results)?;
        of_lists((words.len() + pieces.len()) as u64 + numbers_of_steps(plan))?;
        let end = words.len() as u32;
        words[wave] = end;
        let steps_at = end + pieces.len() as u32;
        from_pieces.iter().for_each(|&word| words[word] += end);
        from_steps.iter().for_each(|&word| words[word] += steps_at);
        words.extend(&*pieces);
        Ok(steps_at as usize)
    }

    /// Writes calls, places and operands of all steps, and the plan's lists.
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

/// How many numbers stand behind the jobs and the pieces.
fn numbers_of_steps(plan: &Plan) -> u64 {
    let of_steps = 3 * (plan.steps.len() as u64 + plan.operands.len() as u64);
    of_steps + plan.lists.len() as u64 + plan.rows.len() as u64
}

fn of_lists(numbers: u64) -> Result<(), ArenaTooLarge> {
    at_most(numbers, Addressed::Lists)
}

/// Refuses what 32 bits cannot number.
fn at_most(elements: u64, what: Addressed) -> Result<(), ArenaTooLarge> {
    match elements > u64::from(u32::MAX) {
        true => Err(ArenaTooLarge { elements, what }),
        false => Ok(()),
    }
}

/// How scratch of a step lies behind the arena: for each region of its cell how many elements of a
/// call lie in the regions before, and how many in its own; then those of all regions. Region after
/// region holds a row for every call; rows begin where four floats do.
#[must_use]
pub fn scratch(cell: &CellPlan) -> (Vec<(u32, u32)>, u32) {
    let mut before = 0;
    let place = |&width: &u32| {
        let width = scratch_width(width);
        before += width;
        (before - width, width)
    };
    let regions = cell.regions.iter().map(place).collect();
    (regions, before)
}

/// Elements from a row of scratch to the next.
fn scratch_width(width: u32) -> u32 {
    width.next_multiple_of(4)
}

/// Jobs that bring the given rows into the arena: first from the host, then what stayed, then from
/// the host again.
fn give(
    words: &mut Vec<u32>,
    program: &Program,
    given: &[ValueRow],
    (initial, stayed): (usize, usize),
) {
    let (mut from_host, mut from_stayed) = (0, 0);
    for (index, &row) in given.iter().enumerate() {
        let stays = (initial..initial + stayed).contains(&index);
        let (what, from) = match stays {
            true => (CopyJob::Stayed, &mut from_stayed),
            false => (CopyJob::Given, &mut from_host),
        };
        for (start, len) in fields(program, row) {
            words.extend([what as u32, *from, start, len, 0, 0]);
            *from += len;
        }
    }
}

/// Jobs that bring a row's fields out of the arena, one after the other.
fn copy(words: &mut Vec<u32>, what: CopyJob, program: &Program, row: ValueRow, to: &mut usize) {
    for (start, len) in fields(program, row) {
        words.extend([what as u32, start, *to as u32, len, 0, 0]);
        *to += len as usize;
    }
}

/// Where the fields of a row begin, and how many elements each has.
fn fields(program: &Program, row: ValueRow) -> impl Iterator<Item = (u32, u32)> + use<'_> {
    let layout = program.record(row.record);
    let starts = layout.offsets.iter().map(move |&offset| row.start + offset);
    starts.zip(layout.widths.iter().copied())
}

/// A line a wave: `wave 1: phase 0 of step @40, calls 0..3, slice 0/2; …`.
impl fmt::Display for Tape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for wave in 0..self.waves() {
            write!(f, "wave {wave}:")?;
            let jobs = &self.words[self.words[wave + 1] as usize..self.words[wave + 2] as usize];
            for (index, job) in jobs.chunks_exact(JOB).enumerate() {
                f.write_str(if index == 0 { " " } else { "; " })?;
                let &[what, a, b, c, d, e] = job else { unreachable!("a job has six numbers") };
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
