//! The CPU backend: plans carried out by one core or by several.
//!
//! A batch is cut into tiles of rows, and a tile passes through all steps of its cell before the
//! next begins, so that intermediate results, and what several steps read, stay in the cache. Rows
//! are read through the plan's lists; nothing is gathered before. Threads share the tiles of a
//! large batch; of a batch with few rows they share the columns of each product, and one with
//! little work is left to a single thread. The bits are the same.

mod load;
mod multiply;
mod profile;
mod target;
mod tile;

use std::sync::{Arc, LockResult, Mutex, PoisonError};

use edbatch_layout::{Plan, Program, ValueRow, Want};

use crate::backend::fields;
#[cfg(feature = "tracing")]
use crate::count::bytes_gathered_by;
use crate::kernels::rows::split_around;
use crate::kernels::{Aligned, Level, Pass, arg_max};
use crate::thread_pool::{ClaimedPool, ThreadPool};
use crate::{Backend, BackendError, Bytes, Given, Outputs, Parameters, Rows, span};
use load::Loaded;
pub use profile::{Profile, Timer, Work};
use tile::{Job, Workspace};

/// Rows of a tile: kernels are fast from 8 on, and gain nothing beyond 64.
const TILE: std::ops::RangeInclusive<usize> = 8..=64;

/// Fewer rows for each thread are not worth a tile: columns of products are shared instead.
const FEWEST: usize = 2;

/// Multiply-adds that are worth sharing between threads: about two microseconds.
const SHARED: usize = 1 << 18;

/// Carries plans out on the CPU.
#[derive(Debug)]
pub struct Cpu {
    loaded: Arc<Loaded>,
    arena: Aligned,
    /// The elements of the rows that stay from one plan to the next.
    stayed: Vec<f32>,
    /// By wanted value of the plan that ran last, as [`Outputs`] has it.
    greatest: Vec<u32>,
    /// One for each thread.
    workspaces: Vec<Mutex<Workspace>>,
    /// The threads that share a batch, if there are several.
    pool: Option<ThreadPool>,
    /// If anything is measured.
    profile: Option<Arc<Profile>>,
    /// How the last step read its weights.
    pass: Pass,
}

impl Cpu {
    /// Loads a program and its parameters on one core: computes its
    /// [folded tables](Program::fold_tables), packs weights, and keeps of the parameters only what
    /// is read as it is.
    ///
    /// # Errors
    /// If the parameters are of another network, or memory for the packed weights or the folded
    /// tables cannot be had.
    pub fn new(
        program: Arc<Program>,
        parameters: &Parameters,
        level: Level,
    ) -> Result<Self, BackendError> {
        let parameters = &parameters.for_network(program.network())?;
        let folded = fold_tables(&program, parameters, level)?;
        let loaded = Loaded::new(program, parameters, level, folded);
        let loaded = loaded.map_err(|error| error.of(PACKED))?;
        Ok(Self::on(Arc::new(loaded), None))
    }

    /// The same on the threads of a pool, wherever no other task has claimed them.
    #[must_use]
    pub fn with_pool(self, pool: ThreadPool) -> Self {
        Self::on(self.loaded, Some(pool))
    }

    /// Where the time of its steps goes from now on, and of [others](Backend::another) made of it,
    /// while it is switched on.
    #[must_use]
    pub fn profile(&mut self) -> Arc<Profile> {
        self.profile.get_or_insert_default().clone()
    }

    fn on(loaded: Arc<Loaded>, pool: Option<ThreadPool>) -> Self {
        let threads = pool.as_ref().map_or(1, ThreadPool::threads);
        let workspaces = (0..threads).map(|_| Mutex::default()).collect();
        Self {
            loaded,
            arena: Aligned::default(),
            stayed: Vec::new(),
            greatest: Vec::new(),
            workspaces,
            pool,
            profile: None,
            pass: Pass::default(),
        }
    }

    /// Takes all memory that the plan needs, before any of it runs.
    fn reserve(&mut self, plan: &Plan) -> Result<(), BackendError> {
        let arena = self.arena.reserve(plan.arena);
        arena.map_err(|error| error.of("the arena of a mini-batch's values"))?;
        for step in &plan.steps {
            let part = self.loaded.carried_out(step);
            let rows = part.most_rows().min(step.calls as usize);
            for workspace in &mut self.workspaces {
                let reserved = unpoisoned(workspace.get_mut()).reserve(part, rows);
                reserved.map_err(|error| error.of("the workspace of a thread"))?;
            }
        }
        Ok(())
    }

    /// Writes the given values into the arena.
    fn place(&mut self, plan: &Plan, given: &Given<'_>) {
        let (initial, others) = plan.given.split_at(given.initial.len());
        let (stayed, host) = others.split_at(given.stayed);
        let mut place = |row: &ValueRow, mut elements: &[f32]| -> usize {
            let all = elements.len();
            for (start, width) in fields(&self.loaded.program, *row) {
                let (field, behind) = elements.split_at(width);
                self.arena[start..][..width].copy_from_slice(field);
                elements = behind;
            }
            all - elements.len()
        };
        for (row, elements) in initial.iter().zip(given.initial.iter()) {
            place(row, elements);
        }
        // What stayed may also be given up, as when the mini-batch that it belongs to has ended.
        let stayed_elements = if stayed.is_empty() { &[] } else { &*self.stayed };
        for (rows, elements) in [(stayed, stayed_elements), (host, given.host)] {
            let placed = rows.iter().fold(0, |from, row| from + place(row, &elements[from..]));
            assert_eq!(placed, elements.len(), "as many given elements as the plan has");
        }
    }

    /// Copies what stays out of the arena, and finds the greatest elements that are asked for.
    fn collect(&mut self, plan: &Plan) {
        self.stayed.clear();
        self.greatest.clear();
        for (index, &(row, want)) in plan.wanted.iter().enumerate() {
            let fields = || {
                let places = fields(&self.loaded.program, row);
                places.map(|(start, width)| &self.arena[start..][..width])
            };
            match want {
                Want::Elements => {}
                Want::Stay => fields().for_each(|field| self.stayed.extend_from_slice(field)),
                Want::ArgMax => {
                    let mut fields = fields();
                    let (first, second) = (fields.next().unwrap_or_default(), fields.next());
                    let greatest = match second {
                        // The scores of a large vocabulary are not moved to find the greatest.
                        None => arg_max(self.loaded.level, first),
                        Some(second) => {
                            let all: Vec<&[f32]> =
                                [first, second].into_iter().chain(fields).collect();
                            arg_max(self.loaded.level, &all.concat())
                        }
                    };
                    self.greatest.resize(index, 0);
                    self.greatest.push(greatest as u32);
                }
            }
        }
    }

    /// Carries out a step; `workers`, if there are any, share its tiles or the columns of its
    /// products.
    fn execute(&mut self, plan: &Plan, index: usize, mut workers: Option<&mut ClaimedPool<'_>>) {
        let step = plan.steps[index];
        let (calls, out) = (step.calls as usize, step.out as usize);
        let _span = match step.is_batch() {
            true => span!(
                TRACE,
                "batch",
                cell = self.loaded.program.network()[step.cell].name(),
                calls,
                gathered_bytes = bytes_gathered_by(&self.loaded.program, plan, index),
            ),
            false => span!(
                TRACE,
                "prologue",
                cell = self.loaded.program.network()[step.cell].name(),
                calls,
            ),
        };
        let cell = self.loaded.carried_out(&step);
        let stride = cell.stride;
        // A batch never writes a row that it reads.
        let (around, written) = split_around(&mut self.arena, out..out + calls * stride);
        // The same weights once more, from where the step before left them.
        let again = index > 0 && plan.steps[index - 1].same_part(&step);
        self.pass = match self.pass {
            Pass::Forwards if again => Pass::Backwards,
            _ => Pass::Forwards,
        };
        let (profile, pass) = (self.profile.as_deref(), self.pass);
        let job = Job { loaded: &self.loaded, plan, index, around, profile, pass };

        let most = cell.most_rows();
        let worth = |threads: usize| calls >= FEWEST * threads && calls * cell.work >= SHARED;
        if let Some(workers) = workers.as_mut().filter(|workers| worth(workers.threads())) {
            // As many tiles for each thread where there are enough rows, so that all end at once.
            let tiles = workers.threads() * calls.div_ceil(workers.threads() * most);
            let rows = calls.div_ceil(tiles);
            let workspaces = &self.workspaces;
            let tiles = written.chunks_mut(rows * stride).enumerate();
            workers.share(tiles, |worker, (tile, out)| {
                let first = tile * rows;
                let _span = span!(TRACE, "tile", calls = (out.len() / stride.max(1)) as u64);
                let mut workspace = unpoisoned(workspaces[worker].lock());
                job.run(first..calls.min(first + rows), out, &mut workspace, None);
            });
            return;
        }
        let workspace = unpoisoned(self.workspaces[0].get_mut());
        let tiles = calls.div_ceil(most).max(1);
        let mut rest = written;
        for tile in (0..tiles).map(|tile| tile * calls / tiles..(tile + 1) * calls / tiles) {
            let (out, behind) = rest.split_at_mut(tile.len() * stride);
            rest = behind;
            job.run(tile, out, workspace, workers.as_deref_mut());
        }
    }
}

/// What memory for weights is for.
const PACKED: &str = "the packed weights";

/// The memory of all folded tables, as the same kernels that would hoist their rows compute them.
fn fold_tables(
    program: &Arc<Program>,
    parameters: &Parameters,
    level: Level,
) -> Result<Aligned, BackendError> {
    let plan = program.folding_plan();
    if plan.steps.is_empty() {
        return Ok(Aligned::default());
    }
    let _span = span!(INFO, "fold tables");
    let loaded = Loaded::to_fold(program.clone(), parameters, level);
    let loaded = loaded.map_err(|error| error.of(PACKED))?;
    let mut cpu = Cpu::on(Arc::new(loaded), None);
    cpu.arena.reserve(plan.arena).map_err(|error| error.of("the folded tables"))?;
    cpu.run(&plan, &Given { initial: &Rows::new(), stayed: 0, host: &[] })?;
    Ok(cpu.arena)
}

/// What was locked, whatever a panic left in it.
fn unpoisoned<T>(locked: LockResult<T>) -> T {
    locked.unwrap_or_else(PoisonError::into_inner)
}

impl Backend for Cpu {
    fn run(&mut self, plan: &Plan, given: &Given<'_>) -> Result<(), BackendError> {
        self.reserve(plan)?;
        self.place(plan, given);
        let pool = self.pool.clone();
        let mut workers = pool.as_ref().and_then(ThreadPool::claim);
        for step in 0..plan.steps.len() {
            self.execute(plan, step, workers.as_mut());
        }
        self.collect(plan);
        Ok(())
    }

    fn outputs<'a>(&'a mut self, plan: &'a Plan) -> Result<Outputs<'a>, BackendError> {
        Ok(Outputs::new(&self.loaded.program, plan, &self.arena, &self.greatest))
    }

    fn step(&mut self, plan: &Plan, step: usize) -> Result<(), BackendError> {
        let pool = self.pool.clone();
        self.execute(plan, step, pool.as_ref().and_then(ThreadPool::claim).as_mut());
        Ok(())
    }

    fn bytes(&self) -> Bytes {
        Bytes { weights: self.loaded.bytes, arena: self.arena.len() * size_of::<f32>() }
    }

    fn another(&self) -> Box<dyn Backend> {
        let profile = self.profile.clone();
        Box::new(Self { profile, ..Self::on(self.loaded.clone(), None) })
    }
}
