//! The placement of unit tiles on the blocks of a team, and of weights in shared memory.
//!
//! A recurrent cell reads values that its own calls have computed, so it runs in many waves of a
//! plan and would load its weights in each of them. The blocks of a *group* keep them resident
//! instead: each block, a *slice*, holds unit blocks of each phase in shared memory, and a group
//! has enough slices for all of them. A team is one or more groups, which divide the calls of a
//! job. All other weights are streamed from device memory.
//!
//! Cells that do not wait for each other run side by side, on blocks of their own: the blocks of a
//! group are divided between the cells of each [level](Reads::levels), in proportion to weights. So
//! a block has few tiles in a wave, and all blocks have about equal work.
//!
//! The source does not depend on the placement, so all devices of an architecture share a binary.

use std::ops::Range;

use edbatch_graph::Kind;
use edbatch_layout::{CellPart, CellStep, Program};

use super::device::{AHEAD_BYTES, ROW_BYTES};
use super::phase_table::PhaseTable;
use super::reads::Reads;
use super::shapes::{self, SHAPES, Shape, fastest, offered};
use super::unit_tile::UnitTile;

/// The possible numbers of blocks of a group, besides the number of SMs.
const GROUPS: [u32; 5] = [4, 8, 16, 32, 64];

/// The words of a phase in the table of a placement, and their places: `PLACE`, `SHAPE_ROWS`,
/// `CHOICES` and `CHOSEN` of `kernels/ahead.h`.
const PLACE: usize = 48;
const SHAPE_ROWS: usize = 4;
const CHOICES: usize = 16;
const CHOSEN: u32 = 256;

/// Returns the phases of a program's recurrent cells, and the bytes of their weights.
pub(crate) fn recurrent(program: &Program, table: &PhaseTable) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    for (phase, entry) in table.entries().iter().enumerate() {
        // A prologue does not run in many waves.
        if entry.part == CellPart::Prologue || !may_read_its_own(program, entry.cell) {
            continue;
        }
        let cell = program.part(entry.cell, entry.part).expect("it has phases");
        let bytes = cell.steps[entry.phase.steps.clone()].iter().map(|step| match *step {
            CellStep::Product { rows, width, .. } => size_of::<f32>() * (rows * width) as usize,
            _ => 0,
        });
        found.push((phase, bytes.sum()));
    }
    found
}

/// Returns true if calls of a cell may depend on other calls of the same cell. Adjoints depend on
/// each other as their cells do, in reverse order.
fn may_read_its_own(program: &Program, kind: Kind) -> bool {
    let network = program.network();
    let is_own = |&forward: &Kind| program.adjoint(forward).is_some_and(|it| it.cell == kind);
    let kind = (0..network.cells().len()).map(Kind::new).find(is_own).unwrap_or(kind);
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

/// The placement of a program on the groups of a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Placement {
    /// Blocks of a group.
    pub(crate) slices: u32,
    /// Shared memory of a block, in bytes, and the floats of resident weights in it.
    pub(crate) shared_bytes: usize,
    pub(crate) resident: u32,
    /// The floats of sums that a block keeps in device memory while its tiles go on.
    pub(crate) parked: u32,
    /// The place of each phase with unit tiles, by phase; `None` if its weights are streamed.
    pub(crate) places: Vec<Option<Place>>,
}

/// The place of a phase's unit tiles.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    /// The blocks of a group that divide its units.
    pub(crate) slices: Range<u32>,
    /// The start of its weights in shared memory, in floats.
    pub(crate) at: u32,
    /// The stages of a ring, or the eights of rows of a chunk on tensor cores.
    stages: u32,
    /// The products of a call.
    products: u32,
    /// The shapes whose rows fit.
    offered: Vec<Shape>,
    /// The rows of a tile of each shape.
    rows: [u32; SHAPES.len()],
    /// The shape of the first tile for each number of rows of a group.
    choices: Vec<Shape>,
}

/// A unit tile, and the cell of its phase.
pub(crate) type Tile<'a> = (Kind, &'a UnitTile);

/// Places a program on a device, as far as plans have shown which cells wait for each other.
#[derive(Clone, Debug)]
pub(crate) struct Placer {
    /// The phases before they are placed, and those with unit tiles.
    pub(crate) phases: PhaseTable,
    pub(crate) tiles: Vec<UnitTile>,
    /// The SMs of the device, and the shared memory of a block, in bytes.
    pub(crate) sms: u32,
    pub(crate) shared_bytes: usize,
    /// The only shape of all tiles, if there is one.
    pub(crate) shape: Option<u32>,
    /// The cells that each cell has read in plans.
    pub(crate) reads: Reads,
}

impl Placer {
    /// Returns the phases and their placement. Jobs do not divide the phases that are placed.
    pub(crate) fn place(&self) -> (PhaseTable, Placement) {
        let mut table = self.phases.clone();
        let cell = |tile: &UnitTile| table.entries()[tile.phase].cell;
        let all: Vec<Tile<'_>> = self.tiles.iter().map(|tile| (cell(tile), tile)).collect();
        let phases = table.entries().len();
        let mut placement = Placement::new(&all, &self.reads, phases, self.sms, self.shared_bytes);
        self.shape.into_iter().for_each(|shape| placement.force(shape));
        for tile in self.tiles.iter().filter(|tile| placement.places[tile.phase].is_some()) {
            table.run_as_unit_tiles(tile.phase, tile.stored.clone());
        }
        (table, placement)
    }
}

impl Placement {
    /// Places unit tiles on the smallest groups that hold all weights and leave room for the rows
    /// of each shape; or on the smallest that leave room for some rows; or on the largest, and
    /// streams the other weights.
    pub(crate) fn new(
        tiles: &[Tile<'_>],
        reads: &Reads,
        phases: usize,
        sms: u32,
        shared_bytes: usize,
    ) -> Self {
        let cells: Vec<Kind> = tiles.iter().map(|tile| tile.0).collect();
        let levels = reads.levels(&cells);
        let floats = (shared_bytes.saturating_sub(AHEAD_BYTES) / size_of::<f32>()) as u32;
        let sizes = || GROUPS.into_iter().filter(|&size| size < sms).chain([sms]);
        let of_size = |slices, room: &dyn Fn(&UnitTile) -> u32| {
            let blocks = divide(tiles, &levels, slices);
            Self::of_size(tiles, &blocks, phases, slices, (floats, room))
        };
        let least = |tile: &UnitTile| shapes::room(tile.extent()).0;
        let ways: [&dyn Fn(&UnitTile) -> u32; 2] = [&|tile| shapes::room(tile.extent()).1, &least];
        for room in ways {
            for slices in sizes() {
                let placement = of_size(slices, room);
                if tiles.iter().all(|(_, tile)| placement.places[tile.phase].is_some()) {
                    return placement;
                }
            }
        }
        // Without levels, more weights may fit.
        let anywhere = vec![0..sms; tiles.len()];
        let anywhere = Self::of_size(tiles, &anywhere, phases, sms, (floats, &least));
        let resident = |placement: &Self| -> u64 {
            let placed = tiles.iter().filter(|(_, tile)| placement.places[tile.phase].is_some());
            placed.map(|(_, tile)| weights(tile)).sum()
        };
        let by_levels = of_size(sms, &least);
        if resident(&anywhere) > resident(&by_levels) { anywhere } else { by_levels }
    }

    /// Places each tile on some of the given blocks.
    fn of_size(
        tiles: &[Tile<'_>],
        blocks: &[Range<u32>],
        phases: usize,
        slices: u32,
        (floats, room): (u32, &dyn Fn(&UnitTile) -> u32),
    ) -> Self {
        // By block: floats of resident weights.
        let mut taken = vec![0; slices as usize];
        let mut rows = (ROW_BYTES / size_of::<f32>()) as u32;
        let mut starts = Vec::new();
        for (&(_, tile), range) in tiles.iter().zip(blocks) {
            // A narrow phase takes the blocks with the fewest weights, to use all of them evenly.
            let count = tile.blocks().min(range.len() as u32);
            let own = |from: u32| from as usize..(from + count) as usize;
            let start = |from: &u32| taken[own(*from)].iter().copied().max().unwrap_or(0);
            let from = (range.start..=range.end - count).min_by_key(start).expect("count fits");
            let start = start(&from);
            let end = start + tile.blocks().div_ceil(count) * tile.size();
            let needed = rows.max(room(tile));
            let fits = end <= floats.saturating_sub(needed);
            if fits {
                taken[own(from)].fill(end);
                rows = needed;
            }
            starts.push(fits.then_some((from..from + count, start)));
        }
        let resident = taken.into_iter().max().unwrap_or(0);
        // The rest is for rows.
        let rows = floats.saturating_sub(resident).max(rows);
        let mut places = vec![None; phases];
        for ((_, tile), start) in tiles.iter().zip(starts) {
            places[tile.phase] = start.and_then(|(slices, at)| Place::new(tile, slices, at, rows));
        }
        let shared_bytes = AHEAD_BYTES + size_of::<f32>() * (resident + rows) as usize;
        let parked = |place: &Place| place.offered.iter().map(|of| of.parked(place.products)).max();
        let parked = places.iter().flatten().filter_map(parked).max().unwrap_or(0);
        Self { slices, shared_bytes, resident, parked, places }
    }

    /// Returns the table that the kernels read: [`PLACE`] words for each phase.
    pub(crate) fn table(&self) -> Vec<u32> {
        let mut words = vec![0; PLACE * self.places.len()];
        for (own, place) in words.chunks_exact_mut(PLACE).zip(&self.places) {
            let Some(Place { slices, at, stages, rows, choices, .. }) = place else { continue };
            own[..SHAPE_ROWS].copy_from_slice(&[slices.start, slices.len() as u32, *at, *stages]);
            own[SHAPE_ROWS..][..rows.len()].copy_from_slice(rows);
            for (rows, &shape) in choices.iter().enumerate() {
                own[CHOICES + rows / 8] |= (shape as u32) << (rows % 8 * 4);
            }
        }
        words
    }

    /// Returns the numbers of the phases that are placed, and the shapes of their tiles.
    pub(crate) fn tiles(&self) -> String {
        let mut all: Vec<(&[Shape], String)> = Vec::new();
        for (phase, place) in self.places.iter().enumerate() {
            let Some(Place { offered, .. }) = place else { continue };
            match all.iter_mut().find(|(shapes, _)| shapes == offered) {
                Some((_, phases)) => *phases += &format!(" {phase}"),
                None => all.push((offered, phase.to_string())),
            }
        }
        let shapes = |of: &[Shape]| of.iter().map(|of| format!(" {of:?}")).collect::<String>();
        let text = all.iter().map(|(of, phases)| format!("{phases}:{}", shapes(of)));
        text.collect::<Vec<_>>().join(", ")
    }

    /// Gives all tiles a shape if it fits.
    pub(crate) fn force(&mut self, shape: u32) {
        for place in self.places.iter_mut().flatten() {
            let chosen = place.offered.iter().find(|&&offered| offered as u32 == shape);
            if let Some(&shape) = chosen {
                place.offered = vec![shape];
                place.choices.fill(shape);
            }
        }
    }
}

/// Returns the blocks for each tile's cell. Each level divides all blocks between its cells, in
/// proportion to their weights.
fn divide(tiles: &[Tile<'_>], levels: &[u32], slices: u32) -> Vec<Range<u32>> {
    let sum = |of: &dyn Fn(Kind, u32) -> bool| -> u64 {
        let tiles = tiles.iter().zip(levels).filter(|&(&(cell, _), &level)| of(cell, level));
        tiles.map(|(&(_, tile), _)| weights(tile)).sum()
    };
    let blocks = |(&(cell, _), &level): (&Tile<'_>, &u32)| {
        let all = sum(&|_, of| of == level);
        let before = sum(&|other, of| of == level && other < cell);
        let block = |weights: u64| ((weights * u64::from(slices) + all / 2) / all) as u32;
        let own = sum(&|other, _| other == cell);
        let start = block(before).min(slices - 1);
        start..block(before + own).max(start + 1)
    };
    tiles.iter().zip(levels).map(blocks).collect()
}

/// Returns the floats of a tile's weights.
fn weights(tile: &UnitTile) -> u64 {
    u64::from(tile.blocks()) * u64::from(tile.size())
}

impl Place {
    /// The place of a tile if `floats` floats hold the rows of one of its shapes.
    fn new(tile: &UnitTile, slices: Range<u32>, at: u32, floats: u32) -> Option<Self> {
        let offered: Vec<Shape> = offered(tile.extent(), floats).collect();
        let choices = fastest(tile.extent(), &offered, CHOSEN)?;
        let rows = SHAPES.map(|shape| shape.rows(tile.extent()));
        let stages = shapes::stages(tile.extent(), floats);
        let products = tile.extent().products;
        Some(Self { slices, at, stages, products, offered, rows, choices })
    }

    /// Returns the shape of the first tile for a number of rows of a group, and its rows.
    pub(crate) fn chosen(&self, rows: u32) -> (Shape, u32) {
        let shape = self.choices[rows.min(CHOSEN - 1) as usize];
        (shape, self.rows[shape as usize - 1])
    }
}
