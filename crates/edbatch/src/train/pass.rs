//! The forward and the backward pass of a part of a mini-batch.

use std::cell::RefCell;
use std::ops::Range;
use std::time::Instant;

use edbatch_graph::{Dag, Graph, Schedule, Value};
use edbatch_layout::{MiniBatch, Planner, Program, TrainingPlan, Want};
use edbatch_models::{Mailbox, Model, Targets};
use edbatch_policy::{Scheduler, lower_bound};
use edbatch_runtime::{Given, Parameters, Rows, StillWanted, gathered_bytes, try_memory};

use super::dropout::Dropout;
use super::targets::{NO_TARGET, check_targets};
use super::wire::wire;
use crate::interpret::not_finite_call;
use crate::statistics::Tally;
use crate::{NotFiniteCall, RunError, TrainError};

/// The graph, the schedule and the plan of a part. The memory is kept for the next mini-batch.
pub(super) struct Pass {
    scheduler: Scheduler,
    schedule: Schedule,
    planner: Planner,
    pub(super) plan: TrainingPlan,
    graph: Option<Graph>,
    /// The graph with masks, if the model has dropout.
    masked: Option<Graph>,
    wanted: Vec<(Value, Want)>,
    /// For each wanted value: true if the loss depends on it.
    has_gradient: Vec<bool>,
    /// For each wanted value: its class, or [`NO_TARGET`].
    pub(super) targets: Vec<u32>,
    given: Vec<f32>,
    /// For each input of the part: the end of its wanted values, and the end of its given values.
    pub(super) ends: Vec<(usize, usize)>,
    /// For each input of the part: the end of its nodes.
    nodes: Vec<usize>,
    /// The largest trial allocation so far for masks, a schedule and a plan, in bytes.
    listed: usize,
    pub(super) tally: Tally,
}

/// An upper bound on the memory for masks, the schedule and the plans of a graph, in bytes per
/// node.
const LIST_BYTES: usize = 480;

impl Pass {
    pub(super) fn new(scheduler: Scheduler, counts: bool) -> Self {
        Self {
            scheduler,
            schedule: Schedule::default(),
            planner: Planner::default(),
            plan: TrainingPlan::default(),
            graph: None,
            masked: None,
            wanted: Vec::new(),
            has_gradient: Vec::new(),
            targets: Vec::new(),
            given: Vec::new(),
            ends: Vec::new(),
            nodes: Vec::new(),
            listed: 0,
            tally: Tally::new(counts),
        }
    }

    /// Wires, schedules and plans a part. With `targets`, the loss depends on the values that have
    /// a target; without, on all emitted values. Dropout depends on the `step`, and on the position
    /// of an input in the mini-batch: `first` and its index.
    pub(super) fn decide<M: Model>(
        &mut self,
        (program, still_wanted): (&Program, Option<&StillWanted>),
        model: &M,
        inputs: &[M::Input],
        (part, targets): (Range<usize>, Option<&[Targets]>),
        dropout: (&Dropout, u64, u64),
    ) -> Result<(), TrainError> {
        self.tally.clear();
        let started = Instant::now();
        self.wire(still_wanted, model, inputs, (part, targets), dropout)?;
        let statistics = &mut self.tally.statistics;
        statistics.construct += started.elapsed();
        let graph = self.masked.as_ref().or(self.graph.as_ref()).expect("just wired");
        let scheduling = Instant::now();
        self.scheduler.schedule(graph, &mut self.schedule);
        statistics.schedule += scheduling.elapsed();
        check_wanted(still_wanted)?;
        let planning = Instant::now();
        let mini_batch =
            MiniBatch { program, graph, schedule: &self.schedule, wanted: &self.wanted };
        let planned = self.planner.plan_training(&mini_batch, &self.has_gradient, &mut self.plan);
        planned.map_err(RunError::from)?;
        statistics.plan += planning.elapsed();
        self.count(program);
        Ok(())
    }

    /// Wires a part, without a schedule and a plan.
    pub(super) fn wire<M: Model>(
        &mut self,
        still_wanted: Option<&StillWanted>,
        model: &M,
        inputs: &[M::Input],
        (part, targets): (Range<usize>, Option<&[Targets]>),
        (dropout, step, first): (&Dropout, u64, u64),
    ) -> Result<(), TrainError> {
        let first = first + part.start as u64;
        let Self { wanted, has_gradient, targets: classes, given, ends, nodes, listed, .. } = self;
        let mut graph = self.graph.take().unwrap_or_else(|| Graph::new(model.network().clone()));
        graph.clear();
        wanted.clear();
        has_gradient.clear();
        classes.clear();
        given.clear();
        ends.clear();
        nodes.clear();
        let graph = RefCell::new(graph);
        let mut wired = Ok(());
        for input in part {
            let mailbox = RefCell::new(Mailbox::default());
            wired = check_wanted(still_wanted)
                .and_then(|()| wire(model, &inputs[input], &graph, &mailbox, input));
            if wired.is_err() {
                break;
            }
            let mailbox = mailbox.into_inner();
            let emitted = &mailbox.emitted;
            match targets {
                None => {
                    has_gradient.extend(emitted.iter().map(|_| true));
                    classes.extend(emitted.iter().map(|_| NO_TARGET));
                }
                Some(targets) => {
                    wired = check_targets(&graph.borrow(), emitted, &targets[input], input);
                    if wired.is_err() {
                        break;
                    }
                    has_gradient.extend(targets[input].iter().map(Option::is_some));
                    classes.extend(targets[input].iter().map(|class| class.unwrap_or(NO_TARGET)));
                }
            }
            wanted.extend(emitted.iter().map(|&value| (value, Want::Elements)));
            given.extend_from_slice(&mailbox.given);
            ends.push((wanted.len(), given.len()));
            nodes.push(graph.borrow().nodes());
        }
        self.tally.statistics.instances += ends.len() as u64;
        let graph = self.graph.insert(graph.into_inner());
        wired?;
        let bytes = LIST_BYTES * graph.nodes();
        if bytes > *listed {
            // Masks, schedulers and planners cannot report a failed allocation.
            let what = "the schedule and the plan of a mini-batch";
            try_memory(bytes, what).map_err(RunError::from)?;
            *listed = bytes;
        }
        if !dropout.is_none() {
            let masked = self.masked.get_or_insert_with(|| Graph::new(dropout.network.clone()));
            dropout.copy(graph, masked, nodes.iter().copied(), (step, first));
        }
        Ok(())
    }

    /// Returns the first call that produces a NaN or an infinity, by the reference interpreter.
    /// `weights` include the masks.
    pub(super) fn not_finite_call(&self, weights: &Parameters) -> Option<Box<NotFiniteCall>> {
        let graph = self.masked.as_ref().or(self.graph.as_ref())?;
        not_finite_call(graph, weights, &self.given)
    }

    fn count(&mut self, program: &Program) {
        let graph = self.graph.as_ref().expect("it was wired");
        let Tally { statistics, report } = &mut self.tally;
        statistics.nodes += graph.nodes() as u64;
        statistics.graphs += 1;
        statistics.batches += self.schedule.len() as u64;
        statistics.unseen += self.scheduler.unseen().unwrap_or(0) as u64;
        if let (Some(counts), Some(report)) = (&mut statistics.counts, report) {
            counts.bound += lower_bound(graph) as u64;
            counts.gathered_bytes += gathered_bytes(program, &self.plan.forward);
            counts.gathered_bytes += gathered_bytes(program, &self.plan.back);
            report.add(graph, &self.schedule);
        }
    }

    /// Returns the given values of the forward plan.
    pub(super) fn given<'a>(&'a self, initial: &'a Rows) -> Given<'a> {
        Given { initial, stayed: 0, host: &self.given }
    }
}

/// Fails once the step is no longer wanted.
fn check_wanted(still_wanted: Option<&StillWanted>) -> Result<(), TrainError> {
    match still_wanted {
        Some(wanted) if !wanted.ask() => Err(TrainError::Cancelled),
        _ => Ok(()),
    }
}
