//! The placement of columns on the blocks of a team, and of weights in shared memory.
//!
//! A recurrent cell reads values that its own calls have computed, so it runs in many waves of a
//! plan and would load its weights in each of them. A team keeps these weights resident instead:
//! each block holds the weights of the columns that it computes in shared memory, and the team has
//! enough blocks for all of them. All other weights are streamed from device memory.
//!
//! The source does not depend on the placement, so all devices of an architecture share a binary.

use std::ops::Range;

use edbatch_graph::{Kind, Network};
use edbatch_layout::{CellPart, CellStep, Program};

use super::device::ROW_BYTES;
use super::phase_table::PhaseTable;

/// The possible numbers of blocks of a team, besides the number of SMs.
const TEAMS: [u32; 5] = [4, 8, 16, 32, 64];

/// The place of weights that are not resident: `NOT_RESIDENT` of `kernels/small.h`.
const NOT_RESIDENT: u32 = u32::MAX;

/// A stack of weights whose product may run in many waves. The stack may be resident.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Recurrent {
    /// The number of the phase that multiplies by the stack, and the index of the step that does.
    pub(crate) phase: usize,
    pub(crate) step: usize,
    /// The product has `units` units of `columns` columns. A column is a sum of `depth` terms.
    pub(super) units: u32,
    pub(super) columns: u32,
    pub(super) depth: u32,
}

/// Returns the stacks of weights of a program's recurrent cells.
pub(crate) fn recurrent(program: &Program, table: &PhaseTable) -> Vec<Recurrent> {
    let mut found = Vec::new();
    for (phase, entry) in table.entries().iter().enumerate() {
        // A prologue does not run in many waves.
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
    found
}

/// Returns true if calls of a cell may depend on other calls of the same cell.
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

/// The size of a program's teams on a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct TeamSize {
    /// Blocks of a team, each on an SM of its own.
    pub blocks: u32,
    /// Shared memory of each block, in bytes: rows and resident weights.
    pub shared_bytes: usize,
    /// Bytes of the weights of recurrent cells.
    pub recurrent_bytes: usize,
    /// Bytes of the weights of recurrent cells that are streamed, not resident.
    pub streamed_bytes: usize,
}

/// Returns the size of a program's teams on a device with `sms` SMs and `shared_bytes` of shared
/// memory per block.
#[must_use]
pub fn team_size(program: &Program, sms: u32, shared_bytes: usize) -> TeamSize {
    let table = PhaseTable::new(program);
    let recurrent = recurrent(program, &table);
    let phases = table.entries().len();
    let Placement { blocks, shared_bytes, resident, .. } =
        Placement::new(&recurrent, phases, sms, shared_bytes);
    let bytes = |stack: &Recurrent| {
        size_of::<f32>() * (stack.units * stack.columns) as usize * stack.depth as usize
    };
    let streamed = recurrent.iter().zip(&resident).filter(|(_, resident)| resident.is_none());
    TeamSize {
        blocks,
        shared_bytes,
        recurrent_bytes: recurrent.iter().map(bytes).sum(),
        streamed_bytes: streamed.map(|(stack, _)| bytes(stack)).sum(),
    }
}

/// The placement of a program on the teams of a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Placement {
    /// Blocks of a team.
    pub(crate) blocks: u32,
    /// Shared memory of a block, in bytes: rows and resident weights.
    pub(crate) shared_bytes: usize,
    /// For each phase: the blocks of a team that divide its columns; empty if one block runs a job.
    pub(crate) divided: Vec<Range<u32>>,
    /// For each recurrent stack of weights: its start in shared memory, in floats after the end of
    /// the rows. `None` if it is streamed.
    pub(crate) resident: Vec<Option<u32>>,
}

impl Placement {
    /// Places a program on the smallest teams that can hold all recurrent weights. If no
    /// team can, it takes the largest and streams some of the weights.
    pub(crate) fn new(
        recurrent: &[Recurrent],
        phases: usize,
        sms: u32,
        shared_bytes: usize,
    ) -> Self {
        let smaller = TEAMS.into_iter().filter(|&size| size < sms);
        let sizes = smaller.chain([sms]);
        let placements = sizes.map(|blocks| Self::of_size(recurrent, phases, blocks, shared_bytes));
        let mut last = None;
        for placement in placements {
            let fits = placement.resident.iter().all(Option::is_some);
            last = Some(placement);
            if fits {
                break;
            }
        }
        last.expect("at least one size")
    }

    fn of_size(recurrent: &[Recurrent], phases: usize, blocks: u32, shared_bytes: usize) -> Self {
        let mut divided = vec![0..0; phases];
        for stack in recurrent {
            // Blocks beyond the number of units would have no work.
            let end = stack.units.min(blocks).max(divided[stack.phase].end);
            divided[stack.phase] = 0..end;
        }
        // Narrow phases start at the end of the previous one, to use all blocks evenly.
        let mut next = 0;
        for range in divided.iter_mut().filter(|range| (1..blocks).contains(&range.end)) {
            let count = range.end;
            next = if next + count > blocks { 0 } else { next };
            *range = next..next + count;
            next += count;
        }
        // By block: floats of resident weights.
        let mut taken = vec![0; blocks as usize];
        let most = shared_bytes.saturating_sub(ROW_BYTES) / size_of::<f32>();
        let resident = recurrent.iter().map(|stack| {
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
        let resident = resident.collect();
        let weights = taken.into_iter().max().unwrap_or(0) * size_of::<f32>();
        Self { blocks, shared_bytes: ROW_BYTES + weights, divided, resident }
    }

    /// Returns the table that the kernels read: the first block and the number of blocks of each
    /// phase, then the start of each recurrent stack of weights.
    pub(crate) fn table(&self) -> Vec<u32> {
        let phases = self.divided.iter().flat_map(|range| [range.start, range.len() as u32]);
        phases.chain(self.resident.iter().map(|at| at.unwrap_or(NOT_RESIDENT))).collect()
    }
}
