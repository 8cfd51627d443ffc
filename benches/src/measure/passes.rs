//! Trainers and an engine that run over the mini-batches of a set.

use std::time::Instant;

use edbatch::models::{Model, Targets};
use edbatch::{Engine, EngineOptions, Optimizer, Times, Trainer, TrainerOptions};
use edbatch_runtime::Parameters;

use crate::Failure;
use crate::measure::peers::program::Program;

/// The other programs that train.
pub const PEERS: [Program; 2] = [Program::PyTorch, Program::DyNet];

/// The rate of SGD: the targets have no meaning, but the first losses show whether updates agree.
pub const RATE: f64 = 1e-3;

/// Trains all other programs on a mini-batch. Returns the seconds of each.
pub type Twins<'a> = dyn FnMut(usize) -> Result<[f64; PEERS.len()], Failure> + 'a;

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
    fn pass(&mut self, twins: &mut Twins<'_>) -> Result<Pass, Failure>;
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

    fn pass(&mut self, twins: &mut Twins<'_>) -> Result<Pass, Failure> {
        let mut pass = Pass::default();
        let before = self.trainer.times();
        for (number, (inputs, targets)) in self.mini_batches.iter().enumerate() {
            self.trainer.train(inputs, targets)?;
            pass.adam += all(&self.adam.train(inputs, targets)?.times);
            let started = Instant::now();
            self.engine.run(inputs)?;
            pass.engine += started.elapsed().as_secs_f64();
            for (seconds, sum) in twins(number)?.into_iter().zip(&mut pass.twins) {
                *sum += seconds;
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
