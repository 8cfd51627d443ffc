//! A model and its engines, which a soak keeps running.

use std::mem;
use std::rc::Rc;
use std::time::Instant;

use edbatch::{Engine, EngineError, EngineOptions, RunError};
use edbatch_models::Model;
use edbatch_runtime::{Parameters, Rows, ThreadPool};
use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;

use crate::families::Family;
use crate::throughput::weights;
use crate::workload::{Failure, Part};

/// Sizes of vectors, one of which is drawn for each model.
const HIDDEN: [usize; 3] = [16, 32, 64];
/// The most instances of a mini-batch; sizes are drawn by their logarithm.
const MOST: usize = 128;
/// Instances of the reference mini-batch, the first of the set.
const REFERENCE: usize = 32;
/// How often the reference mini-batch is run, of which the fastest run counts.
const REPETITIONS: usize = 3;
/// Bytes of kept plans: soon full, so that plans are dropped too.
const PLANS: usize = 1 << 20;
/// How many of the last mini-batches may come again.
const AGAIN: usize = 4;

/// An engine that runs any instances of a set.
pub trait AnyInstances {
    /// Runs a mini-batch of the instances with these numbers.
    ///
    /// # Errors
    /// If an input does not fit the model, or the mini-batch is too large.
    fn run(&mut self, instances: &[usize]) -> Result<&[Rows], RunError>;

    /// How much work each instance is, relative to others.
    fn work(&self) -> Vec<usize>;

    /// Bytes of its weights, and of its arena at its largest.
    fn bytes(&self) -> u64;

    /// Graphs whose schedule and plan had been kept.
    fn plans_reused(&self) -> u64;
}

/// An engine on the instances of a set.
pub(crate) struct OnAnyInstances<M: Model> {
    engine: Engine<M>,
    set: Rc<Vec<M::Input>>,
    inputs: Vec<M::Input>,
    outputs: Vec<Rows>,
}

impl<M: Model> OnAnyInstances<M> {
    pub(crate) fn new(
        model: M,
        set: Rc<Vec<M::Input>>,
        parameters: Parameters,
        options: EngineOptions,
    ) -> Result<Self, EngineError> {
        let engine = Engine::with_options(model, parameters, options)?;
        Ok(Self { engine, set, inputs: Vec::new(), outputs: Vec::new() })
    }
}

impl<M: Model<Input: Clone + Sync> + Sync> AnyInstances for OnAnyInstances<M> {
    fn run(&mut self, instances: &[usize]) -> Result<&[Rows], RunError> {
        self.inputs.clear();
        self.inputs.extend(instances.iter().map(|&instance| self.set[instance].clone()));
        self.engine.run_into(&self.inputs, &mut self.outputs)?;
        Ok(&self.outputs)
    }

    fn work(&self) -> Vec<usize> {
        self.set.iter().map(|input| self.engine.model().work(input)).collect()
    }

    fn bytes(&self) -> u64 {
        self.engine.statistics().peak_bytes()
    }

    fn plans_reused(&self) -> u64 {
        self.engine.statistics().plans_reused
    }
}

/// A model with four engines: with plans kept and without, on one thread and on several.
pub(super) struct Subject {
    name: String,
    instances: usize,
    /// What each is called.
    engines: Vec<(String, Box<dyn AnyInstances>)>,
    /// What the first engine made of the reference mini-batch, when all began.
    expected: Vec<Rows>,
    /// The last mini-batches, and which of them is the next to be forgotten.
    last: Vec<Vec<usize>>,
    oldest: usize,
}

impl Subject {
    /// The engines, which have run the largest mini-batch: their arenas grow no more.
    pub(super) fn new(
        family: &Family,
        pool: &ThreadPool,
        rng: &mut Xoshiro256PlusPlus,
    ) -> Result<Self, Failure> {
        let hidden = HIDDEN[rng.random_range(0..HIDDEN.len())];
        let workload = family.at(hidden)?;
        let name = format!("{} on {}, H {hidden}", family.model, family.input);
        let instances = workload.instances(Part::Test);
        let mut engines = Vec::new();
        for threads in [1, pool.threads()] {
            for plans in [0, PLANS] {
                let options = if threads == 1 {
                    EngineOptions::new()
                } else {
                    EngineOptions::new().pool(pool.clone())
                };
                let options = options.plan_cache(plans);
                let engine = workload.any_instances(weights(&*workload), options)?;
                engines.push((format!("{threads} threads, {plans} bytes of plans"), engine));
            }
        }
        let work = engines[0].1.work();
        let mut heaviest: Vec<usize> = (0..instances).collect();
        heaviest.sort_by_key(|&instance| std::cmp::Reverse(work[instance]));
        heaviest.truncate(MOST);
        for (_, engine) in &mut engines {
            engine.run(&heaviest)?;
        }
        let expected = engines[0].1.run(&reference(instances))?.to_vec();
        Ok(Self { name, instances, engines, expected, last: Vec::new(), oldest: 0 })
    }

    /// Runs a mini-batch that is drawn, on an engine that is drawn.
    pub(super) fn run_any(&mut self, rng: &mut Xoshiro256PlusPlus) -> Result<(), Failure> {
        let engine = rng.random_range(0..self.engines.len());
        let again = rng.random_range(0..2 * AGAIN);
        if again >= self.last.len() {
            let size = (MOST as f64).powf(rng.random_range(0.0..=1.0)).round() as usize;
            let draw = |_| rng.random_range(0..self.instances);
            let drawn: Vec<usize> = (0..size).map(draw).collect();
            self.engines[engine].1.run(&drawn)?;
            if self.last.len() < AGAIN {
                self.last.push(drawn);
            } else {
                let _forgotten = mem::replace(&mut self.last[self.oldest], drawn);
                self.oldest = (self.oldest + 1) % AGAIN;
            }
        } else {
            self.engines[engine].1.run(&self.last[again])?;
        }
        Ok(())
    }

    /// Runs the reference mini-batch on every engine: the seconds of all together, each in its
    /// fastest run, and the first engine whose bits are others than those that they began with.
    pub(super) fn run_reference(&mut self) -> Result<(f64, Option<String>), Failure> {
        let (reference, mut moved, mut all) = (reference(self.instances), None, 0.0);
        for (called, engine) in &mut self.engines {
            let mut fastest = f64::INFINITY;
            for _ in 0..REPETITIONS {
                let started = Instant::now();
                let got = engine.run(&reference)?;
                fastest = fastest.min(started.elapsed().as_secs_f64());
                if !same_bits(got, &self.expected) {
                    moved = moved.or(Some(format!("{}, {called}", self.name)));
                }
            }
            all += fastest;
        }
        Ok((all, moved))
    }

    pub(super) fn engines(&self) -> usize {
        self.engines.len()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.engines.iter().map(|(_, engine)| engine.bytes()).sum()
    }

    pub(super) fn plans_reused(&self) -> u64 {
        self.engines.iter().map(|(_, engine)| engine.plans_reused()).sum()
    }
}

/// The instances of the reference mini-batch.
fn reference(instances: usize) -> Vec<usize> {
    (0..REFERENCE.min(instances)).collect()
}

fn same_bits(a: &[Rows], b: &[Rows]) -> bool {
    let bits = |row: &[f32]| row.iter().map(|element| element.to_bits()).collect::<Vec<_>>();
    let same = |(a, b): (&Rows, &Rows)| {
        a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| bits(a) == bits(b))
    };
    a.len() == b.len() && a.iter().zip(b).all(same)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_compared_and_not_numbers() {
        let rows = |elements: &[f32]| {
            let mut rows = Rows::new();
            rows.push(elements);
            vec![rows]
        };
        assert!(same_bits(&rows(&[1.0, f32::NAN]), &rows(&[1.0, f32::NAN])));
        assert!(!same_bits(&rows(&[0.0]), &rows(&[-0.0])));
        assert!(!same_bits(&rows(&[0.0]), &rows(&[0.0, 0.0])));
        assert!(!same_bits(&rows(&[0.0]), &[]));
    }
}
