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
mod slot;
mod sums;
mod target;
mod tile;
mod training;
mod update;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use edbatch_layout::{LINE, Plan, Program};

use crate::backend::Training;
use crate::kernels::{Aligned, Level};
use crate::thread_pool::{ClaimedPool, ThreadPool};
use crate::{
    Backend, BackendError, Bytes, Given, Outputs, Parameters, Part, Precision, Rows, StoredRow,
    span,
};
use cancel::Cancel;
use load::{Loaded, Weights};
pub use profile::{Profile, Timer, Work};
use slot::Slot;
use sums::Sums;
use tile::Workspace;

/// The range of the maximum number of rows of a tile. Kernels are fast with 8 rows or more, and do
/// not gain from more than 64.
const TILE: std::ops::RangeInclusive<usize> = 8..=64;

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

    /// Runs each part in its slot by `run`, with a thread's number and the threads that share its
    /// batches. Several parts run on a thread each.
    fn round<P: Sync>(
        &mut self,
        parts: &[P],
        slot_of: impl Fn(&P) -> usize,
        run: impl Fn(&mut Slot, Shared<'_>, &P, usize, Option<&mut ClaimedPool<'_>>) + Sync,
    ) -> Result<(), BackendError> {
        let pool = self.pool.clone();
        let mut workers = pool.as_ref().and_then(ThreadPool::claim);
        let loaded = self.loaded.clone();
        let weights = loaded.weights();
        let (slots, shared) = self.split(&weights);
        match (parts, workers.as_mut()) {
            ([_, _, ..], Some(workers)) => {
                let slots = slots.iter_mut().enumerate().filter_map(|(number, slot)| {
                    Some((slot, parts.iter().find(|part| slot_of(part) == number)?))
                });
                let slots: Vec<_> = slots.collect();
                assert_eq!(slots.len(), parts.len(), "a slot occurs once in a round");
                workers.share(slots.into_iter(), |worker, (slot, part)| {
                    run(slot, shared, part, worker, None);
                });
            }
            (parts, mut workers) => parts.iter().for_each(|part| {
                run(&mut slots[slot_of(part)], shared, part, 0, workers.as_deref_mut());
            }),
        }
        self.cancel.check()
    }

    fn slot(&mut self, slot: usize) -> &mut Slot {
        if self.slots.len() <= slot {
            self.slots.resize_with(slot + 1, Slot::default);
        }
        &mut self.slots[slot]
    }

    /// Allocates all memory for a plan, before any of it runs.
    fn reserve(&mut self, slot: usize, plan: &Plan) -> Result<(), BackendError> {
        let arena = self.slot(slot).arena.reserve(plan.arena);
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
    let given = Given { initial: &Rows::new(), places: &[], host: &[] };
    cpu.run(&[Part { slot: 0, plan: &plan, given }])?;
    Ok(cpu.slots.swap_remove(0).arena)
}

impl Backend for Cpu {
    fn run(&mut self, parts: &[Part<'_>]) -> Result<(), BackendError> {
        parts.iter().try_for_each(|part| self.reserve(part.slot, part.plan))?;
        self.round(parts, |part| part.slot, Slot::run)
    }

    fn outputs<'a>(&'a self, slot: usize, plan: &'a Plan) -> Outputs<'a> {
        let Slot { arena, arg_max, .. } = &self.slots[slot];
        Outputs::new(&self.loaded.program, plan, arena, arg_max).with_pool(self.pool.as_ref())
    }

    fn reserve_store(&mut self, slot: usize, lines: usize) -> Result<(), BackendError> {
        let grown = self.slot(slot).store.grow(lines.saturating_mul(LINE));
        grown.map_err(|error| error.of("the stored values"))
    }

    fn read_stored(
        &self,
        slot: usize,
        rows: &[StoredRow],
        to: &mut Vec<f32>,
    ) -> Result<(), BackendError> {
        self.slots[slot].read(&self.loaded.program, rows, to)
    }

    fn program(&self) -> Option<&Arc<Program>> {
        Some(&self.loaded.program)
    }

    fn bytes(&self) -> Bytes {
        let elements: usize = self.slots.iter().map(|slot| slot.arena.len()).sum();
        let stored: usize = self.slots.iter().map(|slot| slot.store.len()).sum();
        let sums = self.sums.as_ref().map_or(Bytes::default(), |sums| {
            let sums = sums.lock().unwrap_or_else(PoisonError::into_inner);
            sums.bytes(&self.loaded.program)
        });
        Bytes {
            weights: self.loaded.bytes() + sums.weights,
            arena: elements * size_of::<f32>() + sums.arena,
            store: stored * size_of::<f32>(),
        }
    }

    fn fork(&self) -> Box<dyn Backend> {
        let (profile, sums) = (self.profile.clone(), self.sums.clone());
        Box::new(Self { profile, sums, ..Self::on(self.loaded.clone(), None) })
    }

    fn fork_with_pool(&self, pool: ThreadPool) -> Box<dyn Backend> {
        let (profile, sums) = (self.profile.clone(), self.sums.clone());
        Box::new(Self { profile, sums, ..Self::on(self.loaded.clone(), Some(pool)) })
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
