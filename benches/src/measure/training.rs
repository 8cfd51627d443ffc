//! The part `training`: steps of training, against the engine's forward pass.
//!
//! For each mini-batch, a trainer runs forward and back, sums the gradients of all parameters, and
//! updates the parameters by SGD. A second trainer does the same with Adam. Then an engine runs the
//! mini-batch forward. With `--peers`, PyTorch and DyNet train the same model on it by SGD, from
//! the same weights; the losses of the first steps are compared before anything is timed. Every
//! emitted row has a target. The figures are medians over passes over the whole set; between passes
//! the peak of the core is measured.

use std::time::Instant;

use edbatch::models::{Model, Targets};
use edbatch::{Engine, EngineOptions, Optimizer, Times, Trainer, TrainerOptions};
use edbatch_runtime::Parameters;
use edbatch_runtime::kernels::{Level, roofline};

use crate::Failure;
use crate::measure::families::Family;
use crate::measure::flops::flops;
use crate::measure::peers::program::Program;
use crate::measure::peers::training::{COMPARED, Twin};
use crate::measure::systems::weights;
use crate::measure::workload::{MiniBatch, Part};
use crate::record::Case;
use crate::record::training::Training;
use crate::spread::Spread;

/// The models measured: one for trees, one for chains, one for lattices.
pub const TRAINED: [&str; 3] = ["tree_lstm", "bilstm_tagger", "lattice_lstm"];

/// The other programs that train.
pub const PEERS: [Program; 2] = [Program::PyTorch, Program::DyNet];

/// The rate of SGD: the targets have no meaning, but the first losses show whether updates agree.
pub const RATE: f64 = 1e-3;

/// The maximum number of passes.
const MAX_PASSES: usize = 9;

/// The figures of one pass over the mini-batches of a set. Seconds of the trainer by part of a
/// step, of the trainer with Adam, of the engine, and of other programs; and bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pass {
    /// Deciding, forward, back, sums, and the update by SGD.
    pub trainer: [f64; 5],
    /// All parts of a step with Adam.
    pub adam: f64,
    /// The engine's run.
    pub engine: f64,
    /// The steps of other programs.
    pub twins: [f64; PEERS.len()],
    /// The largest arena of the trainer, and of the engine.
    pub arenas: [usize; 2],
    /// The bytes of the weights of both trainers.
    pub weights: [usize; 2],
}

/// Runs passes of a trainer and an engine; implemented for all workloads.
pub trait Passes {
    /// Returns the targets of all instances of each mini-batch.
    fn targets(&self) -> Vec<&[Targets]>;

    /// Trains on the first mini-batches by SGD. Returns their losses.
    fn losses(&mut self, count: usize) -> Result<Vec<f32>, Failure>;

    /// Runs all mini-batches once, each also by the twins.
    fn pass(&mut self, twins: &mut [Twin]) -> Result<Pass, Failure>;
}

/// Two trainers and an engine, and their mini-batches.
pub struct OfModel<M: Model> {
    trainer: Trainer<M>,
    adam: Trainer<M>,
    engine: Engine<M>,
    mini_batches: Vec<(Vec<M::Input>, Vec<Targets>)>,
}

impl<M: Model + Clone> OfModel<M> {
    /// Prepares the trainers and the engine. The target of an output row is the row's index, modulo
    /// the row's length.
    pub fn new(
        model: M,
        parameters: &Parameters,
        threads: usize,
        mini_batches: Vec<Vec<M::Input>>,
    ) -> Result<Self, Failure> {
        let options = EngineOptions::new().threads(threads);
        let mut engine = Engine::with_options(model.clone(), parameters.clone(), options)?;
        let trainer = |optimizer| {
            let options = TrainerOptions::new().threads(threads).optimizer(optimizer);
            Trainer::with_options(model.clone(), parameters.clone(), options)
        };
        let (trainer, adam) = (trainer(Optimizer::sgd(RATE))?, trainer(Optimizer::adam(1e-6))?);
        let with_targets = |inputs: Vec<M::Input>| {
            let rows = engine.run(&inputs)?;
            let target = |(index, row): (usize, &[f32])| Some((index % row.len()) as u32);
            let targets = rows.iter().map(|rows| rows.iter().enumerate().map(target).collect());
            let targets = targets.collect();
            Ok((inputs, targets))
        };
        let mini_batches = mini_batches.into_iter().map(with_targets);
        let mini_batches = mini_batches.collect::<Result<_, Failure>>()?;
        Ok(Self { trainer, adam, engine, mini_batches })
    }
}

impl<M: Model> Passes for OfModel<M> {
    fn targets(&self) -> Vec<&[Targets]> {
        self.mini_batches.iter().map(|(_, targets)| &targets[..]).collect()
    }

    fn losses(&mut self, count: usize) -> Result<Vec<f32>, Failure> {
        let first = self.mini_batches.iter().take(count);
        first
            .map(|(inputs, targets)| Ok(self.trainer.train(inputs, targets)?.loss as f32))
            .collect()
    }

    fn pass(&mut self, twins: &mut [Twin]) -> Result<Pass, Failure> {
        let mut pass = Pass::default();
        let before = self.trainer.times();
        for (number, (inputs, targets)) in self.mini_batches.iter().enumerate() {
            self.trainer.train(inputs, targets)?;
            pass.adam += all(&self.adam.train(inputs, targets)?.times);
            let started = Instant::now();
            self.engine.run(inputs)?;
            pass.engine += started.elapsed().as_secs_f64();
            for (twin, seconds) in twins.iter_mut().zip(&mut pass.twins) {
                *seconds += twin.step(number)?;
            }
        }
        let seconds = |of: fn(&Times) -> std::time::Duration| {
            (of(&self.trainer.times()) - of(&before)).as_secs_f64()
        };
        let parts = [seconds(|t| t.decide), seconds(|t| t.forward), seconds(|t| t.back)];
        pass.trainer = [parts[0], parts[1], parts[2], seconds(|t| t.sums), seconds(|t| t.update)];
        let bytes = self.trainer.bytes();
        pass.arenas = [bytes.arena, self.engine.statistics().arena_bytes as usize];
        pass.weights = [bytes.weights, self.adam.bytes().weights];
        Ok(pass)
    }
}

/// Returns the seconds of all parts.
fn all(times: &Times) -> f64 {
    let Times { decide, forward, back, sums, update } = *times;
    (decide + forward + back + sums + update).as_secs_f64()
}

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
        twins.extend(Twin::start(program, model, &*workload, weights, &mini_batches, &*passes)?);
    }
    if !twins.is_empty() {
        say("comparing the first losses");
        let losses = passes.losses(COMPARED)?;
        twins.iter_mut().try_for_each(|twin| twin.compare(&losses))?;
    }
    passes.pass(&mut twins)?;
    let (mut all, mut peaks, began): (Vec<Pass>, _, _) = (vec![], vec![], Instant::now());
    while all.len() < 3 || (all.len() < MAX_PASSES && began.elapsed().as_secs_f64() < seconds) {
        say(&format!("training, pass {}", all.len() + 1));
        peaks.push(roofline::peak_gflops(Level::detect()));
        all.push(passes.pass(&mut twins)?);
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
