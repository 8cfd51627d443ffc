//! Decides how one graph runs: schedules its nodes, and plans the memory of its values.

use std::time::Instant;

use edbatch_graph::{Dag, Graph, Schedule, Value};
use edbatch_layout::{Lifetimes, MiniBatch, Plan, Planner, Program, Want};
use edbatch_policy::{Scheduler, lower_bound};
use edbatch_runtime::{Backend, gathered_bytes, span, try_memory};

use crate::statistics::Tally;
use crate::{EngineOptions, RunError};

/// The scheduler, the planner and the schedule of one part of a mini-batch, for engines and
/// trainers. The memory is kept for the next mini-batch.
#[derive(Default)]
pub(crate) struct Decision {
    pub(crate) scheduler: Scheduler,
    schedule: Schedule,
    planner: Planner,
    lifetimes: Lifetimes,
    memory_limit: Option<u64>,
    /// An upper bound on the memory for the lists of a graph, in bytes per node.
    list_bytes: usize,
    /// The largest trial allocation so far, in bytes.
    listed: usize,
    /// The counts and times of the current run, or of the last one.
    pub(crate) tally: Tally,
}

impl Decision {
    /// Takes the policy of the options. The lists of a graph, such as its schedule and its plan,
    /// need at most `list_bytes` bytes per node.
    pub(crate) fn new(
        options: &mut EngineOptions,
        lifetimes: Lifetimes,
        list_bytes: usize,
    ) -> Self {
        let scheduler = match (options.policy.take(), lifetimes) {
            (Some(policy), _) => Scheduler::by(policy),
            (None, Lifetimes::Reuse) => Scheduler::default(),
            // Batches of a wave run concurrently, so the number of waves counts.
            (None, Lifetimes::Distinct) => Scheduler::by_depth(),
        };
        let (memory_limit, tally) = (options.memory_limit, Tally::new(options.counts));
        let planner = Planner::new(lifetimes);
        Self { scheduler, planner, lifetimes, memory_limit, list_bytes, tally, ..Self::default() }
    }

    /// Returns a decision by the same policy, for another part of a mini-batch.
    pub(crate) fn fork(&self) -> Self {
        let Self { lifetimes, memory_limit, list_bytes, .. } = *self;
        let (scheduler, tally) = (self.scheduler.fork(), self.tally.cleared());
        let planner = Planner::new(lifetimes);
        Self { scheduler, planner, lifetimes, memory_limit, list_bytes, tally, ..Self::default() }
    }

    /// Fails if there is no memory for the lists of a graph. Schedulers and planners cannot report
    /// a failed allocation, so this tries one of their size.
    pub(crate) fn try_lists(&mut self, graph: &Graph) -> Result<(), RunError> {
        let bytes = self.list_bytes * graph.nodes();
        if bytes > self.listed {
            try_memory(bytes, "the schedule and the plan of a mini-batch")?;
            self.listed = bytes;
        }
        Ok(())
    }

    /// Schedules a graph, and calls `plan` to plan the memory of its values.
    pub(crate) fn decide(
        &mut self,
        program: &Program,
        graph: &Graph,
        wanted: &[(Value, Want)],
        plan: impl FnOnce(&mut Planner, &MiniBatch<'_>) -> Result<(), RunError>,
    ) -> Result<(), RunError> {
        self.try_lists(graph)?;
        let Self { scheduler, schedule, planner, tally, .. } = self;
        let scheduling = Instant::now();
        {
            let _stage = span!(DEBUG, "schedule", nodes = graph.nodes() as u64);
            scheduler.schedule(graph, schedule);
        }
        tally.statistics.schedule += scheduling.elapsed();
        let _stage = span!(DEBUG, "plan");
        let planning = Instant::now();
        plan(planner, &MiniBatch { program, graph, schedule, wanted })?;
        tally.statistics.plan += planning.elapsed();
        Ok(())
    }

    /// Returns true if there is a memory limit.
    pub(crate) fn has_memory_limit(&self) -> bool {
        self.memory_limit.is_some()
    }

    /// Rejects plans that need more memory than the limit: `values` bytes for their values.
    pub(crate) fn check_memory(&self, values: u64, backend: &dyn Backend) -> Result<(), RunError> {
        let Some(limit) = self.memory_limit else { return Ok(()) };
        let weights = backend.bytes().weights as u64;
        match values + weights > limit {
            true => Err(RunError::Memory { values, weights, limit }),
            false => Ok(()),
        }
    }

    /// Returns a decision without a memory limit or counts, for a session.
    pub(crate) fn for_session(&self) -> Self {
        Self { memory_limit: None, tally: Tally::default(), ..self.fork() }
    }

    /// Returns the number of batches of the graph that was decided last.
    pub(crate) fn batches(&self) -> usize {
        self.schedule.len()
    }

    /// Adds the graph that was decided last, and its plans, to the counts.
    pub(crate) fn count(&mut self, program: &Program, graph: &Graph, plans: &[&Plan]) {
        let Tally { statistics, report, .. } = &mut self.tally;
        statistics.nodes += graph.nodes() as u64;
        statistics.graphs += 1;
        statistics.batches += self.schedule.len() as u64;
        statistics.unseen += self.scheduler.unseen().unwrap_or(0) as u64;
        if let (Some(counts), Some(report)) = (&mut statistics.counts, report) {
            counts.bound += lower_bound(graph) as u64;
            let gathered = plans.iter().map(|plan| gathered_bytes(program, plan));
            counts.gathered_bytes += gathered.sum::<u64>();
            report.add(graph, &self.schedule);
        }
    }
}
