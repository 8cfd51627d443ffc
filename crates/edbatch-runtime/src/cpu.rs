//! The CPU backend: plans carried out by one core.
//!
//! A batch is cut into tiles of rows, and a tile passes through all steps of its cell before the
//! next begins, so that what lies between products stays in the cache. Rows are read through the
//! plan's lists; nothing is gathered before.

mod aligned;
mod load;
mod target;
mod tile;

use std::sync::Arc;

use edbatch_layout::{Action, Plan, Program};

use crate::kernels::Level;
use crate::{Backend, Parameters};
use aligned::Aligned;
use load::LoadedCell;

/// Elements of scratch that a tile may take: half of a common L2 cache.
const SCRATCH: usize = 1 << 17;

/// Carries plans out on one core.
#[derive(Debug)]
pub struct Cpu {
    program: Arc<Program>,
    level: Level,
    parameters: Parameters,
    cells: Vec<LoadedCell>,
    arena: Aligned,
    workspace: Workspace,
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

/// Memory of a tile, reused by all.
#[derive(Debug, Default)]
struct Workspace {
    regions: Vec<Aligned>,
    /// Rows gathered for a kernel that takes no list.
    gathered: Vec<f32>,
    /// Ends of the ranges of a reduction, counted from the tile's first.
    ends: Vec<u32>,
    /// As many zeros as a tile has rows: the list that reads one row for all of them.
    zeros: Vec<u32>,
}

impl Cpu {
    /// Loads a program and its parameters; packs weights.
    #[must_use]
    pub fn new(
        program: Arc<Program>,
        parameters: Parameters,
        products: Products,
        level: Level,
    ) -> Self {
        let cells = program
            .cells()
            .iter()
            .map(|plan| LoadedCell::new(plan, &parameters, products, level))
            .collect();
        let (arena, workspace) = (Aligned::default(), Workspace::default());
        Self { program, level, parameters, cells, arena, workspace }
    }
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

    fn step(&mut self, plan: &Plan, index: usize) {
        let step = plan.steps[index];
        if step.action == Action::Hoist {
            return tile::hoist(self, plan, index);
        }
        let cell = &self.cells[step.cell.index()];
        let scratch = cell.regions.iter().map(|&width| width as usize).sum::<usize>().max(1);
        let calls = step.calls as usize;
        let tiles = calls.div_ceil((SCRATCH / scratch).clamp(8, 64)).max(1);
        for tile in 0..tiles {
            tile::run(self, plan, index, tile * calls / tiles..(tile + 1) * calls / tiles);
        }
    }

    fn bytes(&self) -> usize {
        let packed: usize = self.cells.iter().map(LoadedCell::bytes).sum();
        packed + self.parameters.bytes() + self.arena.len() * size_of::<f32>()
    }
}
