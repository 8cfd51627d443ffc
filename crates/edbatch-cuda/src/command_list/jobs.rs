//! The jobs of a command list, wave by wave.

use edbatch_layout::{Plan, Program, ValueRow, Want};

use super::{CommandList, CopyJob, TILE, check, check_length, numbers_of_steps};
use crate::CudaError;
use crate::phase_table::PhaseTable;

impl CommandList {
    /// Writes the index of each wave's first job, all jobs, and the pieces of rows. Returns the
    /// index at which the steps begin in the array.
    pub(super) fn lay_out_jobs(
        &mut self,
        program: &Program,
        table: &PhaseTable,
        plan: &Plan,
        given: (usize, usize),
    ) -> Result<usize, CudaError> {
        self.from_steps.clear();
        self.from_pieces.clear();
        self.pieces.clear();
        if !plan.given.is_empty() {
            begin(&mut self.words);
            give(&mut self.words, program, &plan.given, given);
        }
        self.lay_out_phases(table, plan);
        self.lay_out_wanted(program, plan)?;
        let Self { words, from_steps, from_pieces, pieces, .. } = self;
        check_length((words.len() + pieces.len()) as u64 + numbers_of_steps(plan))?;
        let (end, waves) = (words.len() as u32, words[0] as usize);
        words[waves + 1] = end;
        let steps_at = end + pieces.len() as u32;
        from_pieces.iter().for_each(|&word| words[word] += end);
        from_steps.iter().for_each(|&word| words[word] += steps_at);
        words.extend(&*pieces);
        Ok(steps_at as usize)
    }

    /// Writes the jobs of all phases of the steps.
    fn lay_out_phases(&mut self, table: &PhaseTable, plan: &Plan) {
        let Self { words, order, steps, from_steps, .. } = self;
        // The steps' numbers follow all jobs. Until these are written, positions are relative.
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
                    Some((step as usize, number, table.entries()[number as usize].slices))
                });
                // Jobs that all blocks of a team share come first.
                let undivided = of_phase.clone().filter(|&(.., slices)| slices == 0);
                let divided = of_phase.filter(|&(.., slices)| slices > 0);
                for (step, number, slices) in undivided.chain(divided) {
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
    }

    /// Writes the jobs of the last wave, which copy the wanted values out of the arena.
    fn lay_out_wanted(&mut self, program: &Program, plan: &Plan) -> Result<(), CudaError> {
        (self.outputs, self.indices, self.stay) = (0, 0, 0);
        let Self { words, from_pieces, pieces, .. } = self;
        if !plan.wanted.is_empty() {
            begin(words);
        }
        for &(row, want) in &plan.wanted {
            match want {
                Want::Elements => copy(words, CopyJob::Output, program, row, &mut self.outputs),
                Want::Stay => copy(words, CopyJob::Stay, program, row, &mut self.stay),
                Want::ArgMax => {
                    let widths = fields(program, row).map(|(_, width)| u64::from(width));
                    check(2 * widths.sum::<u64>(), "twice the elements of an argmax")?;
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
        check(self.outputs.max(self.stay) as u64, "results")
    }
}

/// Begins a wave: counts it, and writes the index of its first job.
fn begin(words: &mut [u32]) {
    words[0] += 1;
    let wave = words[0] as usize;
    words[wave] = words.len() as u32;
}

/// Writes the jobs that copy the given rows into the arena: the first `initial` from the host, the
/// next `stayed` from the previous plan, the rest from the host.
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

/// Writes the jobs that copy a row's fields out of the arena, to consecutive places from `to` on.
fn copy(words: &mut Vec<u32>, what: CopyJob, program: &Program, row: ValueRow, to: &mut usize) {
    for (start, len) in fields(program, row) {
        words.extend([what as u32, start, *to as u32, len, 0, 0]);
        *to += len as usize;
    }
}

/// Returns the start and the number of elements of each field of a row.
fn fields(program: &Program, row: ValueRow) -> impl Iterator<Item = (u32, u32)> + use<'_> {
    let layout = program.record(row.record);
    let starts = layout.offsets.iter().map(move |&offset| row.start + offset);
    starts.zip(layout.widths.iter().copied())
}
