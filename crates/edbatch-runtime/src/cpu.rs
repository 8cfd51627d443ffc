//! The CPU backend: runs plans on one core or several.
//!
//! A batch is cut into tiles of rows. A tile passes through all steps of its cell before the next
//! tile begins, so that intermediate results and shared operands stay in the cache. Rows are read
//! through the plan's lists; nothing is gathered first. Threads share the tiles of a large batch.
//! In a batch of few rows they share the columns of each product, and a batch of little work runs
//! on one thread. If a round has several parts, each runs on one thread. The results have the same
//! bits in all cases.

mod cancel;
mod finish;
mod load;
mod multiply;
mod profile;
mod sums;
mod target;
mod tile;
mod training;
mod update;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use edbatch_layout::{Plan, Program, ValueRow, Want};

use crate::backend::{Training, fields};
#[cfg(feature = "tracing")]
use crate::count::bytes_gathered_by;
use crate::kernels::rows::split_around;
use crate::kernels::{Aligned, ArgMax, Level, Pass, arg_max};
use crate::thread_pool::{ClaimedPool, ThreadPool};
use crate::{
    Backend, BackendError, Bytes, Given, Outputs, Parameters, Part, Precision, Rows, span,
};
use cancel::Cancel;
use load::{Loaded, Weights};
pub use profile::{Profile, Timer, Work};
use sums::Sums;
use tile::{Job, Workspace};

/// The range of the maximum number of rows of a tile. Kernels are fast with 8 rows or more, and do
/// not gain from more than 64.
const TILE: std::ops::RangeInclusive<usize> = 8..=64;

/// Minimum number of rows per thread if threads share the tiles of a batch. With fewer rows,
/// threads share the columns of each product.
const MIN_ROWS: usize = 2;

/// Minimum work of a batch or product that threads share, in multiply-adds: a few microseconds.
const MIN_SHARED: usize = 1 << 18;

/// Runs plans on the CPU.
#[derive(Debug)]
pub struct Cpu {
    loaded: Arc<Loaded>,
    slots: Vec<Slot>,
    /// Scratch memory, one workspace for each thread.
    workspaces: Vec<Mutex<Workspace>>,
    /// The threads that share parts or batches.
    pool: Option<ThreadPool>,
    profile: Option<Arc<Profile>>,
    /// The gradients of parameters, if the program is for training. Forks share them.
    sums: Option<Arc<Mutex<Sums>>>,
    cancel: Cancel,
}

/// The memory of a slot.
#[derive(Debug, Default)]
struct Slot {
    arena: Aligned,
    /// The elements of the rows that the last plan kept for the next one.
    stayed: Vec<f32>,
    /// For each wanted value of the last plan: the index of its largest element, if wanted.
    arg_max: Vec<ArgMax>,
    /// The direction in which the last step read its weights.
    pass: Pass,
    /// The loss of each wanted value of the last plan, after its backward pass.
    losses: Vec<f64>,
}

/// The state that the parts of a round share.
#[derive(Clone, Copy)]
struct Shared<'a> {
    loaded: &'a Loaded,
    weights: &'a Weights,
    workspaces: &'a [Mutex<Workspace>],
    profile: Option<&'a Profile>,
    cancel: &'a Cancel,
}

impl Cpu {
    /// Loads a program and its parameters for one core. Packs the weights and computes the
    /// [folded tables](Program::fold_tables). Keeps a parameter only if a step reads it unpacked.
    ///
    /// # Errors
    /// If the parameters belong to another network, the program is for training and the precision
    /// is not `f32`, or memory for the packed weights or the folded tables cannot be allocated.
    pub fn new(
        program: Arc<Program>,
        parameters: &Parameters,
        level: Level,
        precision: Precision,
    ) -> Result<Self, BackendError> {
        if program.training().is_some() && precision != Precision::F32 {
            return Err(BackendError::TrainingPrecision(precision));
        }
        let parameters = &parameters.for_network(program.network())?;
        let arithmetic = (level, precision);
        let folded = fold_tables(&program, parameters, arithmetic)?;
        let loaded = Loaded::new(program, parameters, arithmetic, folded);
        let loaded = loaded.map_err(|error| error.of(PACKED))?;
        let sums = Sums::new(&loaded.program).map(|sums| Arc::new(Mutex::new(sums)));
        Ok(Self { sums, ..Self::on(Arc::new(loaded), None) })
    }

    /// Lets the backend use the threads of a pool whenever no other task has claimed them.
    #[must_use]
    pub fn with_pool(self, pool: ThreadPool) -> Self {
        let Self { loaded, profile, sums, .. } = self;
        Self { profile, sums, ..Self::on(loaded, Some(pool)) }
    }

    /// Returns the profile that this backend and its future [forks](Backend::fork) share. It
    /// measures only while it is [switched on](Profile::switch).
    #[must_use]
    pub fn profile(&mut self) -> Arc<Profile> {
        self.profile.get_or_insert_default().clone()
    }

    /// Runs one step of the plan that ran last in slot 0 once more, to measure its time. Its
    /// operands may have been overwritten since, so the results have no meaning.
    pub fn step(&mut self, plan: &Plan, step: usize) {
        let (pool, loaded) = (self.pool.clone(), self.loaded.clone());
        let weights = loaded.weights();
        let (slots, shared) = self.split(&weights);
        let mut workers = pool.as_ref().and_then(ThreadPool::claim);
        slots[0].execute(shared, plan, step, 0, workers.as_mut());
    }

    fn on(loaded: Arc<Loaded>, pool: Option<ThreadPool>) -> Self {
        let threads = pool.as_ref().map_or(1, ThreadPool::threads);
        let workspaces = (0..threads).map(|_| Mutex::default()).collect();
        let slots = vec![Slot::default()];
        let cancel = Cancel::default();
        Self { loaded, slots, workspaces, pool, profile: None, sums: None, cancel }
    }

    fn split<'a>(&'a mut self, weights: &'a Weights) -> (&'a mut [Slot], Shared<'a>) {
        let Self { loaded, slots, workspaces, profile, cancel, .. } = self;
        (slots, Shared { loaded, weights, workspaces, profile: profile.as_deref(), cancel })
    }

    /// Allocates all memory for a plan, before any of it runs.
    fn reserve(&mut self, slot: usize, plan: &Plan) -> Result<(), BackendError> {
        if self.slots.len() <= slot {
            self.slots.resize_with(slot + 1, Slot::default);
        }
        let arena = self.slots[slot].arena.reserve(plan.arena);
        arena.map_err(|error| error.of("the arena of a mini-batch's values"))?;
        self.reserve_workspaces(plan)
    }

    /// Allocates the scratch memory of a plan's steps.
    fn reserve_workspaces(&mut self, plan: &Plan) -> Result<(), BackendError> {
        for step in &plan.steps {
            let part = self.loaded.carried_out(step);
            let rows = part.most_rows().min(step.calls as usize);
            for workspace in &mut self.workspaces {
                let workspace = workspace.get_mut().unwrap_or_else(PoisonError::into_inner);
                let reserved = workspace.reserve((plan, step), (self.loaded.level, part), rows);
                reserved.map_err(|error| error.of("the workspace of a thread"))?;
            }
        }
        Ok(())
    }
}

impl Shared<'_> {
    /// Returns a thread's workspace, even if an earlier panic poisoned its lock.
    fn workspace(&self, worker: usize) -> MutexGuard<'_, Workspace> {
        self.workspaces[worker].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    /// Runs a part on thread number `worker`, or on all `workers` if there are any.
    fn run(
        &mut self,
        shared: Shared<'_>,
        part: &Part<'_>,
        worker: usize,
        mut workers: Option<&mut ClaimedPool<'_>>,
    ) {
        self.place(shared.loaded, part.plan, &part.given);
        for step in 0..part.plan.steps.len() {
            if !shared.cancel.allows(part.plan, step) {
                return;
            }
            self.execute(shared, part.plan, step, worker, workers.as_deref_mut());
        }
        self.collect(shared.loaded, part.plan);
    }

    /// Writes the given values into the arena.
    fn place(&mut self, loaded: &Loaded, plan: &Plan, given: &Given<'_>) {
        let (initial, others) = plan.given.split_at(given.initial.len());
        let (stayed, host) = others.split_at(given.stayed);
        let mut place = |row: &ValueRow, mut elements: &[f32]| -> usize {
            let all = elements.len();
            for (start, width) in fields(&loaded.program, *row) {
                let (field, rest) = elements.split_at(width);
                self.arena[start..][..width].copy_from_slice(field);
                elements = rest;
            }
            all - elements.len()
        };
        for (row, elements) in initial.iter().zip(given.initial.iter()) {
            place(row, elements);
        }
        // The caller passes 0 stayed rows to drop the rows that the last plan kept.
        let stayed_elements = if stayed.is_empty() { &[] } else { &*self.stayed };
        for (rows, elements) in [(stayed, stayed_elements), (host, given.host)] {
            let placed = rows.iter().fold(0, |from, row| from + place(row, &elements[from..]));
            assert_eq!(placed, elements.len(), "the plan has a row for every given element");
        }
    }

    /// Copies the rows that the next plan needs out of the arena, and computes the wanted argmax
    /// indices.
    fn collect(&mut self, loaded: &Loaded, plan: &Plan) {
        self.stayed.clear();
        self.arg_max.clear();
        for (index, &(row, want)) in plan.wanted.iter().enumerate() {
            let fields = || {
                let places = fields(&loaded.program, row);
                places.map(|(start, width)| &self.arena[start..][..width])
            };
            match want {
                Want::Elements => {}
                Want::Stay => fields().for_each(|field| self.stayed.extend_from_slice(field)),
                Want::ArgMax => {
                    let mut fields = fields();
                    let (first, second) = (fields.next().unwrap_or_default(), fields.next());
                    let largest = match second {
                        // No copy for the common case, such as the scores of a large vocabulary.
                        None => arg_max(loaded.level, first),
                        Some(second) => {
                            let all: Vec<&[f32]> =
                                [first, second].into_iter().chain(fields).collect();
                            arg_max(loaded.level, &all.concat())
                        }
                    };
                    self.arg_max.resize(index, ArgMax::default());
                    self.arg_max.push(largest);
                }
            }
        }
    }

    /// Runs a step on thread number `worker`. If there are `workers`, they share its tiles or the
    /// columns of its products.
    fn execute(
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
        let again = index > 0 && plan.steps[index - 1].same_part(&step);
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
            workers.share(tiles, |worker, (tile, out)| {
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

/// The purpose of the memory for packed weights, as out-of-memory errors name it.
const PACKED: &str = "the packed weights";

/// Computes all folded tables, with the same kernels that compute hoisted rows.
fn fold_tables(
    program: &Arc<Program>,
    parameters: &Parameters,
    arithmetic: (Level, Precision),
) -> Result<Aligned, BackendError> {
    let plan = program.folding_plan();
    if plan.steps.is_empty() {
        return Ok(Aligned::default());
    }
    let _span = span!(INFO, "fold tables");
    let loaded = Loaded::to_fold(program.clone(), parameters, arithmetic);
    let loaded = loaded.map_err(|error| error.of(PACKED))?;
    let mut cpu = Cpu::on(Arc::new(loaded), None);
    let arena = cpu.slots[0].arena.reserve(plan.arena);
    arena.map_err(|error| error.of("the folded tables"))?;
    let given = Given { initial: &Rows::new(), stayed: 0, host: &[] };
    cpu.run(&[Part { slot: 0, plan: &plan, given }])?;
    Ok(cpu.slots.swap_remove(0).arena)
}

impl Backend for Cpu {
    fn run(&mut self, parts: &[Part<'_>]) -> Result<(), BackendError> {
        parts.iter().try_for_each(|part| self.reserve(part.slot, part.plan))?;
        let pool = self.pool.clone();
        let mut workers = pool.as_ref().and_then(ThreadPool::claim);
        let loaded = self.loaded.clone();
        let weights = loaded.weights();
        let (slots, shared) = self.split(&weights);
        match (parts, workers.as_mut()) {
            ([_, _, ..], Some(workers)) => {
                let slots = slots.iter_mut().enumerate().filter_map(|(number, slot)| {
                    Some((slot, parts.iter().find(|part| part.slot == number)?))
                });
                let slots: Vec<_> = slots.collect();
                assert_eq!(slots.len(), parts.len(), "a slot occurs once in a round");
                workers.share(slots.into_iter(), |worker, (slot, part)| {
                    slot.run(shared, part, worker, None);
                });
            }
            (parts, mut workers) => parts.iter().for_each(|part| {
                slots[part.slot].run(shared, part, 0, workers.as_deref_mut());
            }),
        }
        self.cancel.check()
    }

    fn outputs<'a>(&'a self, slot: usize, plan: &'a Plan) -> Outputs<'a> {
        let Slot { arena, arg_max, .. } = &self.slots[slot];
        Outputs::new(&self.loaded.program, plan, arena, arg_max)
    }

    fn program(&self) -> Option<&Arc<Program>> {
        Some(&self.loaded.program)
    }

    fn bytes(&self) -> Bytes {
        let elements: usize = self.slots.iter().map(|slot| slot.arena.len()).sum();
        let sums = self.sums.as_ref().map_or(Bytes::default(), |sums| {
            let sums = sums.lock().unwrap_or_else(PoisonError::into_inner);
            sums.bytes(&self.loaded.program)
        });
        Bytes {
            weights: self.loaded.bytes() + sums.weights,
            arena: elements * size_of::<f32>() + sums.arena,
        }
    }

    fn fork(&self) -> Box<dyn Backend> {
        let (profile, sums) = (self.profile.clone(), self.sums.clone());
        Box::new(Self { profile, sums, ..Self::on(self.loaded.clone(), None) })
    }

    fn largest_cell(&self) -> Option<usize> {
        Some(self.loaded.largest_cell())
    }

    fn training(&mut self) -> Option<&mut dyn Training> {
        self.sums.is_some().then_some(self)
    }

    /// Returns true: threads that shared one backend would wait for each other in every round.
    fn prefers_forks(&self) -> bool {
        true
    }
}
