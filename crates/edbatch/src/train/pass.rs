//! The forward and the backward pass of a part of a mini-batch.

use std::cell::RefCell;
use std::ops::Range;
use std::time::Instant;

use edbatch_graph::{Dag, Graph, Value};
use edbatch_layout::{Program, TrainingPlan, Want};
use edbatch_models::{Mailbox, Model, Targets};
use edbatch_runtime::{BackendError, Parameters, StillWanted, span};

use super::dropout::Dropout;
use super::targets::{NO_TARGET, check_targets};
use super::wire::wire;
use crate::decide::Decision;
use crate::interpret::not_finite_call;
use crate::{NotFiniteCall, RunError, TrainError};

/// The graph, the decision and the plan of a part. The memory is kept for the next mini-batch.
#[derive(Default)]
pub(super) struct Pass {
    pub(super) decision: Decision,
    pub(super) plan: TrainingPlan,
    graph: Option<Graph>,
    /// The graph with masks, if the model has dropout.
    masked: Option<Graph>,
    wanted: Vec<(Value, Want)>,
    /// For each wanted value: true if the loss depends on it.
    has_gradient: Vec<bool>,
    /// For each wanted value: its class, or [`NO_TARGET`].
    pub(super) targets: Vec<u32>,
    pub(super) given: Vec<f32>,
    /// For each input of the part: the ends of its wanted values, its given values and its nodes.
    pub(super) ends: Vec<(usize, usize, usize)>,
}

/// An upper bound on the memory for masks, the schedule and the plans of a graph, in bytes per
/// node.
pub(super) const LIST_BYTES: usize = 480;

impl Pass {
    pub(super) fn new(decision: Decision) -> Self {
        Self { decision, ..Self::default() }
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
        self.decision.tally = self.decision.tally.cleared();
        let constructing = Instant::now();
        {
            let _stage = span!(DEBUG, "construct");
            self.wire(still_wanted, model, inputs, (part, targets), dropout)?;
        }
        self.decision.tally.statistics.construct += constructing.elapsed();
        let Self { decision, plan, graph, masked, wanted, has_gradient, .. } = self;
        let graph = graph.as_ref().expect("just wired");
        let run = masked.as_ref().unwrap_or(graph);
        decision.decide(program, run, wanted, |planner, mini_batch| {
            check_wanted(still_wanted)?;
            Ok(planner.plan_training(mini_batch, has_gradient, plan)?)
        })?;
        decision.count(program, graph, &[&plan.forward, &plan.back]);
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
        let Self { wanted, has_gradient, targets: classes, given, ends, .. } = self;
        let mut graph = self.graph.take().unwrap_or_else(|| Graph::new(model.network().clone()));
        graph.clear();
        wanted.clear();
        has_gradient.clear();
        classes.clear();
        given.clear();
        ends.clear();
        let graph = RefCell::new(graph);
        for input in part {
            check_wanted(still_wanted)?;
            let Mailbox { emitted, given: of_input, .. } =
                wire(model, &inputs[input], &graph, input)?;
            let targets = targets.map(|targets| &targets[input]);
            if let Some(targets) = targets {
                check_targets(&graph.borrow(), &emitted, targets, input)?;
            }
            for (row, &value) in emitted.iter().enumerate() {
                let target = targets.and_then(|targets| targets[row]);
                wanted.push((value, Want::Elements));
                has_gradient.push(targets.is_none() || target.is_some());
                classes.push(target.unwrap_or(NO_TARGET));
            }
            given.extend_from_slice(&of_input);
            ends.push((wanted.len(), given.len(), graph.borrow().nodes()));
        }
        self.decision.tally.statistics.instances += ends.len() as u64;
        let graph = self.graph.insert(graph.into_inner());
        // Masks cannot report a failed allocation either.
        self.decision.try_lists(graph)?;
        if !dropout.is_none() {
            let masked = self.masked.get_or_insert_with(|| Graph::new(dropout.network.clone()));
            dropout.copy(graph, masked, ends.iter().map(|&(.., end)| end), (step, first));
        }
        Ok(())
    }

    /// Returns the first call that produces a NaN or an infinity, by the reference interpreter.
    /// `weights` include the masks.
    pub(super) fn not_finite_call(&self, weights: &Parameters) -> Option<Box<NotFiniteCall>> {
        let graph = self.masked.as_ref().or(self.graph.as_ref())?;
        not_finite_call(graph, weights, &self.given)
    }
}

/// Fails once the step is no longer wanted.
fn check_wanted(still_wanted: Option<&StillWanted>) -> Result<(), RunError> {
    match still_wanted {
        Some(wanted) if !wanted.ask() => Err(BackendError::Cancelled.into()),
        _ => Ok(()),
    }
}
