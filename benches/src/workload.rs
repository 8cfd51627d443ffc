//! A workload: a model on a set of inputs, and the contestants that run it, as trait objects.

use std::mem;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use edbatch::{Engine, EngineOptions, Rows, RunError, Statistics, interpret};
use edbatch_graph::{Dag, Network, Schedule};
use edbatch_layout::{Lifetimes, Plan, Planner, Program, Want};
use edbatch_models::Model;
use edbatch_policy::{Fsm, Scheduler, lower_bound};
use edbatch_runtime::{Parameters, Profile, gathered_bytes};

use crate::backends::BackendName;
use crate::flops::{executed_flops, flops};
#[cfg(feature = "cuda")]
use crate::gpu::on_device::{OnDevice, Way, on_device};
use crate::live::live_bytes;
use crate::sets::Set;
use crate::soak::{AnyInstances, OnAnyInstances};
use crate::systems::System;
use crate::unrolled::{Unrolled, unroll};
use crate::vanilla::Vanilla;

/// Which part of a set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// To learn policies on.
    Train,
    /// To measure on.
    Test,
}

/// Consecutive instances of a part; behind its last comes its first again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MiniBatch {
    /// The first instance.
    pub first: usize,
    /// How many there are.
    pub size: usize,
}

impl MiniBatch {
    /// `count` mini-batches at equal distances. They overlap where there are too few instances.
    #[must_use]
    pub fn spread(instances: usize, size: usize, count: usize) -> Vec<Self> {
        (0..count).map(|i| Self { first: i * instances / count, size }).collect()
    }

    fn of<I: Clone>(self, instances: &[I]) -> Vec<I> {
        instances.iter().cycle().skip(self.first).take(self.size).cloned().collect()
    }
}

/// A model of some size, on a set of inputs.
pub trait Workload {
    /// The cells.
    fn network(&self) -> &Arc<Network>;

    /// How many instances a part has.
    fn instances(&self, part: Part) -> usize;

    /// The graphs of a mini-batch.
    fn unroll(&self, part: Part, mini_batch: MiniBatch) -> Vec<Unrolled>;

    /// Something that runs these mini-batches of the part to measure on.
    ///
    /// # Errors
    /// If a cell is too large to be addressed.
    fn contestant(
        &self,
        system: System,
        parameters: &Parameters,
        learned: &Fsm,
        mini_batches: &[MiniBatch],
        threads: usize,
    ) -> Result<Box<dyn Contestant>, Failure>;

    /// An engine that runs any instances of the part to measure on.
    ///
    /// # Errors
    /// If a cell is too large to be addressed.
    fn any_instances(
        &self,
        parameters: Parameters,
        options: EngineOptions,
    ) -> Result<Box<dyn AnyInstances>, Failure>;

    /// The results of a mini-batch of the part to measure on, node by node.
    ///
    /// # Errors
    /// If an input does not fit the model.
    fn interpret(
        &self,
        parameters: &Parameters,
        mini_batch: MiniBatch,
    ) -> Result<Vec<Rows>, Failure>;

    /// The model on a device, with these mini-batches of the part to measure on.
    ///
    /// # Errors
    /// If its kernels cannot be compiled, or memory cannot be had.
    #[cfg(feature = "cuda")]
    fn on_device(
        &self,
        parameters: &Parameters,
        mini_batches: &[MiniBatch],
        way: &Way<'_>,
    ) -> Result<Box<dyn OnDevice>, Failure>;
}

/// One way to run a workload, with the mini-batches that it runs.
pub trait Contestant {
    /// Runs a mini-batch.
    ///
    /// # Errors
    /// If an input does not fit the model, or the mini-batch is too large.
    fn run(&mut self, mini_batch: usize) -> Result<&[Rows], RunError>;

    /// Runs mini-batches; `each` takes the number of every one and its seconds, which together are
    /// those that all took.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    fn run_all(
        &mut self,
        mini_batches: &[usize],
        each: &mut dyn FnMut(usize, f64),
    ) -> Result<(), RunError>;

    /// Where the time of its steps goes, once it is switched on.
    fn profile(&self) -> &Profile;

    /// What all runs so far took.
    fn statistics(&self) -> Statistics;

    /// What it would do for a mini-batch, counted and not run.
    fn counts(&self, mini_batch: usize) -> Counts;
}

/// What running mini-batches comes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Multiply-adds of products of the equations, times two.
    pub flops: u64,
    /// Those that its plans execute.
    pub executed_flops: u64,
    /// Nodes of all graphs.
    pub nodes: u64,
    /// Batches of all schedules.
    pub batches: u64,
    /// The lower bound on those of the mini-batch, if it is not divided.
    pub bound: u64,
    /// The most bytes of values that are alive at once, weights apart.
    pub live_bytes: u64,
    /// Rows of values that are read through lists, and not as spans.
    pub gathered_rows: u64,
    /// Bytes that are read through lists, rows of tables among them.
    pub gathered_bytes: u64,
}

/// Why something cannot be measured.
pub type Failure = Box<dyn std::error::Error>;

/// A model on a set.
pub struct On<M: Model> {
    model: M,
    train: Rc<Vec<M::Input>>,
    test: Rc<Vec<M::Input>>,
}

impl<M: Model> On<M> {
    /// A model on a set.
    #[must_use]
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

impl<M: Model<Input: Clone + Sync> + Clone + Send + Sync + 'static> Workload for On<M> {
    fn network(&self) -> &Arc<Network> {
        self.model.network()
    }

    fn instances(&self, part: Part) -> usize {
        self.part(part).len()
    }

    fn unroll(&self, part: Part, mini_batch: MiniBatch) -> Vec<Unrolled> {
        unroll(&self.model, &mini_batch.of(self.part(part))).expect("sets fit their models")
    }

    fn contestant(
        &self,
        system: System,
        parameters: &Parameters,
        learned: &Fsm,
        mini_batches: &[MiniBatch],
        threads: usize,
    ) -> Result<Box<dyn Contestant>, Failure> {
        let inputs = mini_batches.iter().map(|mini_batch| mini_batch.of(&self.test)).collect();
        let model = self.model.clone();
        Ok(if system.is_vanilla() {
            let model = Vanilla::new(model)?;
            Box::new(Running::new(model, system, parameters, learned, inputs, threads)?)
        } else {
            Box::new(Running::new(model, system, parameters, learned, inputs, threads)?)
        })
    }

    fn any_instances(
        &self,
        parameters: Parameters,
        options: EngineOptions,
    ) -> Result<Box<dyn AnyInstances>, Failure> {
        let (model, set) = (self.model.clone(), self.test.clone());
        Ok(Box::new(OnAnyInstances::new(model, set, parameters, options)?))
    }

    fn interpret(
        &self,
        parameters: &Parameters,
        mini_batch: MiniBatch,
    ) -> Result<Vec<Rows>, Failure> {
        Ok(interpret(&self.model, parameters, &mini_batch.of(&self.test))?.outputs)
    }

    #[cfg(feature = "cuda")]
    fn on_device(
        &self,
        parameters: &Parameters,
        mini_batches: &[MiniBatch],
        way: &Way<'_>,
    ) -> Result<Box<dyn OnDevice>, Failure> {
        let inputs = mini_batches.iter().map(|mini_batch| mini_batch.of(&self.test)).collect();
        on_device(self.model.clone(), parameters, inputs, way)
    }
}

struct Running<M: Model> {
    engine: Engine<M>,
    /// Engines on other threads, each of which runs whole mini-batches.
    others: Vec<Engine<M>>,
    /// How many threads run a mini-batch.
    inside: usize,
    profile: Arc<Profile>,
    program: Program,
    system: System,
    learned: Fsm,
    inputs: Vec<Vec<M::Input>>,
    outputs: Vec<Rows>,
}

impl<M: Model + Clone> Running<M> {
    fn new(
        model: M,
        system: System,
        parameters: &Parameters,
        learned: &Fsm,
        inputs: Vec<Vec<M::Input>>,
        threads: usize,
    ) -> Result<Self, Failure> {
        let across = system == System::Across;
        let program = system.program(model.network())?;
        let inside = if across { 1 } else { threads };
        let (mut engine, profile) = system.engine(model, parameters, learned, inside)?;
        let others = (1..if across { threads } else { 1 }).map(|_| engine.fork()).collect();
        let (learned, outputs) = (learned.clone(), Vec::new());
        Ok(Self { engine, others, inside, profile, program, system, learned, inputs, outputs })
    }
}

impl<M: Model<Input: Sync> + Send + Sync> Contestant for Running<M> {
    fn run(&mut self, mini_batch: usize) -> Result<&[Rows], RunError> {
        let (inputs, outputs) = (&self.inputs[mini_batch], &mut self.outputs);
        if self.system.divides() || self.inside > 1 {
            self.engine.run_into(inputs, outputs)?;
        } else {
            // Others' methods batch the whole mini-batch, as a stream of that width does.
            outputs.resize_with(inputs.len(), Rows::new);
            let mut failed = None;
            self.engine.stream(inputs.len(), inputs, |instance, rows| match rows {
                Ok(rows) => mem::swap(&mut outputs[instance], rows),
                Err(error) => failed = failed.take().or(Some(RunError::Input { instance, error })),
            })?;
            failed.map_or(Ok(()), Err)?;
        }
        Ok(&self.outputs)
    }

    fn run_all(
        &mut self,
        mini_batches: &[usize],
        each: &mut dyn FnMut(usize, f64),
    ) -> Result<(), RunError> {
        if self.others.is_empty() {
            for &mini_batch in mini_batches {
                let started = Instant::now();
                self.run(mini_batch)?;
                each(mini_batch, started.elapsed().as_secs_f64());
            }
            return Ok(());
        }
        let (inputs, next) = (&self.inputs, AtomicUsize::new(0));
        let work = |engine: &mut Engine<M>, outputs: &mut Vec<Rows>| {
            while let Some(&mini_batch) = mini_batches.get(next.fetch_add(1, Ordering::Relaxed)) {
                engine.run_into(&inputs[mini_batch], outputs)?;
            }
            Ok(())
        };
        let started = Instant::now();
        let results: Result<(), RunError> = thread::scope(|scope| {
            let other = |engine| scope.spawn(|| work(engine, &mut Vec::new()));
            let others: Vec<_> = self.others.iter_mut().map(other).collect();
            let own = work(&mut self.engine, &mut self.outputs);
            let join = |other: thread::ScopedJoinHandle<'_, _>| other.join().expect("no panic");
            others.into_iter().map(join).fold(own, Result::and)
        });
        // Mini-batches overlap in time, so none has a time of its own: each gets its share.
        let seconds = started.elapsed().as_secs_f64() / mini_batches.len() as f64;
        mini_batches.iter().for_each(|&mini_batch| each(mini_batch, seconds));
        results
    }

    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn statistics(&self) -> Statistics {
        // Memory is not added: what `peak_bytes` says is that of one engine.
        let mut all = *self.engine.statistics();
        for other in self.others.iter().map(Engine::statistics) {
            all.nodes += other.nodes;
            all.construct += other.construct;
            all.schedule += other.schedule;
            all.plan += other.plan;
            all.execute += other.execute;
        }
        all
    }

    fn counts(&self, mini_batch: usize) -> Counts {
        let inputs = &self.inputs[mini_batch];
        // As an engine does by default: a device has few waves, a core few batches.
        let (usual, mut planner) = match self.system.backend() {
            BackendName::Cpu => (Scheduler::default(), Planner::default()),
            BackendName::Cuda => (Scheduler::by_depth(), Planner::new(Lifetimes::Distinct)),
        };
        let mut scheduler = self.system.policy(&self.learned).map_or(usual, Scheduler::by);
        let (mut schedule, mut plan) = (Schedule::new(), Plan::default());
        let mut counts = Counts::default();
        let mut live_of_parts = Vec::new();
        let whole = || std::iter::once(0..inputs.len()).collect();
        let divides = self.system.divides() || self.inside > 1;
        let parts = if divides { self.engine.parts(inputs) } else { whole() };
        for part in parts {
            let mut live = 0;
            let unrolled =
                unroll(self.engine.model(), &inputs[part]).expect("sets fit their models");
            // The graphs of a part run one after the other, so the largest counts for memory.
            for Unrolled { graph, wanted } in unrolled {
                scheduler.schedule(&graph, &mut schedule);
                counts.flops += flops(&graph);
                counts.nodes += graph.nodes() as u64;
                counts.batches += schedule.len() as u64;
                live = live.max(live_bytes(&graph, &schedule, &wanted));
                let (program, graph, schedule) = (&self.program, &graph, &schedule);
                let wanted: Vec<_> =
                    wanted.into_iter().map(|value| (value, Want::Elements)).collect();
                let planned =
                    edbatch_layout::MiniBatch { program, graph, schedule, wanted: &wanted };
                planner.plan(&planned, &mut plan).expect("it has been run");
                counts.gathered_rows += plan.lists.len() as u64;
                counts.gathered_bytes += gathered_bytes(program, &plan);
                counts.executed_flops += executed_flops(program, &plan);
            }
            live_of_parts.push(live);
        }
        let whole = unroll(self.engine.model(), inputs).expect("sets fit their models");
        counts.bound = whole.iter().map(|whole| lower_bound(&whole.graph) as u64).sum();
        // As many parts are alive at once as threads run some.
        live_of_parts.sort_unstable_by(|a, b| b.cmp(a));
        counts.live_bytes = live_of_parts.iter().take(self.inside).sum();
        counts
    }
}
