//! A workload: a model of some size on a set of inputs, in inference and in training.

use std::sync::Arc;
use std::time::Instant;

use edbatch::models::{Model, Targets};
use edbatch::{Engine, EngineOptions, Optimizer, Times, Trainer, TrainerOptions};
use edbatch::{Rows, interpret};
use edbatch_graph::Network;
use edbatch_runtime::{Parameters, Precision};

use crate::Failure;
use crate::measure::contestant::{Contestant, Running};
use crate::measure::device::Device;
use crate::measure::gpu::trainers::{OnDevice, trainers};
use crate::measure::peers::program::Program;
use crate::measure::sets::Set;
use crate::measure::systems::Setup;
use crate::measure::unrolled::{Unrolled, unroll};
use crate::measure::vanilla::Vanilla;

/// A part of a set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// For learning policies.
    Train,
    /// For measuring.
    Test,
}

/// Consecutive instances of a part of a set. The part's first instance follows its last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MiniBatch {
    /// The first instance.
    pub first: usize,
    /// Number of instances.
    pub size: usize,
}

impl MiniBatch {
    /// Returns `count` evenly spaced mini-batches. They overlap if there are too few instances.
    pub fn spread(instances: usize, size: usize, count: usize) -> Vec<Self> {
        (0..count).map(|i| Self { first: i * instances / count, size }).collect()
    }

    fn of<I: Clone>(self, instances: &[I]) -> Vec<I> {
        instances.iter().cycle().skip(self.first).take(self.size).cloned().collect()
    }
}

/// A model of some size on a set of inputs.
pub trait Workload {
    /// Returns the network of the model.
    fn network(&self) -> &Arc<Network>;

    /// Returns the number of instances in a part.
    fn instances(&self, part: Part) -> usize;

    /// Estimates the work of each instance of the test part, in arbitrary units.
    fn work(&self) -> Vec<usize>;

    /// Builds the graphs of a mini-batch.
    fn unroll(&self, part: Part, mini_batch: MiniBatch) -> Vec<Unrolled> {
        self.unroll_in_chains(part, mini_batch, 1)
    }

    /// Builds the graphs of a mini-batch, with at most `chain` steps of a decoder in each.
    fn unroll_in_chains(&self, part: Part, mini_batch: MiniBatch, chain: usize) -> Vec<Unrolled>;

    /// Makes a contestant for mini-batches of the test part.
    fn contestant(
        &self,
        setup: &Setup<'_>,
        parameters: &Parameters,
        mini_batches: &[MiniBatch],
    ) -> Result<Box<dyn Contestant>, Failure>;

    /// Prepares a trainer and an engine for mini-batches of the test part.
    fn training(
        &self,
        parameters: &Parameters,
        threads: usize,
        mini_batches: &[MiniBatch],
    ) -> Result<Box<dyn Passes>, Failure>;

    /// Makes trainers on a device for mini-batches of the test part with these targets.
    fn trainers(
        &self,
        device: &Device,
        parameters: &Parameters,
        mini_batches: &[MiniBatch],
        targets: &[&[Targets]],
    ) -> Result<Vec<(OnDevice, Vec<f64>)>, Failure>;

    /// Computes a mini-batch of the test part node by node.
    fn interpret(
        &self,
        parameters: &Parameters,
        mini_batch: MiniBatch,
    ) -> Result<Vec<Rows>, Failure>;
}

/// A model on a set.
pub struct On<M: Model> {
    model: M,
    train: Arc<Vec<M::Input>>,
    test: Arc<Vec<M::Input>>,
}

impl<M: Model> On<M> {
    /// Combines a model with a set.
    pub fn new(model: M, set: &Set<M::Input>) -> Self {
        Self { model, train: set.train.clone(), test: set.test.clone() }
    }

    fn part(&self, part: Part) -> &[M::Input] {
        match part {
            Part::Train => &self.train,
            Part::Test => &self.test,
        }
    }
}

impl<M> Workload for On<M>
where
    M: Model<Input: Clone + Send + Sync> + Clone + Send + Sync + 'static,
{
    fn network(&self) -> &Arc<Network> {
        self.model.network()
    }

    fn instances(&self, part: Part) -> usize {
        self.part(part).len()
    }

    fn work(&self) -> Vec<usize> {
        self.test.iter().map(|input| self.model.work(input)).collect()
    }

    fn unroll_in_chains(&self, part: Part, mini_batch: MiniBatch, chain: usize) -> Vec<Unrolled> {
        unroll(&self.model, &mini_batch.of(self.part(part)), chain).expect("sets fit their models")
    }

    fn contestant(
        &self,
        setup: &Setup<'_>,
        parameters: &Parameters,
        mini_batches: &[MiniBatch],
    ) -> Result<Box<dyn Contestant>, Failure> {
        let inputs = mini_batches.iter().map(|mini_batch| mini_batch.of(&self.test)).collect();
        let (model, set) = (self.model.clone(), self.test.clone());
        if !setup.system.is_vanilla() {
            return Ok(Box::new(Running::new(model, setup, parameters, set, inputs)?));
        }
        Ok(Box::new(Running::new(Vanilla::new(model)?, setup, parameters, set, inputs)?))
    }

    fn training(
        &self,
        parameters: &Parameters,
        threads: usize,
        mini_batches: &[MiniBatch],
    ) -> Result<Box<dyn Passes>, Failure> {
        let inputs = mini_batches.iter().map(|mini_batch| mini_batch.of(&self.test)).collect();
        Ok(Box::new(OfModel::new(self.model.clone(), parameters, threads, inputs)?))
    }

    fn trainers(
        &self,
        device: &Device,
        parameters: &Parameters,
        mini_batches: &[MiniBatch],
        targets: &[&[Targets]],
    ) -> Result<Vec<(OnDevice, Vec<f64>)>, Failure> {
        let inputs = mini_batches.iter().map(|mini_batch| mini_batch.of(&self.test));
        let with_targets = inputs.zip(targets.iter().map(|targets| targets.to_vec())).collect();
        trainers(&self.model, device, parameters, RATE, with_targets)
    }

    fn interpret(
        &self,
        parameters: &Parameters,
        mini_batch: MiniBatch,
    ) -> Result<Vec<Rows>, Failure> {
        let inputs = mini_batch.of(&self.test);
        Ok(interpret(&self.model, parameters, &inputs, Precision::F32)?.outputs)
    }
}

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
