//! The waves of a command list: jobs and copies.

use edbatch_layout as layout;
use edbatch_layout::{Lookup, Operand, Plan, Program, ValueRow, Want};
use edbatch_runtime::GivenPlace;

use super::{CommandList, CopyJob, ENTRY, FOLDED, Givens, JOB, LINE, LIST, TILES_ONLY, check};
use crate::CudaError;
use crate::phase_table::PhaseTable;

impl CommandList {
    /// Writes the head, empty entries of all waves, the plan's lists, and the pieces of rows.
    ///
    /// # Errors
    /// If the whole list will have 2³² words or more.
    pub(super) fn begin(
        &mut self,
        program: &Program,
        table: &PhaseTable,
        plan: &Plan,
        of_given: Givens<'_>,
    ) -> Result<(), CudaError> {
        let operands = (0..plan.steps.len()).map(|step| plan.operands_of(step).len());
        let job = (JOB + 2 * operands.max().unwrap_or(0)).next_multiple_of(LINE);
        let wanted_rows = of_given.wanted(plan);
        let waves = self.count_waves(table, plan, wanted_rows).max(of_given.least_waves());
        let jobs: usize = plan.steps.iter().map(|step| table.of(step).len()).sum();
        let given = plan.given.iter().map(|&row| fields(program, row).count());
        let wanted = wanted_rows.iter().map(|&(row, want)| match want {
            Want::ArgMax => 1,
            _ => fields(program, row).count(),
        });
        let pieces = arg_maxes(wanted_rows).map(|row| 2 * fields(program, row).count());
        let lookups = plan.lookups.iter();
        let lookups = lookups.map(|own| 2 * fields(program, own.value).count() + 6 + LINE);
        let lists = plan.lists.len() + plan.rows.len() + pieces.chain(lookups).sum::<usize>();
        let entries = ENTRY * (1 + waves + given.chain(wanted).sum::<usize>());
        let lists = lists + of_given.words();
        check((entries + lists + LINE + job * jobs) as u64, "the command list")?;
        self.words.clear();
        self.words.extend([waves as u32, job as u32, of_given.weight().to_bits(), 0]);
        self.words.resize(ENTRY * (1 + waves), 0);
        self.words.extend(&plan.lists);
        self.words.extend(&plan.rows);
        let pieces = arg_maxes(wanted_rows).flat_map(|row| fields(program, row));
        self.words.extend(pieces.flat_map(|(start, len)| [start, len]));
        self.words.resize(self.words.len().next_multiple_of(LINE), 0);
        Ok(())
    }

    /// Returns the number of waves: one for each phase of a wave of steps, and up to two of copies.
    fn count_waves(&self, table: &PhaseTable, plan: &Plan, wanted: &[(ValueRow, Want)]) -> usize {
        let of_wave = |steps: &[(u32, u32)]| most_phases(table, plan, steps);
        let phases: usize = self.order.chunk_by(|a, b| a.0 == b.0).map(of_wave).sum();
        usize::from(self.only_gives(plan)) + phases + usize::from(!wanted.is_empty())
    }

    /// Returns true if the first wave only copies given rows, because each step waits for them.
    fn only_gives(&self, plan: &Plan) -> bool {
        !plan.given.is_empty() && self.order.first().is_none_or(|&(wave, _)| wave > 0)
    }

    /// Writes the jobs of all phases of the steps. The plan's lists and rows are at `lists` and
    /// `rows`.
    pub(super) fn write_jobs(
        &mut self,
        (program, plan): (&Program, &Plan),
        table: &PhaseTable,
        (lists, rows): (u32, u32),
    ) {
        let mut wave = usize::from(self.only_gives(plan));
        let Self { words, order, scratch, .. } = self;
        for of_wave in order.chunk_by(|a, b| a.0 == b.0) {
            let begin = wave;
            for phase in 0..most_phases(table, plan, of_wave) {
                let (first, mut jobs, mut tiles) = (words.len(), 0, TILES_ONLY);
                for &(_, step) in of_wave {
                    let index = step as usize;
                    let Some(of_step) = plan.steps.get(index) else { continue };
                    let Some(number) = table.of(of_step).nth(phase) else { continue };
                    let slices = table.entries()[number as usize].slices;
                    if table.stored_by_tiles(of_step).is_none() {
                        tiles = 0;
                    }
                    let operands = plan.operands_of(index);
                    words.extend([number, of_step.calls, of_step.out, scratch[index]]);
                    let tile = table.tile(number, of_step.calls);
                    let count = operands.len() as u32;
                    let ahead = if plan.lookups_of(index).is_empty() { count } else { 0 };
                    words.extend([slices, count, tile, ahead]);
                    words.extend(operands.iter().flat_map(|operand| match *operand {
                        Operand::Unread => [0, 0],
                        Operand::Span { first, stride } => [first, stride],
                        Operand::List { start } => [lists + start, LIST],
                        Operand::Table { start } => [rows + start, LIST],
                        Operand::Hoisted { start } => [rows + start, LIST],
                        Operand::Many { ends, rows } => [lists + ends, lists + rows],
                        Operand::Folded { start } => [rows + start, FOLDED],
                    }));
                    jobs += 1;
                    words.resize(first + jobs * words[1] as usize, 0);
                }
                words[ENTRY * (wave + 1)..][..2]
                    .copy_from_slice(&[first as u32, jobs as u32 | tiles]);
                wave += 1;
            }
            let first =
                of_wave.partition_point(|&(_, number)| (number as usize) < plan.steps.len());
            let lookups = of_wave[first..].iter();
            let lookups = lookups.map(|&(_, own)| plan.lookups[own as usize - plan.steps.len()]);
            look_up(words, program, lookups, (begin, rows));
        }
    }

    /// Writes the copies: of the given rows into the arena, in the first wave, and of the wanted
    /// values out of it, in the last one. The pieces of rows begin at `pieces`.
    pub(super) fn write_copies(
        &mut self,
        program: &Program,
        plan: &Plan,
        given: Givens<'_>,
        mut pieces: u32,
    ) -> Result<(), CudaError> {
        (self.outputs, self.indices) = (0, 0);
        if let Givens::Losses(losses) = given {
            self.write_losses(program, plan, losses);
            return Ok(());
        }
        let Self { words, outputs, indices, .. } = self;
        if !plan.given.is_empty() {
            let first = words.len();
            give(words, program, &plan.given, given);
            enter(words, 0, first);
        }
        let wanted = given.wanted(plan);
        if wanted.is_empty() {
            return Ok(());
        }
        let first = words.len();
        for &(row, want) in wanted {
            match want {
                Want::Elements => copy(words, CopyJob::Output, program, row, outputs),
                Want::Store(line) => copy_lines(words, CopyJob::Store, program, row, line),
                Want::ArgMax => {
                    let widths = fields(program, row).map(|(_, width)| u64::from(width));
                    check(2 * widths.sum::<u64>(), "twice the elements of an argmax")?;
                    let count = fields(program, row).count() as u32;
                    words.extend([CopyJob::ArgMax as u32, pieces, count, *indices as u32]);
                    pieces += 2 * count;
                    *indices += 1;
                }
            }
        }
        let last = words[0] as usize - 1;
        enter(words, last, first);
        check(self.outputs as u64, "results")
    }
}

/// Returns the number of waves of jobs of the steps and lookups of a wave.
fn most_phases(table: &PhaseTable, plan: &Plan, of_wave: &[(u32, u32)]) -> usize {
    let phases = of_wave.iter().map(|&(_, number)| match plan.steps.get(number as usize) {
        Some(step) => table.of(step).len(),
        None => 1,
    });
    phases.max().unwrap_or(0)
}

/// Writes the lookups of a wave. The plan's rows are at `rows`.
fn look_up(
    words: &mut Vec<u32>,
    program: &Program,
    lookups: impl Iterator<Item = Lookup> + Clone,
    (wave, rows): (usize, u32),
) {
    let mut pieces = words.len() as u32 + 2;
    for Lookup { value, base, width, .. } in lookups.clone() {
        words.extend([base, width]);
        words.extend(fields(program, value).flat_map(|(start, len)| [start, len]));
    }
    let first = words.len();
    for Lookup { value, entry, .. } in lookups {
        let count = fields(program, value).count() as u32;
        words.extend([CopyJob::LookUp as u32, pieces, count, rows + entry]);
        pieces += 2 * count + 2;
    }
    if words.len() > first {
        enter(words, wave, first);
        words.resize(words.len().next_multiple_of(LINE), 0);
    }
}

/// Enters in a wave that its copies begin at `first` and end at the end of the list.
pub(super) fn enter(words: &mut [u32], wave: usize, first: usize) {
    let copies = (words.len() - first) / ENTRY;
    words[ENTRY * (wave + 1) + 1] &= !TILES_ONLY;
    words[ENTRY * (wave + 1) + 2..][..2].copy_from_slice(&[first as u32, copies as u32]);
}

/// Returns the rows of a plan whose argmax is wanted.
fn arg_maxes(wanted: &[(ValueRow, Want)]) -> impl Iterator<Item = ValueRow> {
    wanted.iter().filter(|(_, want)| *want == Want::ArgMax).map(|&(row, _)| row)
}

/// Writes the copies of the given rows into the arena.
fn give(words: &mut Vec<u32>, program: &Program, given: &[ValueRow], of_given: Givens<'_>) {
    let mut from = 0;
    let initial_values = program.network().initial_values();
    for (index, &row) in given.iter().enumerate() {
        match of_given {
            Givens::Host(initial, places) => {
                let place = index.checked_sub(initial).and_then(|index| places.get(index));
                if let Some(&GivenPlace::Stored(line)) = place {
                    copy_lines(words, CopyJob::Stored, program, row, line);
                    continue;
                }
            }
            Givens::Trained(starts, _) | Givens::Borrowed(starts, ..) => {
                if let Some(initial) = initial_values.get(index) {
                    let fields = fields(program, row).zip(&initial.parameters);
                    words.extend(fields.flat_map(|((to, len), parameter)| {
                        [CopyJob::Initial as u32, starts[parameter.0 as usize], to, len]
                    }));
                    continue;
                }
            }
            Givens::Gradients(_) => {}
            Givens::Losses(_) => unreachable!("losses compute the given rows"),
        }
        let mut borrowed = match of_given {
            Givens::Borrowed(_, places, first) => match places.get(index - initial_values.len()) {
                Some(GivenPlace::Borrowed(at)) => Some(first + at),
                _ => None,
            },
            _ => None,
        };
        let from = borrowed.as_mut().unwrap_or(&mut from);
        for (start, len) in fields(program, row) {
            words.extend([CopyJob::Given as u32, *from, start, len]);
            *from += len;
        }
    }
}

/// Writes the copies of a row between the arena and the store. Padding is not copied, because
/// nothing wrote it. It ends at the start of a line, so each copy begins at one.
fn copy_lines(words: &mut Vec<u32>, what: CopyJob, program: &Program, row: ValueRow, line: u32) {
    let mut fields = fields(program, row).peekable();
    while let Some((start, mut len)) = fields.next() {
        while let Some((_, width)) = fields.next_if(|&(next, _)| next == start + len) {
            len += width;
        }
        let offset = start - row.start;
        debug_assert!(offset.is_multiple_of(layout::LINE as u32), "padding ends at a line");
        words.extend([what as u32, line + offset / layout::LINE as u32, start, len]);
    }
}

/// Writes the copies of a row's fields out of the arena, to consecutive places from `to` on.
fn copy(words: &mut Vec<u32>, what: CopyJob, program: &Program, row: ValueRow, to: &mut usize) {
    for (start, len) in fields(program, row) {
        words.extend([what as u32, start, *to as u32, len]);
        *to += len as usize;
    }
}

/// Returns the start and the number of elements of each field of a row.
pub(super) fn fields(
    program: &Program,
    row: ValueRow,
) -> impl Iterator<Item = (u32, u32)> + use<'_> {
    let layout = program.record(row.record);
    let starts = layout.offsets.iter().map(move |&offset| row.start + offset);
    starts.zip(layout.widths.iter().copied())
}
