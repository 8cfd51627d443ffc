//! A model and its engines in a soak.

use std::time::Instant;

use edbatch_policy::{Encoding, Fsm};
use edbatch_runtime::{Rows, ThreadPool};
use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;

use crate::Failure;
use crate::measure::bits::same_bits;
use crate::measure::contestant::Contestant;
use crate::measure::families::Family;
use crate::measure::systems::{Setup, System, weights};
use crate::measure::workload::Part;

/// Sizes of vectors; one is drawn for each model.
const HIDDEN: [usize; 3] = [16, 32, 64];
/// Maximum instances of a mini-batch. Sizes are drawn on a logarithmic scale.
const MAX_INSTANCES: usize = 128;
/// Instances of the reference mini-batch, the first ones of the set.
const REFERENCE: usize = 32;
/// Runs of the reference mini-batch in a sample; the fastest counts.
const REPETITIONS: usize = 3;

/// A model with two engines, on one thread and on several.
pub(super) struct Subject {
    name: String,
    instances: usize,
    /// Names and engines.
    engines: Vec<(String, Box<dyn Contestant>)>,
    /// The first engine's results of the reference mini-batch at the start.
    expected: Vec<Rows>,
}

impl Subject {
    /// Makes the engines. They run the largest mini-batch, so that their arenas grow no further.
    pub(super) fn new(
        family: &Family,
        pool: &ThreadPool,
        rng: &mut Xoshiro256PlusPlus,
    ) -> Result<Self, Failure> {
        let hidden = HIDDEN[rng.random_range(0..HIDDEN.len())];
        let workload = family.at(hidden)?;
        let name = format!("{} on {}, H {hidden}", family.model, family.input);
        let instances = workload.instances(Part::Test);
        let parameters = weights(workload.network());
        let unlearned = Fsm::new(Encoding::Sort, workload.network().cells().len());
        let mut engines = Vec::new();
        for threads in [1, pool.threads()] {
            let pool = (threads > 1).then_some(pool);
            let setup = Setup { pool, ..Setup::new(System::Edbatch, &unlearned, threads) };
            let engine = workload.contestant(&setup, &parameters, &[])?;
            engines.push((format!("{threads} threads"), engine));
        }
        let work = workload.work();
        let mut heaviest: Vec<usize> = (0..instances).collect();
        heaviest.sort_by_key(|&instance| std::cmp::Reverse(work[instance]));
        heaviest.truncate(MAX_INSTANCES);
        for (_, engine) in &mut engines {
            engine.run_instances(&heaviest)?;
        }
        let expected = engines[0].1.run_instances(&reference(instances))?.to_vec();
        Ok(Self { name, instances, engines, expected })
    }

    /// Runs a random mini-batch on a random engine.
    pub(super) fn run_random(&mut self, rng: &mut Xoshiro256PlusPlus) -> Result<(), Failure> {
        let engine = rng.random_range(0..self.engines.len());
        let size = (MAX_INSTANCES as f64).powf(rng.random_range(0.0..=1.0)).round() as usize;
        let drawn: Vec<usize> = (0..size).map(|_| rng.random_range(0..self.instances)).collect();
        self.engines[engine].1.run_instances(&drawn)?;
        Ok(())
    }

    /// Runs the reference mini-batch on every engine. Returns the sum of the fastest runs, and the
    /// first engine whose results changed.
    pub(super) fn run_reference(&mut self) -> Result<(f64, Option<String>), Failure> {
        let (reference, mut changed, mut all) = (reference(self.instances), None, 0.0);
        for (engine_name, engine) in &mut self.engines {
            let mut fastest = f64::INFINITY;
            for _ in 0..REPETITIONS {
                let started = Instant::now();
                let got = engine.run_instances(&reference)?;
                fastest = fastest.min(started.elapsed().as_secs_f64());
                if !same_bits(got, &self.expected) {
                    changed = changed.or(Some(format!("{}, {engine_name}", self.name)));
                }
            }
            all += fastest;
        }
        Ok((all, changed))
    }

    pub(super) fn engines(&self) -> usize {
        self.engines.len()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.engines.iter().map(|(_, engine)| engine.statistics().peak_bytes()).sum()
    }
}

/// The instances of the reference mini-batch.
fn reference(instances: usize) -> Vec<usize> {
    (0..REFERENCE.min(instances)).collect()
}
