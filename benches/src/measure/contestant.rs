//! An engine of a system, with the mini-batches that it runs.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use edbatch::models::Model;
use edbatch::{Engine, Rows, RunError, Statistics};
use edbatch_graph::{Dag, Schedule};
use edbatch_layout::{Lifetimes, MiniBatch, Plan, Planner, Program, Want};
use edbatch_policy::{Fsm, Scheduler, lower_bound};
use edbatch_runtime::{Count, KernelCounts, Parameters, Profile};

use crate::Failure;
use crate::measure::flops::{executed_flops, flops};
use crate::measure::live::live_bytes;
use crate::measure::systems::{Setup, System};
use crate::measure::unrolled::{Unrolled, unroll};

/// An engine of a system, with the mini-batches that it runs.
pub trait Contestant: Send {
    /// Runs a mini-batch.
    fn run(&mut self, mini_batch: usize) -> Result<&[Rows], RunError>;

    /// Runs the instances with these numbers as one mini-batch.
    fn run_instances(&mut self, instances: &[usize]) -> Result<&[Rows], RunError>;

    /// Runs mini-batches. Calls `each` with the number and the seconds of every mini-batch; these
    /// seconds add up to the time of the whole call.
    fn run_all(
        &mut self,
        mini_batches: &[usize],
        each: &mut dyn FnMut(usize, f64),
    ) -> Result<(), RunError>;

    /// Makes an engine for another thread, with the same mini-batches.
    fn fork(&mut self) -> Box<dyn Contestant>;

    /// Returns the profile that times steps while it is switched on.
    fn profile(&self) -> &Profile;

    /// Returns the statistics of all runs so far.
    fn statistics(&self) -> Statistics;

    /// Counts the work of a mini-batch without running it.
    fn work(&self, mini_batch: usize) -> Work;
}

/// The work of a mini-batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Work {
    /// FLOPs of the matrix products in the equations: two for each multiply-add.
    pub flops: u64,
    /// FLOPs that the plans execute.
    pub executed_flops: u64,
    /// Nodes of all graphs.
    pub nodes: u64,
    /// Batches, kernels and bytes of all plans.
    pub counts: KernelCounts,
    /// Lower bound on the batches of the undivided mini-batch.
    pub bound: u64,
    /// Peak bytes of live values, without weights.
    pub live_bytes: u64,
    /// Rows of values read through lists of indices.
    pub gathered_rows: u64,
}

/// A contestant for a model.
pub struct Running<M: Model> {
    engine: Engine<M>,
    /// Engines of the other threads, each for whole mini-batches.
    others: Vec<Engine<M>>,
    /// Threads that share a mini-batch.
    inside: usize,
    profile: Arc<Profile>,
    program: Arc<Program>,
    system: System,
    learned: Fsm,
    set: Arc<Vec<M::Input>>,
    mini_batches: Arc<Vec<Vec<M::Input>>>,
    drawn: Vec<M::Input>,
    outputs: Vec<Rows>,
}

impl<M: Model + Clone> Running<M> {
    /// Makes the engines of a system. `set` holds the instances for [`Contestant::run_instances`].
    pub fn new(
        model: M,
        setup: &Setup<'_>,
        parameters: &Parameters,
        set: Arc<Vec<M::Input>>,
        mini_batches: Vec<Vec<M::Input>>,
    ) -> Result<Self, Failure> {
        let system = setup.system;
        let program = Arc::new(system.program(model.network())?);
        let (engine, profile) = setup.engine(model, parameters)?;
        let engines = if system.is_across() { setup.threads } else { 1 };
        Ok(Self {
            others: (1..engines).map(|_| engine.fork()).collect(),
            engine,
            inside: setup.threads_inside(),
            profile,
            program,
            system,
            learned: setup.learned.clone(),
            set,
            mini_batches: Arc::new(mini_batches),
            drawn: Vec::new(),
            outputs: Vec::new(),
        })
    }
}

impl<M> Contestant for Running<M>
where
    M: Model<Input: Clone + Send + Sync> + Clone + Send + Sync + 'static,
{
    fn run(&mut self, mini_batch: usize) -> Result<&[Rows], RunError> {
        let (inputs, outputs) = (&self.mini_batches[mini_batch], &mut self.outputs);
        if self.system.divides() || self.inside > 1 {
            self.engine.run_into(inputs, outputs)?;
        } else {
            // The other methods batch the whole mini-batch, like a stream whose width is its size.
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

    fn run_instances(&mut self, instances: &[usize]) -> Result<&[Rows], RunError> {
        self.drawn.clear();
        self.drawn.extend(instances.iter().map(|&instance| self.set[instance].clone()));
        self.engine.run_into(&self.drawn, &mut self.outputs)?;
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
        let (inputs, next) = (&*self.mini_batches, AtomicUsize::new(0));
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
        // Mini-batches overlap in time, so each is given an equal share.
        let seconds = started.elapsed().as_secs_f64() / mini_batches.len() as f64;
        mini_batches.iter().for_each(|&mini_batch| each(mini_batch, seconds));
        results
    }

    fn fork(&mut self) -> Box<dyn Contestant> {
        Box::new(Self {
            engine: self.engine.fork(),
            others: Vec::new(),
            inside: self.inside,
            profile: self.profile.clone(),
            program: self.program.clone(),
            system: self.system,
            learned: self.learned.clone(),
            set: self.set.clone(),
            mini_batches: self.mini_batches.clone(),
            drawn: Vec::new(),
            outputs: Vec::new(),
        })
    }

    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn statistics(&self) -> Statistics {
        // Memory is not added up: `peak_bytes` is reported for one engine.
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

    fn work(&self, mini_batch: usize) -> Work {
        let inputs = &self.mini_batches[mini_batch];
        // An engine's defaults: few waves for a device, few batches for a core.
        let (usual, mut planner) = match self.system.on_cuda() {
            None => (Scheduler::default(), Planner::default()),
            Some(_) => (Scheduler::by_depth(), Planner::new(Lifetimes::Distinct)),
        };
        let mut scheduler = self.system.policy(&self.learned).map_or(usual, Scheduler::by);
        let (mut schedule, mut plan) = (Schedule::new(), Plan::default());
        let mut work = Work::default();
        let mut count = Count::new(self.program.clone());
        let mut live_of_parts = Vec::new();
        let whole = || std::iter::once(0..inputs.len()).collect();
        let divides = self.system.divides() || self.inside > 1;
        let parts = if divides { self.engine.parts(inputs) } else { whole() };
        for part in parts {
            let mut live = 0;
            let unrolled =
                unroll(self.engine.model(), &inputs[part], 1).expect("sets fit their models");
            // The graphs of a part run one by one, so the largest determines the memory.
            for Unrolled { graph, wanted } in unrolled {
                scheduler.schedule(&graph, &mut schedule);
                work.flops += flops(&graph);
                work.nodes += graph.nodes() as u64;
                live = live.max(live_bytes(&graph, &schedule, &wanted));
                let (program, graph, schedule) = (&self.program, &graph, &schedule);
                let wanted: Vec<_> =
                    wanted.into_iter().map(|value| (value, Want::Elements)).collect();
                let planned = MiniBatch { program, graph, schedule, wanted: &wanted };
                planner.plan(&planned, &mut plan).expect("it has been run");
                work.gathered_rows += plan.lists.len() as u64;
                (0..plan.steps.len()).for_each(|step| count.step(&plan, step));
                work.executed_flops += executed_flops(program, &plan);
            }
            live_of_parts.push(live);
        }
        work.counts = count.counts();
        let whole = unroll(self.engine.model(), inputs, 1).expect("sets fit their models");
        work.bound = whole.iter().map(|whole| lower_bound(&whole.graph) as u64).sum();
        // Each thread holds one part at a time.
        live_of_parts.sort_unstable_by(|a, b| b.cmp(a));
        work.live_bytes = live_of_parts.iter().take(self.inside).sum();
        work
    }
}
