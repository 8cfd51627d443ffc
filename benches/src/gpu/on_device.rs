//! A model with its engines on a device, and the mini-batches that they run.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use edbatch::{Engine, EngineOptions, Rows, RunError, Statistics};
use edbatch_models::Model;
use edbatch_runtime::Parameters;

use super::device::Target;
use super::setting::Kernels;
use crate::workload::Failure;

/// How a model is put on a device.
pub struct Way<'a> {
    /// The device.
    pub target: &'a Target,
    /// What is compiled.
    pub kernels: Kernels,
    /// Parts of a mini-batch, each wired and planned by a thread.
    pub parts: usize,
    /// Engines side by side.
    pub engines: usize,
    /// Teams have at least so many blocks.
    pub fewest_blocks: u32,
}

/// A model on a device.
pub trait OnDevice {
    /// Runs a mini-batch by the first engine.
    ///
    /// # Errors
    /// If the device does not carry it out.
    fn run(&mut self, mini_batch: usize) -> Result<&[Rows], RunError>;

    /// Runs so many mini-batches by all engines side by side, in turns; the seconds of all.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    fn run_side_by_side(&mut self, count: usize) -> Result<f64, RunError>;

    /// Lets each engine run mini-batches on a thread of its own, and compares their bits with those
    /// expected, until the stress ends.
    fn stress<'s>(
        &'s mut self,
        scope: &'s thread::Scope<'s, '_>,
        expected: &'s [Vec<Rows>],
        stress: &'s Stress,
    );

    /// What all runs of the first engine took; times of its threads added up.
    fn statistics(&self) -> Statistics;
}

/// Many plans at once.
pub struct Stress {
    /// When it ends.
    pub until: Instant,
    /// Mini-batches so far.
    pub plans: AtomicU64,
    /// The first that went wrong.
    pub wrong: Mutex<Option<String>>,
}

impl Stress {
    fn goes_on(&self) -> bool {
        Instant::now() < self.until && self.wrong.lock().is_ok_and(|wrong| wrong.is_none())
    }

    fn note(&self, what: String) {
        if let Ok(mut wrong) = self.wrong.lock() {
            wrong.get_or_insert(what);
        }
    }
}

/// Puts a model on a device.
///
/// # Errors
/// If the kernels cannot be compiled, or memory cannot be had.
pub fn on_device<M: Model<Input: Sync> + Clone + Send + Sync + 'static>(
    model: M,
    parameters: &Parameters,
    mini_batches: Vec<Vec<M::Input>>,
    way: &Way<'_>,
) -> Result<Box<dyn OnDevice>, Failure> {
    let program = way.kernels.program(model.network())?;
    let options = way.kernels.options().min_blocks(way.fewest_blocks);
    let backend = way.target.load(&program, parameters, &options)?;
    let options = EngineOptions::new().threads(way.parts);
    let mut engine = Engine::with_backend(model, parameters, program, backend, options)?;
    let others = (1..way.engines).map(|_| engine.fork()).collect();
    Ok(Box::new(Running { engine, others, mini_batches, outputs: Vec::new() }))
}

struct Running<M: Model> {
    engine: Engine<M>,
    others: Vec<Engine<M>>,
    mini_batches: Vec<Vec<M::Input>>,
    outputs: Vec<Rows>,
}

impl<M: Model<Input: Sync> + Send + Sync> OnDevice for Running<M> {
    fn run(&mut self, mini_batch: usize) -> Result<&[Rows], RunError> {
        self.engine.run_into(&self.mini_batches[mini_batch], &mut self.outputs)?;
        Ok(&self.outputs)
    }

    fn run_side_by_side(&mut self, count: usize) -> Result<f64, RunError> {
        let (mini_batches, next) = (&self.mini_batches, AtomicUsize::new(0));
        let work = |engine: &mut Engine<M>, outputs: &mut Vec<Rows>| -> Result<(), RunError> {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= count {
                    return Ok(());
                }
                engine.run_into(&mini_batches[index % mini_batches.len()], outputs)?;
            }
        };
        let began = Instant::now();
        thread::scope(|scope| {
            let other = |engine| scope.spawn(|| work(engine, &mut Vec::new()));
            let others: Vec<_> = self.others.iter_mut().map(other).collect();
            let own = work(&mut self.engine, &mut self.outputs);
            let join = |other: thread::ScopedJoinHandle<'_, _>| other.join().expect("no panic");
            others.into_iter().map(join).fold(own, Result::and)
        })?;
        Ok(began.elapsed().as_secs_f64())
    }

    fn stress<'s>(
        &'s mut self,
        scope: &'s thread::Scope<'s, '_>,
        expected: &'s [Vec<Rows>],
        stress: &'s Stress,
    ) {
        let Self { engine, others, mini_batches, .. } = self;
        let mini_batches: &'s [Vec<M::Input>] = mini_batches;
        for (first, engine) in others.iter_mut().chain([engine]).enumerate() {
            scope.spawn(move || {
                let mut outputs = Vec::new();
                for index in (first..).map(|index| index % mini_batches.len()) {
                    if !stress.goes_on() {
                        break;
                    }
                    if let Err(error) = engine.run_into(&mini_batches[index], &mut outputs) {
                        return stress.note(error.to_string());
                    }
                    if !same_bits(&outputs, &expected[index]) {
                        return stress.note(format!("mini-batch {index} has other bits"));
                    }
                    stress.plans.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    }

    fn statistics(&self) -> Statistics {
        *self.engine.statistics()
    }
}

/// Whether results have the same bits; those of one NaN are as good as another's.
#[must_use]
pub fn same_bits(got: &[Rows], expected: &[Rows]) -> bool {
    let bits = |&x: &f32| if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() };
    let words = |rows: &[Rows]| -> Vec<Vec<u32>> {
        rows.iter().map(|rows| rows.iter().flatten().map(bits).collect()).collect()
    };
    words(got) == words(expected)
}

/// The largest difference between results; infinite where there are other elements, or a NaN.
#[must_use]
pub fn difference(got: &[Rows], expected: &[Rows]) -> f64 {
    let elements = |rows: &[Rows]| -> Vec<f32> {
        rows.iter().flat_map(Rows::iter).flatten().copied().collect()
    };
    let (got, expected) = (elements(got), elements(expected));
    if got.len() != expected.len() {
        return f64::INFINITY;
    }
    let differences = got.iter().zip(&expected).map(|(&got, &expected)| {
        let difference = f64::from((got - expected).abs());
        if difference.is_nan() { f64::INFINITY } else { difference }
    });
    differences.fold(0.0, f64::max)
}
