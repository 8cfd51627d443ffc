//! A model of the time of a step of training, launch by launch.
//!
//! Both passes are modelled as other plans. The kernels of sums, totals and updates have constants
//! from prototypes of them, measured on an H200: a TreeLSTM, H = 256, with 1,165 and 18,640 calls.

use edbatch_layout::{Plan, Program, TrainingPlan};
use edbatch_runtime::BackendError;

use super::{DeviceModel, Prediction};
use crate::command_list::{CommandList, Givens, Losses};
use crate::device::Properties;
use crate::phase_table::Way;
use crate::shapes::{BARRIER, BYTES_OF_SM, LARGE_WAVE, LAUNCH, WAVE};
use crate::sums::{Added, Lists, ROW as ROW_WORDS, SumTable, TotalList};
use crate::{CudaError, CudaOptions};

/// The times of the constants are in µs; *estimated* ones say so.
///
/// The gap between two launches (*estimated*).
const GAP: f64 = 2.0;
/// A pair of rows in a tile of 64 × 32 elements and of 128 × 128: 28.9 and 39.9 TFLOP/s on all SMs.
const PAIR: f64 = 0.0187;
const PAIR_OF_LARGE: f64 = 0.1084;
/// A pair in a tile of at most 32 rows, alone: 647 µs for 37,280 pairs of an output of five rows.
/// It takes less from other blocks of its SM: half of the warps compute (*estimated*).
const PAIR_ALONE: f64 = 0.0174;
const PAIR_OF_NARROW: f64 = PAIR / 2.0;
/// A row of a sum of rows, such as of a bias: it takes 5 ns, and two of eight warps add
/// (*estimated*).
const ROW: f64 = 0.005 / 4.0;
/// Eight rows that a warp of the sums of rows loads at a time, and an SM's warps (*estimated*).
const LOAD: f64 = 0.7;
const WARPS: f64 = 64.0;
/// The bytes of pinned memory that a launch reads in a µs (measured: 4 MB in 83 µs, if it writes).
const BYTES_OF_LINK: f64 = 48_000.0;
/// The loss of an input (*estimated*).
const LOSS: f64 = 0.005;
/// Totals and the norm, and an update by Adam: at first, and each element.
const TOTALS: [f64; 2] = [6.0, 12.6e-6];
const UPDATE: [f64; 2] = [2.0, 19e-6];

/// The model of a program for training on a device.
#[derive(Debug)]
pub struct TrainingModel {
    passes: [DeviceModel; 2],
    table: SumTable,
    sms: u32,
    commands: CommandList,
}

/// The predicted time of a step of one part, in µs by launch.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
#[non_exhaustive]
pub struct StepPrediction {
    /// The forward pass, with the time to clear its arena.
    pub forward: f64,
    /// Losses and the backward pass.
    pub back: f64,
    /// Sums of rows of tables and of initial values.
    pub rows: f64,
    /// Adjoints of the rows of tables.
    pub row_adjoints: f64,
    /// Sums over calls.
    pub sums: f64,
    /// Gradients and their norm.
    pub totals: f64,
    /// The update.
    pub update: f64,
    /// The number of launches.
    pub launches: u32,
}

impl StepPrediction {
    /// Returns the time on the device, with the gaps between launches.
    #[must_use]
    pub fn device_micros(&self) -> f64 {
        let Self { forward, back, rows, row_adjoints, sums, totals, update, launches } = self;
        let gaps = GAP * f64::from(launches.saturating_sub(1));
        forward + back + rows + row_adjoints + sums + totals + update + gaps
    }

    /// Returns the time until the host sees the end, without its own work.
    #[must_use]
    pub fn seen_micros(&self) -> f64 {
        self.device_micros() + f64::from(LAUNCH)
    }
}

impl TrainingModel {
    /// The model of a program for training on a device with `sms` SMs and `shared_bytes` of shared
    /// memory per block.
    ///
    /// # Errors
    /// If the program has too many gradients for a device.
    ///
    /// # Panics
    /// If the program is not for training.
    pub fn new(program: &Program, sms: u32, shared_bytes: usize) -> Result<Self, CudaError> {
        let device = Properties::of_size(sms, shared_bytes);
        let pass = |way| DeviceModel::of(program, way, &CudaOptions::new(), &device);
        let training = program.training().expect("the program is for training");
        Ok(Self {
            passes: [Way::Forward, Way::Back].map(pass),
            table: SumTable::new(program, training)?,
            sms,
            commands: CommandList::default(),
        })
    }

    /// Returns the time of a step of one part with `inputs` inputs. Each wanted value whose
    /// gradient the plan has is a term of the loss.
    ///
    /// # Errors
    /// If the plan is too large for a device.
    pub fn predict(
        &mut self,
        program: &Program,
        plan: &TrainingPlan,
        inputs: usize,
    ) -> Result<StepPrediction, BackendError> {
        let Self { passes: [forward, back], table, commands, sms } = self;
        let mut step = StepPrediction { launches: 6, ..StepPrediction::default() };
        let mut waits = Vec::new();
        let mut times = |model: &mut DeviceModel, plan: &Plan, given: Givens<'_>| {
            let mut all = Prediction::default();
            model.predict_from((program, plan), given, commands, &mut all)?;
            waits.push(f64::from(all.waves - all.barriers));
            Ok::<_, BackendError>((all.device_micros, commands.arena()))
        };
        let starts = vec![0; program.network().parameters().len()];
        let values = plan.gradient_of.len();
        let (targets, ends) = (vec![0; values], vec![values as u32; inputs]);
        let before;
        (step.forward, before) = times(forward, &plan.forward, Givens::Trained(&starts, false))?;
        let losses = Losses {
            forward: &plan.forward,
            before,
            gradient_of: &plan.gradient_of,
            targets: &targets,
            weight: 1.0,
            ends: &ends,
            first_input: 0,
        };
        let floats;
        (step.back, floats) = times(back, &plan.back, Givens::Losses(losses))?;
        // As `Cuda::run_step`: the arena is cleared, or each wave has a barrier.
        if forward.waits() || back.waits() {
            let clearing = 4.0 * floats as f64 / BYTES_OF_SM / f64::from(*sms);
            step.forward += clearing.min(waits.iter().sum::<f64>() * f64::from(BARRIER));
        }
        let (mut added, mut lists, mut totals) =
            (Added::default(), Lists::default(), TotalList::default());
        added.clear(table);
        lists.add(program, table, &[(0, plan)], &mut added)?;
        step.rows = rows_micros(&lists, table, *sms) + LOSS * inputs as f64;
        let mut of_rows = Plan::default();
        let row_starts = added.plan_of_rows(table, &mut of_rows)?;
        if !of_rows.steps.is_empty() {
            let mut all = Prediction::default();
            back.predict_from((program, &of_rows), Givens::Host(0, &[]), commands, &mut all)?;
            step.row_adjoints = all.device_micros + f64::from(LARGE_WAVE);
            step.launches += 1;
        }
        lists.add_row_adjoints(table, &added, &row_starts);
        let longest = lists.tile_pairs().map(|(pairs, ..)| pairs).max().unwrap_or(0);
        let busiest = busiest(lists.tile_pairs().map(tile_micros), *sms);
        step.sums = f64::from(WAVE) + busiest.max(PAIR_ALONE * f64::from(longest));
        totals.list(table, &added, &row_starts, added.floats)?;
        // The launch of the sums of rows copies the lists of later ones to the device.
        let TotalList { totals: all, sources, chunks, list, .. } = &totals;
        let moved = [&lists.sums, &lists.tiles, &lists.calls, all, sources, chunks, list];
        step.rows += 4.0 * moved.map(Vec::len).iter().sum::<usize>() as f64 / BYTES_OF_LINK;
        let elements = totals.completed.iter().flatten();
        let elements: f64 = elements.map(|complete| f64::from(complete.elements)).sum();
        let [totals, update] = [TOTALS, UPDATE].map(|[first, each]| first + each * elements);
        (step.totals, step.update) = (totals, update);
        Ok(step)
    }
}

/// Returns the time of a tile: the number of its pairs, the rows of its sum from the tile on, if it
/// has products, and its own rows.
fn tile_micros((pairs, outputs, rows): (u32, Option<u32>, u32)) -> f64 {
    let each = match (outputs, rows) {
        (None, _) => ROW,
        (Some(..=32), _) => PAIR_OF_NARROW,
        (_, 128) => PAIR_OF_LARGE,
        _ => PAIR,
    };
    f64::from(pairs) * each
}

/// Returns the time of the busiest SM. Blocks begin on the SM that is free first.
fn busiest(tiles: impl Iterator<Item = f64>, sms: u32) -> f64 {
    let mut tiles: Vec<f64> = tiles.collect();
    tiles.sort_by(|a, b| b.total_cmp(a));
    let mut busy = vec![0.0_f64; sms as usize];
    for tile in tiles {
        let free = busy.iter_mut().min_by(|a, b| a.total_cmp(b)).expect("there are SMs");
        *free += tile;
    }
    busy.into_iter().fold(0.0, f64::max)
}

/// Returns the time of the sums of rows: each warp of 32 columns walks over its calls.
fn rows_micros(lists: &Lists, table: &SumTable, sms: u32) -> f64 {
    let rows = lists.rows.as_chunks::<ROW_WORDS>().0.iter();
    let loads = rows.map(|&[first, end, _, first_field, end_field, _]| {
        let fields = &table.fields[first_field as usize..end_field as usize];
        let columns: u32 = fields.iter().map(|[.., width]| width).sum();
        (f64::from((end - first).div_ceil(8)), f64::from(columns.div_ceil(32)))
    });
    let loads: Vec<(f64, f64)> = loads.collect();
    let longest = loads.iter().map(|&(calls, _)| calls).fold(0.0, f64::max);
    let all: f64 = loads.iter().map(|&(calls, warps)| calls * warps).sum();
    f64::from(WAVE) + LOAD * longest.max(all / (WARPS * f64::from(sms)))
}

#[cfg(test)]
mod tests {
    use super::{busiest, tile_micros};

    #[test]
    fn tiles_begin_where_an_sm_is_free_first() {
        assert_eq!(busiest([3.0, 1.0, 2.0, 4.0, 2.0].into_iter(), 2), 6.0);
        assert_eq!(busiest([].into_iter(), 3), 0.0);
        let of = |outputs, rows| tile_micros((1000, outputs, rows));
        let costs = [of(None, 64), of(Some(5), 64), of(Some(256), 64), of(Some(512), 128)];
        assert!(costs.is_sorted(), "{costs:?}");
    }
}
