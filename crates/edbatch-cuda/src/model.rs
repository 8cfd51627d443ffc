//! A model of the time of plans on a device, from their command lists.
//!
//! The blocks of a team take tiles as the kernels do (`kernels/ahead.h`). A wave ends with its
//! slowest block: a fixed time, the multiply-adds of the block's tiles, and the barrier. The
//! constants are in `shapes.rs`.
//!
//! *Not modelled*: clocks, the limits of the cache, loading of resident weights, other launches.
//!
//! *Cost*: O(tiles of the plan).

mod training;

use edbatch_layout::{CellStep, Plan, Program};

use super::CudaError;
use super::command_list::{CommandList, Givens};
use super::device::Properties;
use super::loaded::Generated;
use super::options::{CudaOptions, DevicePrecision};
use super::phase_table::{PhaseTable, Way};
use super::place::{Place, Placer};
use super::shapes::{
    BARRIER, BYTES_OF_SM, EXACT_FUNCTIONS, FURTHER_TILE, LARGE_TILES, LARGE_WAVE, LAUNCH, SHAPES,
    SMALL_COST, SMALL_WAVE, Shape, TileExtent, WAVE, shapes,
};
use super::unit_tile::UnitTile;

pub use training::{StepPrediction, TrainingModel};

/// The model of a program on a device. Each plan has all blocks. As on a device, the placement of
/// cells on blocks follows from the plans so far.
#[derive(Clone, Debug)]
pub struct DeviceModel {
    /// The placer with all that plans have shown so far, and its placement.
    placer: Placer,
    placed: Placed,
}

/// A placement of phases.
#[derive(Clone, Debug)]
struct Placed {
    /// Blocks of a team and of a group.
    blocks: u32,
    slices: u32,
    table: PhaseTable,
    /// By phase.
    phases: Vec<PhaseModel>,
}

/// A phase: the multiply-adds of a call, the slices into which tiles divide its units, and its unit
/// tile, if its weights are resident.
#[derive(Clone, Debug)]
struct PhaseModel {
    terms: u64,
    slices: u32,
    is_large: bool,
    unit: Option<UnitModel>,
    /// The bytes that a call reads and writes, if that is what its time is: in adjoints without
    /// products.
    bytes: u64,
}

#[derive(Clone, Debug)]
struct UnitModel {
    place: Place,
    /// The number of unit blocks, and the sizes of one of them.
    blocks: u32,
    extent: TileExtent,
}

/// The predicted work and time of launches on a device.
#[derive(Clone, PartialEq, Debug, Default)]
#[non_exhaustive]
pub struct Prediction {
    /// The number of launches.
    pub launches: u32,
    /// The number of waves of all launches.
    pub waves: u32,
    /// The number of waves with a barrier.
    pub barriers: u32,
    /// The number of unit tiles of each shape, in the order of [`DeviceModel::shapes`].
    pub unit_tiles: [u64; SHAPES.len()],
    /// The number of tiles of large products.
    pub large_tiles: u64,
    /// The number of other tiles.
    pub small_tiles: u64,
    /// The number of rows of unit tiles.
    pub rows: u64,
    /// The number of rows for which unit tiles have room.
    pub room: u64,
    /// The time in which SMs run tiles, summed over the SMs, in µs.
    pub busy_micros: f64,
    /// The time that all SMs have for tiles, in µs: their number times the time on the device.
    pub all_micros: f64,
    /// The time on the device in µs.
    pub device_micros: f64,
    /// The time until the host sees the end of each launch in µs, without its own work.
    pub seen_micros: f64,
}

/// The tiles of a block in a wave.
#[derive(Clone, Copy, Default)]
struct Block {
    tiles: u32,
    micros: f64,
}

impl Prediction {
    /// Adds a wave.
    fn add(&mut self, own: &[Block], fixed: f32, has_barrier: bool, sms: u32) {
        let time = |of: &Block| of.micros + further(of.tiles.saturating_sub(1));
        let slowest = own.iter().map(time).fold(0.0, f64::max);
        let barrier = if has_barrier { BARRIER } else { 0.0 };
        let micros = f64::from(fixed) + f64::from(barrier) + slowest;
        self.waves += 1;
        self.barriers += u32::from(has_barrier);
        self.busy_micros += own.iter().map(|of| of.micros).sum::<f64>();
        self.all_micros += f64::from(sms) * micros;
        self.device_micros += micros;
        self.seen_micros += micros;
    }
}

fn further(tiles: u32) -> f64 {
    f64::from(tiles) * f64::from(FURTHER_TILE)
}

impl DeviceModel {
    /// The model of a program on a device with `sms` SMs and `shared_bytes` of shared memory per
    /// block.
    #[must_use]
    pub fn new(program: &Program, options: &CudaOptions, sms: u32, shared_bytes: usize) -> Self {
        Self::on(program, options, &Properties::of_size(sms, shared_bytes))
    }

    pub(crate) fn on(program: &Program, options: &CudaOptions, device: &Properties) -> Self {
        Self::of(program, Way::Forward, options, device)
    }

    fn of(program: &Program, way: Way, options: &CudaOptions, device: &Properties) -> Self {
        let placer = Generated::of(program, way, options, Some(device), "").placer;
        let placed = Placed::new(program, &placer);
        Self { placer, placed }
    }

    /// Returns the names of the shapes of unit tiles, by number.
    #[must_use]
    pub fn shapes() -> [String; SHAPES.len()] {
        SHAPES.map(|shape| format!("{shape:?}"))
    }

    /// Returns the numbers of the shapes of a precision, their names, and the µs that each of their
    /// multiply-adds takes.
    #[must_use]
    pub fn costs(precision: DevicePrecision) -> Vec<(u32, String, f64)> {
        let cost =
            |&shape: &Shape| (shape as u32, format!("{shape:?}"), shape.cost(precision).into());
        shapes(1, precision).iter().map(cost).collect()
    }

    /// Returns the fixed time of a wave of unit tiles with a barrier, in µs.
    #[must_use]
    pub fn wave_micros() -> f64 {
        f64::from(WAVE + EXACT_FUNCTIONS + BARRIER)
    }

    /// Adds the launch of a plan to a prediction. `commands` is memory for its command list.
    ///
    /// # Errors
    /// If the plan is too large for a command list.
    pub fn predict(
        &mut self,
        (program, plan): (&Program, &Plan),
        commands: &mut CommandList,
        to: &mut Prediction,
    ) -> Result<(), CudaError> {
        self.predict_from((program, plan), Givens::Host(0, &[]), commands, to)
    }

    /// Like [`predict`](Self::predict), with any source of the given rows.
    fn predict_from(
        &mut self,
        (program, plan): (&Program, &Plan),
        given: Givens<'_>,
        commands: &mut CommandList,
        to: &mut Prediction,
    ) -> Result<(), CudaError> {
        commands.write_from(program, &self.placed.table, plan, given)?;
        if !self.placer.reads.contain(commands.reads()) {
            self.placer.reads.merge(commands.reads());
            self.placed = Placed::new(program, &self.placer);
            commands.write_from(program, &self.placed.table, plan, given)?;
        }
        self.placed.add(commands, self.placer.sms, to);
        Ok(())
    }

    /// Returns true if unit tiles wait for rows.
    fn waits(&self) -> bool {
        self.placed.phases.iter().any(|phase| phase.unit.is_some())
    }
}

impl Placed {
    fn new(program: &Program, placer: &Placer) -> Self {
        let (table, placement) = placer.place();
        let mut places = placement.places.into_iter();
        let phases = table.entries().iter().enumerate().map(|(phase, entry)| {
            let cell = program.part(entry.cell, entry.part).expect("it has phases");
            let steps = &cell.steps[entry.phase.steps.clone()];
            let place = places.next().flatten();
            let tile = placer.tiles.iter().find(|tile| tile.phase == phase);
            let unit = place.zip(tile).map(|(place, tile)| UnitModel::new(place, tile));
            let (terms, slices) = (steps.iter().map(terms).sum::<u64>(), entry.slices);
            let bytes = if placer.phases.way == Way::Back && terms == 0 { bytes(steps) } else { 0 };
            PhaseModel { terms, slices, is_large: entry.is_large, unit, bytes }
        });
        let (slices, phases) = (placement.slices, phases.collect());
        Self { blocks: placer.sms / slices * slices, slices, table, phases }
    }

    /// Adds the launch of a command list.
    fn add(&self, commands: &CommandList, sms: u32, to: &mut Prediction) {
        // True if all that was stored since the last barrier has been published.
        let mut published = false;
        for wave in 0..commands.waves() {
            let mut own = vec![Block::default(); self.blocks as usize];
            // Other tiles than unit tiles are dealt to the blocks in turn, over all jobs of a wave.
            let (mut next, mut slower, mut rings) = (0, 0.0_f32, false);
            for (number, calls) in commands.phases(wave) {
                let phase = &self.phases[number];
                let own_slower = match &phase.unit {
                    Some(unit) => {
                        let of_call = (calls, phase.bytes as f64);
                        rings |= self.unit_tiles(unit, of_call, &mut own, to).is_ring();
                        EXACT_FUNCTIONS
                    }
                    None => {
                        let tile = self.table.tile(number as u32, calls);
                        let tiles = self.streamed_tiles(phase, (calls, tile), next, &mut own);
                        next += tiles;
                        match phase.is_large {
                            true => to.large_tiles += u64::from(tiles),
                            false => to.small_tiles += u64::from(tiles),
                        }
                        if phase.is_large { LARGE_WAVE } else { SMALL_WAVE }
                    }
                };
                slower = slower.max(own_slower);
            }
            // As `needs_barrier` of `kernels/team.h`.
            let tiles_only = commands.has_tiles_only(wave);
            let has_barrier = !published || !tiles_only || rings;
            published = tiles_only;
            to.add(&own, WAVE + slower, has_barrier, sms);
        }
        to.launches += 1;
        to.seen_micros += f64::from(LAUNCH);
    }

    /// Deals the unit tiles of a job to blocks: groups divide its calls, and slices its units.
    /// Returns the shape of the first.
    fn unit_tiles(
        &self,
        unit: &UnitModel,
        (calls, bytes): (u32, f64),
        own: &mut [Block],
        to: &mut Prediction,
    ) -> Shape {
        let each = calls.div_ceil(self.blocks / self.slices);
        let slices = &unit.place.slices;
        for (group, own) in (0..).zip(own.chunks_exact_mut(self.slices as usize)) {
            let own = &mut own[slices.start as usize..slices.end as usize];
            let mut left = calls.saturating_sub(group * each).min(each);
            while left > 0 {
                let (shape, most) = unit.place.chosen(left);
                let count = left.min(most);
                let bytes = bytes * f64::from(count) / f64::from(unit.blocks);
                let bytes = bytes / BYTES_OF_SM;
                for (slice, block) in (0..).zip(&mut *own) {
                    // As `Units` of `kernels/job.h`.
                    let all = slices.len() as u32;
                    let blocks = unit.blocks / all + u32::from(slice < unit.blocks % all);
                    block.tiles += 1;
                    let micros = shape.micros(unit.extent, blocks, count);
                    block.micros += f64::from(micros) + f64::from(blocks) * bytes;
                }
                let tiles = u64::from(slices.end - slices.start);
                to.unit_tiles[shape as usize - 1] += tiles;
                to.rows += tiles * u64::from(count);
                to.room += tiles * u64::from(most);
                left -= count;
            }
        }
        unit.place.chosen(each).0
    }

    /// Deals tiles of `most` calls to blocks, from block `next` on. Returns their number.
    fn streamed_tiles(
        &self,
        phase: &PhaseModel,
        (calls, most): (u32, u32),
        next: u32,
        own: &mut [Block],
    ) -> u32 {
        let large = LARGE_TILES.iter().find(|(tile, _)| phase.is_large && *tile == most);
        let count = calls.div_ceil(most) * phase.slices;
        for tile in 0..count {
            // Large tiles compute all their rows.
            let (rows, cost) = match large {
                Some((_, cost)) => (most, *cost),
                None => ((calls - tile / phase.slices * most).min(most), SMALL_COST),
            };
            let block = &mut own[((next + tile) % self.blocks) as usize];
            let terms = f64::from(rows) * phase.terms as f64 / f64::from(phase.slices);
            block.tiles += 1;
            let bytes = rows as f64 * phase.bytes as f64 / f64::from(phase.slices);
            block.micros += terms * f64::from(cost) + bytes / BYTES_OF_SM;
        }
        count
    }
}

impl UnitModel {
    fn new(place: Place, tile: &UnitTile) -> Self {
        Self { place, blocks: tile.blocks(), extent: tile.extent() }
    }
}

/// Returns the bytes that steps read and write for a call.
fn bytes(steps: &[CellStep]) -> u64 {
    let floats = steps.iter().flat_map(|step| step.reads().into_iter().chain(step.writes()));
    floats.map(|(_, width)| 4 * u64::from(width)).sum()
}

/// Returns the multiply-adds of a step's products for a call.
fn terms(step: &CellStep) -> u64 {
    match *step {
        CellStep::Product { rows, width, .. } => u64::from(rows) * u64::from(width),
        CellStep::MatMul { m, k, n, .. } => u64::from(m) * u64::from(k) * u64::from(n),
        _ => 0,
    }
}
