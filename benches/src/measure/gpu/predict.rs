//! `cargo xtask gpu --predict`: the model of edbatch-cuda on the mini-batches of sets. No device is
//! needed, and nothing is measured.

use std::sync::Arc;

use edbatch_cuda::{CHAIN, CommandList, DeviceModel, Prediction, TrainingModel};
use edbatch_graph::{Schedule, training_network};
use edbatch_layout::{self as layout, Lifetimes, Plan, Planner, Program, TrainingPlan, Want};
use edbatch_policy::Scheduler;

use crate::Failure;
use crate::measure::families::Family;
use crate::measure::options::{self, Options};
use crate::measure::systems::System;
use crate::measure::unrolled::Unrolled;
use crate::measure::workload::{MiniBatch, Part};
use crate::render::table::Table;
use crate::text::{percent, whole};

/// Shared memory of a block on an H100 or H200, in bytes.
const SHARED_BYTES: usize = 227 << 10;

/// Maximum number of mini-batches of a size, and the number of instances to reach.
const MAX: usize = 16;
const INSTANCES: usize = 2048;

/// Predicts mini-batches of all sizes: means of each. With `--only training`, steps of training.
pub fn predicted(options: &Options, families: &[Family]) -> Result<Table, Failure> {
    match *options.only {
        [] => predicted_runs(options, families),
        [options::Part::Training] => predicted_steps(options, families),
        _ => Err("--predict: the only part is training; without --only, it is inference".into()),
    }
}

fn predicted_runs(options: &Options, families: &[Family]) -> Result<Table, Failure> {
    let title = format!(
        "Model of {} SMs, not measured: a mini-batch at a time, one plan on all groups",
        options.sms
    );
    let header = ["model", "set", "system", "batch", "launches", "waves: polled", "with barrier"];
    let last = ["rows filled", "SMs idle", "µs, device", "µs, seen", "inputs/s, device"];
    let shapes = DeviceModel::shapes().into_iter().chain(["large", "small"].map(String::from));
    let header = header.map(String::from).into_iter().chain(shapes);
    let mut table = Table::new(&title, 3, header.chain(last.map(String::from)));
    for family in families {
        for hidden in options.hidden(family) {
            for batch in options.batches(options::Part::Throughput) {
                for system in [System::Cuda, System::CudaTf32, System::CudaBf16] {
                    let (count, all) = mini_batches(family, system, (hidden, batch), options.sms)?;
                    table.rows.push(row(family, system, batch, count as f64, &all));
                }
            }
        }
    }
    Ok(table)
}

/// Returns the number of mini-batches that are planned, and the prediction for all of them.
fn mini_batches(
    family: &Family,
    system: System,
    (hidden, batch): (usize, usize),
    sms: u32,
) -> Result<(usize, Prediction), Failure> {
    let workload = family.at(hidden)?;
    let program = system.program(workload.network())?;
    let options = system.on_cuda().expect("it is on a device");
    let mut model = DeviceModel::new(&program, &options, sms, SHARED_BYTES);
    let (mut scheduler, mut planner) = (Scheduler::by_depth(), Planner::new(Lifetimes::Distinct));
    let (mut schedule, mut plan) = (Schedule::new(), Plan::default());
    let (mut commands, mut all) = (CommandList::default(), Prediction::default());
    let count = (INSTANCES / batch).clamp(1, MAX);
    for own in MiniBatch::spread(workload.instances(Part::Test), batch, count) {
        for Unrolled { graph, wanted } in workload.unroll_in_chains(Part::Test, own, CHAIN) {
            scheduler.schedule(&graph, &mut schedule);
            let wanted: Vec<_> = wanted.into_iter().map(|value| (value, Want::Elements)).collect();
            let (program, graph, schedule) = (&program, &graph, &schedule);
            let own = layout::MiniBatch { program, graph, schedule, wanted: &wanted };
            planner.plan(&own, &mut plan)?;
            model.predict((program, &plan), &mut commands, &mut all)?;
        }
    }
    Ok((count, all))
}

/// Formats the means of `count` mini-batches.
fn row(family: &Family, system: System, batch: usize, count: f64, all: &Prediction) -> Vec<String> {
    let mean = |sum: f64| whole(sum / count);
    let waves = [all.launches, all.waves - all.barriers, all.barriers];
    let tiles = all.unit_tiles.iter().chain([&all.large_tiles, &all.small_tiles]);
    let rate = batch as f64 * count / all.device_micros * 1e6;
    let mut row = vec![family.model.into(), family.input.into(), system.name(), batch.to_string()];
    row.extend(waves.map(|sum| mean(sum.into())));
    row.extend(tiles.map(|&sum| mean(sum as f64)));
    row.push(percent(all.rows as f64 / all.room as f64));
    row.push(percent(1.0 - all.busy_micros / all.all_micros));
    row.extend([all.device_micros, all.seen_micros].map(mean));
    row.push(whole(rate));
    row
}

/// The launches of a step, in order.
const LAUNCHES: [&str; 7] = ["forward", "back", "rows", "row adjoints", "sums", "totals", "update"];

fn predicted_steps(options: &Options, families: &[Family]) -> Result<Table, Failure> {
    let title = format!(
        "Model of {} SMs, not measured: a step of training, one part on all groups; µs by launch",
        options.sms
    );
    let header = ["model", "set", "batch"].into_iter().chain(LAUNCHES);
    let last = ["launches", "µs, device", "µs, seen", "inputs/s, device"];
    let mut table = Table::new(&title, 2, header.chain(last).map(String::from));
    for family in families {
        for hidden in options.hidden(family) {
            for batch in options.batches(options::Part::Throughput) {
                table.rows.push(step_row(family, (hidden, batch), options.sms)?);
            }
        }
    }
    Ok(table)
}

/// Formats the means of steps on mini-batches of a size, with a target for each output.
fn step_row(
    family: &Family,
    (hidden, batch): (usize, usize),
    sms: u32,
) -> Result<Vec<String>, Failure> {
    let workload = family.at(hidden)?;
    let training = training_network(workload.network(), |_| true, |_| false)?;
    let program = Program::for_training(Arc::new(training))?;
    let mut model = TrainingModel::new(&program, sms, SHARED_BYTES)?;
    let (mut scheduler, mut planner) = (Scheduler::by_depth(), Planner::new(Lifetimes::Distinct));
    let (mut schedule, mut plan) = (Schedule::new(), TrainingPlan::default());
    let (mut count, mut all) = (0.0, [0.0; LAUNCHES.len() + 3]);
    let mini_batches = (INSTANCES / batch).clamp(1, MAX);
    for own in MiniBatch::spread(workload.instances(Part::Test), batch, mini_batches) {
        for Unrolled { graph, wanted } in workload.unroll(Part::Test, own) {
            scheduler.schedule(&graph, &mut schedule);
            let wanted: Vec<_> = wanted.into_iter().map(|value| (value, Want::Elements)).collect();
            let has_gradient = vec![true; wanted.len()];
            let (program, graph, schedule) = (&program, &graph, &schedule);
            let own = layout::MiniBatch { program, graph, schedule, wanted: &wanted };
            planner.plan_training(&own, &has_gradient, &mut plan)?;
            let step = model.predict(program, &plan, batch)?;
            let (device, seen) = (step.device_micros(), step.seen_micros());
            let of_launches = [step.forward, step.back, step.rows, step.row_adjoints, step.sums];
            let last = [step.totals, step.update, step.launches.into(), device, seen];
            let own = of_launches.into_iter().chain(last);
            all.iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
            count += 1.0;
        }
    }
    let rate = batch as f64 * count / all[LAUNCHES.len() + 1] * 1e6;
    let mut row = vec![family.model.into(), family.input.into(), batch.to_string()];
    row.extend(all.map(|sum| whole(sum / count)));
    row.push(whole(rate));
    Ok(row)
}
