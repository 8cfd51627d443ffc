//! The CPU backend: plans carried out by one core or by several.
//!
//! A batch is cut into tiles of rows, and a tile passes through all steps of its cell before the
//! next begins, so that what lies between products, and what several of them read, stays in the
//! cache. Rows are read through the plan's lists; nothing is gathered before. Several threads take
//! tiles as they come; of a batch too small for tiles they take columns of each product. Neither
//! changes a bit.

mod aligned;
mod load;
mod multiply;
mod profile;
mod target;
mod tile;

use std::sync::{Arc, LockResult, Mutex, PoisonError};

use edbatch_layout::{Plan, Program};

use crate::kernels::rows::split_around;
use crate::kernels::{Level, Pass};
use crate::team::Team;
use crate::{Backend, Bytes, Parameters};
use aligned::Aligned;
use load::Loaded;
pub use profile::{Profile, Work};
use tile::{Job, Workspace};

/// Elements of a tile that are used several times: half of a common L2 cache.
const REUSED: usize = 1 << 17;

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
    workspaces: Vec<Mutex<Workspace>>,
    team: Team,
    profile: Arc<Profile>,
    /// How the last step read its weights.
    pass: Pass,
}

/// Which kernel multiplies rows by weights.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Products {
    /// Our own, on weights packed once.
    #[default]
    Packed,
    /// The crate `matrixmultiply`, on rows gathered before. For comparison, and bit by bit
    /// dependent on the number of rows.
    MatrixMultiply,
}

impl Cpu {
    /// Loads a program and its parameters on one core; packs weights, and keeps of the parameters
    /// only what is read as it is.
    #[must_use]
    pub fn new(
        program: Arc<Program>,
        parameters: &Parameters,
        products: Products,
        level: Level,
    ) -> Self {
        Self::with(Arc::new(Loaded::new(program, parameters, products, level)), 1)
    }

    /// The same with so many threads for each step, the caller's among them: at least 1, at most
    /// 1,000. Other threads sleep between mini-batches.
    #[must_use]
    pub fn with_threads(self, threads: usize) -> Self {
        Self::with(self.loaded, threads.clamp(1, 1000))
    }

    /// Where the time of its steps goes, and of [others](Backend::another) made of it, once it is switched on.
    #[must_use]
    pub fn profile(&self) -> Arc<Profile> {
        self.profile.clone()
    }

    fn with(loaded: Arc<Loaded>, threads: usize) -> Self {
        let workspaces = (0..threads).map(|_| Mutex::default()).collect();
        let team = Team::new(threads - 1);
        let (arena, profile, pass) = (Aligned::default(), Arc::default(), Pass::default());
        Self { loaded, arena, workspaces, team, profile, pass }
    }
}

/// What was locked, whatever a panic left in it.
fn unpoisoned<T>(locked: LockResult<T>) -> T {
    locked.unwrap_or_else(PoisonError::into_inner)
}

impl Backend for Cpu {
    fn allocate(&mut self, elements: usize) {
        self.arena.reserve(elements);
    }

    fn write(&mut self, at: u32, elements: &[f32]) {
        self.arena[at as usize..][..elements.len()].copy_from_slice(elements);
    }

    fn read(&self, at: u32, elements: usize, out: &mut Vec<f32>) {
        out.extend_from_slice(&self.arena[at as usize..][..elements]);
    }

    fn arena(&self) -> Option<&[f32]> {
        Some(&self.arena)
    }

    fn step(&mut self, plan: &Plan, index: usize) {
        let step = plan.steps[index];
        let (calls, out) = (step.calls as usize, step.out as usize);
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
        let (profile, pass) = (&*self.profile, self.pass);
        let job = Job { loaded: &self.loaded, plan, index, around, profile, pass };

        let most = (REUSED / cell.reused).clamp(*TILE.start(), *TILE.end());
        let threads = self.team.threads();
        if threads == 1 || calls < FEWEST * threads || calls * cell.work < SHARED {
            let workspace = unpoisoned(self.workspaces[0].get_mut());
            let tiles = calls.div_ceil(most).max(1);
            let mut rest = written;
            for tile in (0..tiles).map(|tile| tile * calls / tiles..(tile + 1) * calls / tiles) {
                let (out, behind) = rest.split_at_mut(tile.len() * stride);
                rest = behind;
                job.run(tile, out, workspace, Some(&mut self.team));
            }
            return;
        }
        // As many tiles for each thread where there are enough rows, so that all end at once.
        let tiles = threads * calls.div_ceil(threads * most);
        let rows = calls.div_ceil(tiles);
        let workspaces = &self.workspaces;
        self.team.share(written.chunks_mut(rows * stride).enumerate(), |member, (tile, out)| {
            let first = tile * rows;
            let mut workspace = unpoisoned(workspaces[member].lock());
            job.run(first..calls.min(first + rows), out, &mut workspace, None);
        });
    }

    fn bytes(&self) -> Bytes {
        Bytes { weights: self.loaded.bytes, arena: self.arena.len() * size_of::<f32>() }
    }

    fn another(&self) -> Box<dyn Backend> {
        let profile = self.profile.clone();
        Box::new(Self { profile, ..Self::with(self.loaded.clone(), 1) })
    }
}
