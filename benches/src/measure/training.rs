//! The part `training`: steps of training, against the engine's forward pass.
//!
//! For each mini-batch, a trainer runs forward and back, sums the gradients of all parameters, and
//! updates the parameters by SGD. A second trainer does the same with Adam. Then an engine runs the
//! mini-batch forward. With `--peers`, PyTorch and DyNet train the same model on it by SGD, from
//! the same weights; the losses of the first steps are compared before anything is timed. Every
//! emitted row has a target. The figures are medians over passes over the whole set; between passes
//! the peak of the core is measured.

use std::time::Instant;

use edbatch_runtime::kernels::{Level, roofline};

use crate::Failure;
use crate::measure::families::Family;
use crate::measure::flops::flops;
use crate::measure::peers::program::Program;
use crate::measure::peers::training::{COMPARED, Twin, steps};
use crate::measure::systems::weights;
use crate::measure::workload::{MiniBatch, Part, Pass};
use crate::record::Case;
use crate::record::training::Training;
use crate::spread::Spread;

/// The maximum number of passes.
const MAX_PASSES: usize = 9;

/// Measures a model on its whole set; on one thread, also other programs.
pub fn training(
    family: &Family,
    (hidden, batch, threads): (usize, usize, usize),
    peers: &[Program],
    seconds: f64,
    mut say: impl FnMut(&str),
) -> Result<Training, Failure> {
    let workload = family.at(hidden)?;
    let instances = workload.instances(Part::Test);
    let starts = (0..instances).step_by(batch);
    let mini_batches: Vec<MiniBatch> =
        starts.map(|first| MiniBatch { first, size: batch.min(instances - first) }).collect();
    let work: u64 = mini_batches
        .iter()
        .flat_map(|&mini_batch| workload.unroll(Part::Test, mini_batch))
        .map(|unrolled| 3 * flops(&unrolled.graph))
        .sum();
    let parameters = weights(workload.network());
    let mut passes = workload.training(&parameters, threads, &mini_batches)?;
    let mut twins = Vec::new();
    for &program in peers.iter().filter(|_| threads == 1) {
        say(&format!("starting {}", program.name()));
        let (weights, model) = (&parameters, family.model);
        let targets = passes.targets();
        twins.extend(Twin::start(program, model, &*workload, weights, &mini_batches, &targets)?);
    }
    if !twins.is_empty() {
        say("comparing the first losses");
        let losses = passes.losses(COMPARED)?;
        twins.iter_mut().try_for_each(|twin| twin.compare(&losses))?;
    }
    let mut step = |number| steps(&mut twins, number);
    passes.pass(&mut step)?;
    let (mut all, mut peaks, began): (Vec<Pass>, _, _) = (vec![], vec![], Instant::now());
    while all.len() < 3 || (all.len() < MAX_PASSES && began.elapsed().as_secs_f64() < seconds) {
        say(&format!("training, pass {}", all.len() + 1));
        peaks.push(roofline::peak_gflops(Level::detect()));
        all.push(passes.pass(&mut step)?);
    }
    let of = |value: &dyn Fn(&Pass) -> f64| {
        Spread::of(&all.iter().map(value).collect::<Vec<f64>>()).median
    };
    let took = of(&|pass| pass.trainer.iter().sum());
    let share = |part: usize| of(&|pass| pass.trainer[part] / pass.trainer.iter().sum::<f64>());
    let (peak, last) = (Spread::of(&peaks).median, all[all.len() - 1]);
    let gflops = work as f64 / took / 1e9;
    Ok(Training {
        case: Case {
            model: family.model.into(),
            input: family.input.into(),
            hidden,
            batch,
            threads,
            backend: "cpu".into(),
        },
        instances_per_second: instances as f64 / took,
        forward_instances_per_second: instances as f64 / of(&|pass| pass.engine),
        decide: share(0),
        forward: share(1),
        back: share(2),
        sums: share(3),
        update: share(4),
        adam: of(&|pass| pass.adam / pass.trainer.iter().sum::<f64>()),
        gflops,
        peak_gflops: peak,
        fraction_of_peak: gflops / peak,
        arena_bytes: last.arenas[0],
        forward_arena_bytes: last.arenas[1],
        weight_bytes: last.weights[0],
        adam_weight_bytes: last.weights[1],
        passes: all.len(),
        peers: twins
            .into_iter()
            .enumerate()
            .map(|(index, twin)| twin.record(instances as f64 / of(&|pass| pass.twins[index])))
            .collect(),
    })
}
