//! The memory of a slot, in which a plan runs step by step.

use std::mem;

use edbatch_graph::RecordId;
use edbatch_layout::{LINE, Lookup, Plan, Program, Step, ValueRow, Want};

use super::load::Loaded;
use super::tile::Job;
use super::{MIN_SHARED, Shared};
use crate::backend::{fields, reserve};
#[cfg(feature = "tracing")]
use crate::count::bytes_gathered_by;
use crate::kernels::rows::split_around;
use crate::kernels::{Aligned, ArgMax, Pass, arg_max, prefetch};
use crate::thread_pool::ClaimedPool;
use crate::{BackendError, Given, GivenPlace, Part, StoredRow, span};

/// Minimum number of rows per thread if threads share the tiles of a batch. With fewer rows,
/// threads share the columns of each product.
const MIN_ROWS: usize = 2;

/// The number of rows that a thread copies at a time.
const PIECE: usize = 1 << 9;

/// The number of stored rows from a row that is copied to the one that is prefetched.
const AHEAD: usize = 8;

/// The memory of a slot.
#[derive(Debug, Default)]
pub(super) struct Slot {
    pub(super) arena: Aligned,
    /// Rows that outlive a plan. The caller knows which lines are in use.
    pub(super) store: Aligned,
    /// For each wanted value of the last plan: the index of its largest element, if wanted.
    pub(super) arg_max: Vec<ArgMax>,
    /// The direction in which the last step read its weights.
    pass: Pass,
    /// The loss of each wanted value of the last plan, after its backward pass.
    pub(super) losses: Vec<f64>,
}

impl Slot {
    /// Runs a part on thread number `worker`, or on all `workers` if there are any.
    pub(super) fn run(
        &mut self,
        shared: Shared<'_>,
        part: &Part<'_>,
        worker: usize,
        mut workers: Option<&mut ClaimedPool<'_>>,
    ) {
        self.place(shared.loaded, part.plan, &part.given, workers.as_deref_mut());
        let mut looked_up = (!part.plan.lookups.is_empty()).then(|| part.plan.clone());
        for step in 0..part.plan.steps.len() {
            if !shared.cancel.allows(part.plan, step) {
                return;
            }
            if let Some(plan) = &mut looked_up {
                self.look_up(shared.loaded, plan, step);
            }
            let plan = looked_up.as_ref().unwrap_or(part.plan);
            self.execute(shared, plan, step, worker, workers.as_deref_mut());
        }
        self.collect(shared.loaded, part.plan);
    }

    /// Writes the offsets of the table rows that a step looks up.
    fn look_up(&self, loaded: &Loaded, plan: &mut Plan, step: usize) {
        let own = plan.lookups_of(step).iter();
        let largest = own.map(|own| (*own, largest(loaded, &self.arena, own.value).index));
        for (Lookup { entry, base, width, .. }, index) in largest.collect::<Vec<_>>() {
            plan.rows[entry as usize] = base + width * index;
        }
    }

    /// Writes the given values into the arena. Workers, if any, share large copies.
    fn place(
        &mut self,
        loaded: &Loaded,
        plan: &Plan,
        given: &Given<'_>,
        workers: Option<&mut ClaimedPool<'_>>,
    ) {
        let program = &loaded.program;
        let Self { arena, store, .. } = self;
        let (initial, others) = plan.given.split_at(given.initial.len());
        for (&row, elements) in initial.iter().zip(given.initial.iter()) {
            place(arena, program, row, elements);
        }
        let (placed, rest) = others.split_at(given.places.len());
        let mut host = given.host;
        for (index, (&row, &at)) in placed.iter().zip(given.places).enumerate() {
            let GivenPlace::Stored(line) = at else {
                host = place(arena, program, row, host);
                continue;
            };
            if let Some(&GivenPlace::Stored(line)) = given.places.get(index + AHEAD) {
                let ahead = stored(store, program, others[index + AHEAD].record, line);
                ahead.iter().step_by(LINE).for_each(prefetch);
            }
            let from = stored(store, program, row.record, line);
            arena[row.start as usize..][..from.len()].copy_from_slice(from);
        }
        place_all(arena, program, rest, host, workers);
    }

    /// Appends the elements of stored rows, field by field.
    pub(super) fn read(
        &self,
        program: &Program,
        rows: &[StoredRow],
        to: &mut Vec<f32>,
    ) -> Result<(), BackendError> {
        for &StoredRow { record, line } in rows {
            let row = stored(&self.store, program, record, line);
            for (start, width) in fields(program, ValueRow { record, start: 0 }) {
                reserve(to, width, "the elements of stored rows")?;
                to.extend_from_slice(&row[start..][..width]);
            }
        }
        Ok(())
    }

    /// Copies rows out of the arena to the store, and computes the wanted argmax indices.
    fn collect(&mut self, loaded: &Loaded, plan: &Plan) {
        self.arg_max.clear();
        for (index, &(row, want)) in plan.wanted.iter().enumerate() {
            match want {
                Want::Elements => {}
                Want::Store(line) => {
                    let stride = loaded.program.record(row.record).stride as usize;
                    let to = &mut self.store[line as usize * LINE..][..stride];
                    to.copy_from_slice(&self.arena[row.start as usize..][..stride]);
                }
                Want::ArgMax => {
                    self.arg_max.resize(index, ArgMax::default());
                    self.arg_max.push(largest(loaded, &self.arena, row));
                }
            }
        }
    }

    /// Runs a step on thread number `worker`. If there are `workers`, they share its tiles or the
    /// columns of its products.
    pub(super) fn execute(
        &mut self,
        shared: Shared<'_>,
        plan: &Plan,
        index: usize,
        worker: usize,
        mut workers: Option<&mut ClaimedPool<'_>>,
    ) {
        let Shared { loaded, weights, profile, .. } = shared;
        let step = plan.steps[index];
        let (calls, out) = (step.calls as usize, step.out as usize);
        let _span = match step.is_batch() {
            true => span!(
                TRACE,
                "batch",
                cell = loaded.program.network()[step.cell].name(),
                calls,
                gathered_bytes = bytes_gathered_by(&loaded.program, plan, index),
            ),
            false => {
                span!(TRACE, "prologue", cell = loaded.program.network()[step.cell].name(), calls,)
            }
        };
        let cell = loaded.carried_out(&step);
        let stride = cell.stride;
        // A batch never writes a row that it reads.
        let (around, written) = split_around(&mut self.arena, out..out + calls * stride);
        // The last step may have read the same weights. Then read them in the opposite direction,
        // because those that it read last are still in the cache.
        let part = |step: &Step| (step.cell, step.action);
        let again = index > 0 && part(&plan.steps[index - 1]) == part(&step);
        self.pass = match self.pass {
            Pass::Forwards if again => Pass::Backwards,
            _ => Pass::Forwards,
        };
        let job = Job { loaded, weights, plan, index, around, profile, pass: self.pass };

        let max_rows = cell.most_rows();
        let worth = |threads: usize| calls >= MIN_ROWS * threads && calls * cell.work >= MIN_SHARED;
        if let Some(workers) = workers.as_mut().filter(|workers| worth(workers.threads())) {
            // Each thread gets the same number of tiles, if there are enough rows, so that all
            // threads finish together.
            let tiles = workers.threads() * calls.div_ceil(workers.threads() * max_rows);
            let rows = calls.div_ceil(tiles);
            let tiles = written.chunks_mut(rows * stride).enumerate();
            workers.share_alike(tiles, |worker, (tile, out)| {
                let first = tile * rows;
                let _span = span!(TRACE, "tile", calls = (out.len() / stride.max(1)) as u64);
                let mut workspace = shared.workspace(worker);
                job.run(first..calls.min(first + rows), out, &mut workspace, None);
            });
            return;
        }
        let mut workspace = shared.workspace(worker);
        let tiles = calls.div_ceil(max_rows).max(1);
        let mut rest = written;
        for tile in (0..tiles).map(|tile| tile * calls / tiles..(tile + 1) * calls / tiles) {
            let (out, after) = rest.split_at_mut(tile.len() * stride);
            rest = after;
            job.run(tile, out, &mut workspace, workers.as_deref_mut());
        }
    }
}

/// Returns the largest element of a row of the arena.
fn largest(loaded: &Loaded, arena: &[f32], row: ValueRow) -> ArgMax {
    let mut fields = fields(&loaded.program, row).map(|(start, width)| &arena[start..][..width]);
    let (first, second) = (fields.next().unwrap_or_default(), fields.next());
    match second {
        // No copy for the common case, such as the scores of a large vocabulary.
        None => arg_max(loaded.level, first),
        Some(second) => {
            let all: Vec<&[f32]> = [first, second].into_iter().chain(fields).collect();
            arg_max(loaded.level, &all.concat())
        }
    }
}

/// Returns a row in the store: all of its lines.
fn stored<'a>(store: &'a Aligned, program: &Program, record: RecordId, line: u32) -> &'a [f32] {
    &store[line as usize * LINE..][..program.record(record).stride as usize]
}

/// Writes rows of the arena. Workers, if any, share large copies if the rows are in order.
///
/// # Panics
/// Unless there are elements for all of the rows.
pub(super) fn place_all(
    mut arena: &mut [f32],
    program: &Program,
    rows: &[ValueRow],
    mut elements: &[f32],
    workers: Option<&mut ClaimedPool<'_>>,
) {
    let large = workers.filter(|_| elements.len() >= MIN_SHARED);
    let Some(workers) = large.filter(|_| rows.is_sorted_by_key(|row| row.start)) else {
        for &row in rows {
            elements = place(arena, program, row, elements);
        }
        assert!(elements.is_empty(), "the plan has a row for every given element");
        return;
    };
    let mut before = 0;
    let pieces = rows.chunks(PIECE).map(|rows| {
        let widths = rows.iter().flat_map(|&row| fields(program, row)).map(|(_, width)| width);
        let (own, after) = elements.split_at(widths.sum());
        elements = after;
        let (first, last) = (rows[0].start, rows[rows.len() - 1]);
        let end = (last.start + program.record(last.record).stride) as usize;
        let (to, after) =
            mem::take(&mut arena)[first as usize - before..].split_at_mut(end - first as usize);
        (arena, before) = (after, end);
        (rows, own, to)
    });
    let pieces: Vec<_> = pieces.collect();
    assert!(elements.is_empty(), "the plan has a row for every given element");
    let write = |(rows, mut own, to): (&[ValueRow], &[f32], &mut [f32])| {
        let first = rows.first().map_or(0, |row| row.start);
        for &ValueRow { record, start } in rows {
            own = place(to, program, ValueRow { record, start: start - first }, own);
        }
    };
    workers.share(pieces.into_iter(), |_, piece| write(piece));
}

/// Writes a row of the arena. Returns the elements that remain.
fn place<'a>(
    arena: &mut [f32],
    program: &Program,
    row: ValueRow,
    mut elements: &'a [f32],
) -> &'a [f32] {
    for (start, width) in fields(program, row) {
        let (field, rest) = elements.split_at(width);
        arena[start..][..width].copy_from_slice(field);
        elements = rest;
    }
    elements
}
