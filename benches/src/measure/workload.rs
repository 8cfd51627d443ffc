//! A workload: a model of some size on a set of inputs.

use std::sync::Arc;

use edbatch::models::Model;
use edbatch::{Rows, interpret};
use edbatch_graph::Network;
use edbatch_runtime::{Parameters, Precision};

use crate::Failure;
use crate::measure::contestant::{Contestant, Running};
use crate::measure::passes::{OfModel, Passes};
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
    fn unroll(&self, part: Part, mini_batch: MiniBatch) -> Vec<Unrolled>;

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

    fn unroll(&self, part: Part, mini_batch: MiniBatch) -> Vec<Unrolled> {
        unroll(&self.model, &mini_batch.of(self.part(part))).expect("sets fit their models")
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

    fn interpret(
        &self,
        parameters: &Parameters,
        mini_batch: MiniBatch,
    ) -> Result<Vec<Rows>, Failure> {
        let inputs = mini_batch.of(&self.test);
        Ok(interpret(&self.model, parameters, &inputs, Precision::F32)?.outputs)
    }
}
