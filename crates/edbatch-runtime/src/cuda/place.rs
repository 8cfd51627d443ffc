//! Which blocks of a team compute which columns, and which weights they keep in shared memory.
//!
//! A cell that reads what cells of its own kind may have computed runs in many waves of a plan, and
//! would fetch its weights in each. A team keeps them instead: it has as many blocks as it takes,
//! and each keeps the weights of the columns that it computes. All other weights are streamed.
//!
//! None of this is in the source, so that devices of an architecture share a compiled binary.

use std::ops::Range;

use edbatch_graph::{Kind, Network};
use edbatch_layout::{CellPart, CellStep, PhaseTable, Program};

use super::device::ROW_BYTES;

/// Teams have one of these numbers of blocks, or all processors of a device.
const TEAMS: [u32; 5] = [4, 8, 16, 32, 64];

/// Of weights that are not kept: `NOWHERE` of `kernels/kept.h`.
const NOWHERE: u32 = u32::MAX;

/// More are streamed: `Block::kept` has a bit for each.
const MOST_KEPT: usize = 64;

/// A stack of weights that runs in many waves, and may be kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Recurrent {
    /// The phase that it is of, by its number, and the step of the cell.
    pub(crate) phase: usize,
    pub(crate) step: usize,
    /// Units of the product, columns of each unit, and terms of each sum.
    pub(super) units: u32,
    pub(super) columns: u32,
    pub(super) depth: u32,
}

/// The weights of a program that run in many waves.
pub(crate) fn recurrent(program: &Program, table: &PhaseTable) -> Vec<Recurrent> {
    let mut found = Vec::new();
    for (phase, entry) in table.entries().iter().enumerate() {
        // What is hoisted for rows of a table runs once.
        if entry.part == CellPart::Prologue || !may_read_its_own(program.network(), entry.cell) {
            continue;
        }
        let cell = program.part(entry.cell, entry.part).expect("it has phases");
        for (step, &units) in entry.phase.steps.clone().zip(&entry.phase.units) {
            if let CellStep::Product { rows, width: depth, .. } = cell.steps[step] {
                found.push(Recurrent { phase, step, units, columns: rows / units, depth });
            }
        }
    }
    found.truncate(MOST_KEPT);
    found
}

/// Whether a call of a cell may read, over other cells, what another call of it has computed.
fn may_read_its_own(network: &Network, kind: Kind) -> bool {
    let reads = |kind: usize| network.cells()[kind].ports().iter().map(|port| port.record);
    let mut known = vec![false; network.cells().len()];
    let mut open = vec![kind.index()];
    while let Some(reader) = open.pop() {
        for record in reads(reader) {
            for (writer, cell) in network.cells().iter().enumerate() {
                if cell.record() == record && !known[writer] {
                    known[writer] = true;
                    open.push(writer);
                }
            }
        }
    }
    known[kind.index()]
}

/// How large the teams of a device are for a program: what follows from its sizes and the device's
/// alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct TeamSize {
    /// Blocks of a team, each on a processor of its own.
    pub blocks: u32,
    /// Shared memory of each block, in bytes: rows, and the weights that it keeps.
    pub shared_bytes: usize,
    /// Bytes of the weights that may run in many waves.
    pub recurrent_bytes: usize,
    /// Of these, bytes that no block keeps.
    pub streamed_bytes: usize,
}

/// The size of the teams on a device of so many processors, on which a block can have so many bytes
/// of shared memory, if a team has at least so many blocks
/// ([`CudaOptions::fewest_blocks`](super::CudaOptions::fewest_blocks)).
#[must_use]
pub fn team_size(
    program: &Program,
    processors: u32,
    shared_bytes: usize,
    fewest_blocks: u32,
) -> TeamSize {
    let table = PhaseTable::new(program);
    let recurrent = recurrent(program, &table);
    let phases = table.entries().len();
    let Placement { blocks, shared_bytes, kept, .. } =
        Placement::new(&recurrent, phases, processors, shared_bytes, fewest_blocks);
    let bytes = |stack: &Recurrent| {
        size_of::<f32>() * (stack.units * stack.columns) as usize * stack.depth as usize
    };
    let streamed = recurrent.iter().zip(&kept).filter(|(_, kept)| kept.is_none());
    TeamSize {
        blocks,
        shared_bytes,
        recurrent_bytes: recurrent.iter().map(bytes).sum(),
        streamed_bytes: streamed.map(|(stack, _)| bytes(stack)).sum(),
    }
}

/// How the teams of a device divide a program's columns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Placement {
    /// Blocks of a team.
    pub(crate) blocks: u32,
    /// Shared memory of a block, in bytes: rows, and the weights that it keeps.
    pub(crate) shared_bytes: usize,
    /// By phase, the blocks that divide its columns; none if blocks take its jobs as they come.
    pub(crate) divided: Vec<Range<u32>>,
    /// By recurrent stack: where it begins behind the rows, in floats, if it is kept.
    pub(crate) kept: Vec<Option<u32>>,
}

impl Placement {
    /// The smallest teams of at least `fewest` blocks that can keep all recurrent weights; if none
    /// can, the largest, and some are streamed.
    pub(crate) fn new(
        recurrent: &[Recurrent],
        phases: usize,
        processors: u32,
        shared_bytes: usize,
        fewest: u32,
    ) -> Self {
        let smaller = TEAMS.into_iter().filter(|&size| fewest <= size && size < processors);
        let sizes = smaller.chain([processors]);
        let placements = sizes.map(|blocks| Self::of_size(recurrent, phases, blocks, shared_bytes));
        let mut last = None;
        for placement in placements {
            let fits = placement.kept.iter().all(Option::is_some);
            last = Some(placement);
            if fits {
                break;
            }
        }
        last.expect("a device has a processor")
    }

    fn of_size(recurrent: &[Recurrent], phases: usize, blocks: u32, shared_bytes: usize) -> Self {
        let mut divided = vec![0..0; phases];
        for stack in recurrent {
            // A block more than there are units would have none.
            let end = stack.units.min(blocks).max(divided[stack.phase].end);
            divided[stack.phase] = 0..end;
        }
        // Narrow phases begin where the one before ended, so that not all are the first blocks'.
        let mut next = 0;
        for range in divided.iter_mut().filter(|range| (1..blocks).contains(&range.end)) {
            let count = range.end;
            next = if next + count > blocks { 0 } else { next };
            *range = next..next + count;
            next += count;
        }
        // By block: floats of kept weights.
        let mut taken = vec![0; blocks as usize];
        let most = shared_bytes.saturating_sub(ROW_BYTES) / size_of::<f32>();
        let kept = recurrent.iter().map(|stack| {
            let range = divided[stack.phase].clone();
            let columns = stack.units.div_ceil(range.len() as u32) * stack.columns;
            let floats = stack.depth.next_multiple_of(4) as usize * columns as usize;
            let own = &mut taken[range.start as usize..range.end as usize];
            let start = own.iter().copied().max().unwrap_or(0);
            if start + floats > most {
                return None;
            }
            own.fill(start + floats);
            Some(start as u32)
        });
        let kept = kept.collect();
        let weights = taken.into_iter().max().unwrap_or(0) * size_of::<f32>();
        Self { blocks, shared_bytes: ROW_BYTES + weights, divided, kept }
    }

    /// The table that the kernels read: two numbers a phase, then one a recurrent stack.
    pub(crate) fn table(&self) -> Vec<u32> {
        let phases = self.divided.iter().flat_map(|range| [range.start, range.len() as u32]);
        phases.chain(self.kept.iter().map(|at| at.unwrap_or(NOWHERE))).collect()
    }
}
