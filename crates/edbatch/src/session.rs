//! One thread's loop over its inputs: wire them into a graph, schedule it, plan it, run the plan
//! and read the results; again while an input awaits a value.

use std::borrow::Borrow;
use std::cell::RefCell;
use std::sync::Arc;
use std::time::Instant;

use edbatch_graph::{Dag, Graph, Schedule, Value};
use edbatch_layout::{Capacity, MiniBatch, Plan, Planner, Program, Want};
use edbatch_models::Model;
use edbatch_policy::{AnyPolicy, Sample, Scheduler, lower_bound};
use edbatch_runtime::{
    Backend, BackendError, Given, Outputs, Parameters, Parts, Rows, gathered_bytes, span,
};

use crate::emitted::{Emitted, Results, Sink};
use crate::finite::{Calls, with_every_call};
use crate::plan_cache::PlanCache;
use crate::statistics::Tally;
use crate::wiring::{Round, Wiring};
use crate::{EngineOptions, InputError, RunError};

/// A backend, with all that deciding what it runs needs. Memory is kept from one mini-batch to the
/// next.
pub(crate) struct Session {
    program: Arc<Program>,
    backend: Box<dyn Backend>,
    /// The network's initial values.
    initial: Rows,
    scheduler: Scheduler,
    schedule: Schedule,
    planner: Planner,
    plan: Plan,
    cache: Option<PlanCache>,
    memory_limit: Option<u64>,
    /// The graph that ran last, for its memory.
    graph: Option<Graph>,
    /// What the run at hand took, or the last one.
    tally: Tally,
    /// The time of each batch, if it is to be measured.
    samples: Option<Vec<Sample>>,
    /// The weights, if calls are looked at for what is not finite.
    weights: Option<Parameters>,
}

impl Session {
    pub(crate) fn new(
        program: Arc<Program>,
        backend: Box<dyn Backend>,
        initial: Rows,
        options: &EngineOptions,
    ) -> Self {
        let planner = backend.planner();
        // A device is paid in waves, a core in batches.
        let scheduler =
            if planner.is_for_waves() { Scheduler::for_waves() } else { Scheduler::default() };
        Self {
            program,
            backend,
            initial,
            scheduler,
            schedule: Schedule::default(),
            planner,
            plan: Plan::default(),
            cache: (options.plan_cache > 0)
                .then(|| PlanCache::new(options.plan_cache / options.threads)),
            memory_limit: options.memory_limit,
            graph: None,
            tally: Tally::new(options.counts),
            samples: None,
            weights: None,
        }
    }

    /// Another session on the same weights, with a policy of its own.
    pub(crate) fn another(&self, options: &EngineOptions) -> Self {
        self.on(self.backend.another(), options)
    }

    /// The same for another engine.
    pub(crate) fn of_another_engine(&self, options: &EngineOptions) -> Self {
        self.on(self.backend.of_another_engine(), options)
    }

    fn on(&self, backend: Box<dyn Backend>, options: &EngineOptions) -> Self {
        let mut another = Self::new(self.program.clone(), backend, self.initial.clone(), options);
        another.scheduler = self.scheduler.another();
        another.weights.clone_from(&self.weights);
        another
    }

    /// Fails inputs whose calls make something that is not finite; the weights say why.
    pub(crate) fn check_finite(&mut self, weights: Parameters) {
        self.weights = Some(weights);
    }

    /// Runs inputs, at most `width` of them at a time: when one ends, the next joins the others.
    /// `sink` takes what each of them emits, or why it failed; `still_wanted` is asked before each
    /// round whether an input is still to go on.
    pub(crate) fn run<M: Model, I: Borrow<M::Input>, E: Emitted>(
        &mut self,
        model: &M,
        width: usize,
        inputs: impl IntoIterator<Item = I>,
        sink: &mut impl Sink<E>,
        still_wanted: &dyn Fn(usize) -> bool,
    ) -> Result<(), RunError> {
        // Of this run alone: what fails on the way is forgotten with it.
        self.tally.clear();
        // Wiring writes the graph and the session reads it, in turns.
        let graph = RefCell::new(self.take_graph());
        let round = Round::new::<E>(&graph, width, inputs, still_wanted);
        let mut wiring = Wiring::new(&round, |wirer| round.wire(model, wirer));
        // How many rows the graph before left in the backend, for this one's given values.
        let mut stayed = 0;
        loop {
            let _round = span!(DEBUG, "round");
            let wiring_began = Instant::now();
            let wired = {
                let _stage = span!(DEBUG, "construct");
                wiring.advance()
            };
            self.tally.statistics.construct += wiring_began.elapsed();
            if !wired {
                break;
            }
            let wanted = round.wanted();
            let with_calls =
                self.weights.is_some().then(|| with_every_call(&wanted, &graph.borrow()));
            self.schedule(&graph.borrow(), with_calls.as_deref().unwrap_or(&wanted))?;
            self.execute(&graph.borrow(), stayed, &round.given())?;
            let _stage = span!(DEBUG, "read");
            let reading = Instant::now();
            let outputs = self.backend.outputs(&self.plan)?;
            if let Some(weights) = &self.weights {
                let calls = Calls { graph: &graph.borrow(), weights, host: &round.given() };
                wiring.fail_where(|nodes, before| {
                    calls.not_finite(nodes, before, |node| {
                        outputs.fields(wanted.len() + node).map(|field| field.iter().copied())
                    })
                });
            }
            stayed = wiring.read(&outputs, sink)?;
            self.tally.statistics.execute += reading.elapsed();
        }
        self.tally.statistics.instances += round.begun() as u64;
        // The futures borrow the graph, whose memory the next run takes again.
        drop(wiring);
        self.graph = Some(graph.into_inner());
        Ok(())
    }

    /// The graphs of inputs: one, and another one for each time that instances await values. Only
    /// graphs whose values are awaited are run.
    pub(crate) fn graphs<M: Model>(
        &mut self,
        model: &M,
        inputs: &[M::Input],
    ) -> Result<Vec<Graph>, RunError> {
        let mut graphs = Vec::new();
        let graph = RefCell::new(self.take_graph());
        let round = Round::new::<Rows>(&graph, inputs.len(), inputs, &|_| true);
        let mut wiring = Wiring::new(&round, |wirer| round.wire(model, wirer));
        let mut stayed = 0;
        while wiring.advance() {
            if let Some((instance, error)) = wiring.failed() {
                return Err(RunError::Input { instance, error });
            }
            graphs.push(graph.borrow().clone());
            if !wiring.waits() {
                break;
            }
            self.schedule(&graph.borrow(), &round.wanted())?;
            self.execute(&graph.borrow(), stayed, &round.given())?;
            let ignore = &mut |_: usize, _: Result<&mut Rows, InputError>| {};
            stayed = wiring.read(&self.backend.outputs(&self.plan)?, ignore)?;
        }
        Ok(graphs)
    }

    fn take_graph(&mut self) -> Graph {
        let network = self.program.network();
        self.graph.take().unwrap_or_else(|| Graph::new(network.clone()))
    }

    /// Decides in which batches a graph is run and where its values lie, or takes what was decided
    /// for an equal graph.
    fn schedule(&mut self, graph: &Graph, wanted: &[(Value, Want)]) -> Result<(), RunError> {
        if self.recall(graph, wanted) {
            return self.check_memory_limit();
        }
        let scheduling = Instant::now();
        {
            let _stage = span!(DEBUG, "schedule", nodes = graph.nodes() as u64);
            self.scheduler.schedule(graph, &mut self.schedule);
        }
        self.tally.statistics.schedule += scheduling.elapsed();

        let _stage = span!(DEBUG, "plan");
        let planning = Instant::now();
        let mini_batch =
            MiniBatch { program: &self.program, graph, schedule: &self.schedule, wanted };
        // A plan that is kept is for any rows of the tables.
        let capacity = if self.cache.is_some() { Capacity::Any } else { Capacity::Distinct };
        self.planner.plan(&mini_batch, capacity, &mut self.plan)?;
        if let Some(cache) = &mut self.cache {
            cache.insert(graph, wanted, &self.schedule, &self.plan);
        }
        self.tally.statistics.plan += planning.elapsed();
        self.check_memory_limit()
    }

    /// Takes the schedule and the plan of an equal graph from the cache; whether it has them.
    fn recall(&mut self, graph: &Graph, wanted: &[(Value, Want)]) -> bool {
        let Some(cache) = &mut self.cache else {
            return false;
        };
        let _stage = span!(DEBUG, "plan");
        let planning = Instant::now();
        let found = cache.get(graph, wanted).is_some_and(|entry| {
            let (program, schedule) = (&*self.program, &entry.schedule);
            let mini_batch = MiniBatch { program, graph, schedule, wanted };
            let fits = self.planner.refill(&mini_batch, &mut entry.plan);
            // Copies: the outputs are read by the plan after the cache may have dropped the entry.
            self.schedule.clone_from(&entry.schedule);
            self.plan.clone_from(&entry.plan);
            fits
        });
        self.tally.statistics.plans_reused += u64::from(found);
        self.tally.statistics.plan += planning.elapsed();
        found
    }

    /// Refuses a plan that takes more memory than is allowed.
    fn check_memory_limit(&self) -> Result<(), RunError> {
        let (values, weights) = (4 * self.plan.arena as u64, self.backend.bytes().weights as u64);
        match self.memory_limit {
            Some(limit) if values + weights > limit => {
                Err(RunError::Memory { values, weights, limit })
            }
            _ => Ok(()),
        }
    }

    /// Runs a graph as it was scheduled and planned, after one of which so many rows stayed; `host`
    /// are the elements of the values that the caller gives.
    fn execute(&mut self, graph: &Graph, stayed: usize, host: &[f32]) -> Result<(), RunError> {
        let given = Given { initial: &self.initial, stayed, host };
        let Tally { statistics, report } = &mut self.tally;
        let started = Instant::now();
        {
            let _stage = span!(DEBUG, "execute");
            self.backend.run(&self.plan, &given)?;
        }
        statistics.execute += started.elapsed();
        if let Some(samples) = &mut self.samples {
            // Each step once more, in the caches as the run has left them: its own time, without
            // that of reading its weights for the first time.
            for (index, step) in self.plan.steps.iter().enumerate() {
                let started = Instant::now();
                self.backend.step(&self.plan, index)?;
                let nanoseconds = started.elapsed().as_nanos() as f64;
                if step.is_batch() {
                    samples.push(Sample { kind: step.cell, nodes: step.calls, nanoseconds });
                }
            }
        }
        statistics.nodes += graph.nodes() as u64;
        statistics.graphs += 1;
        statistics.batches += self.schedule.len() as u64;
        if let (Some(counts), Some(report)) = (&mut statistics.counts, report) {
            counts.bound += lower_bound(graph) as u64;
            counts.gathered_bytes += gathered_bytes(&self.program, &self.plan);
            report.add(graph, &self.schedule);
        }
        Ok(())
    }

    /// What the run that ended last took.
    pub(crate) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Batches by another policy from now on; plans by the one before are forgotten.
    pub(crate) fn set_policy(&mut self, policy: AnyPolicy) {
        self.scheduler = Scheduler::by(policy);
        self.cache.iter_mut().for_each(PlanCache::clear);
    }

    /// Makes what runs from now on parts of mini-batches.
    pub(crate) fn join(&mut self, parts: &Arc<Parts>) {
        self.backend.join(parts);
    }

    pub(crate) fn backend(&self) -> &dyn Backend {
        &*self.backend
    }

    /// Begins to measure the time of each batch, or ends it; returns what was measured so far.
    pub(crate) fn measure(&mut self, on: bool) -> Vec<Sample> {
        std::mem::replace(&mut self.samples, on.then(Vec::new)).unwrap_or_default()
    }
}

impl Results for Outputs<'_> {
    fn append(&self, wanted: usize, elements: &mut Vec<f32>) -> Result<(), BackendError> {
        for field in self.fields(wanted) {
            elements.try_reserve(field.len()).map_err(|_| BackendError::Memory {
                what: "the rows that an input emits",
                bytes: 4 * (elements.len() + field.len()) as u64,
            })?;
            elements.extend_from_slice(field);
        }
        Ok(())
    }

    fn arg_max(&self, wanted: usize) -> u32 {
        Outputs::arg_max(self, wanted)
    }
}
