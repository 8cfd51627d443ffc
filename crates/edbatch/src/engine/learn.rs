//! Learns a policy on the graphs of mini-batches.

use edbatch_graph::{Dag, Graph};
use edbatch_models::Model;
use edbatch_policy::{Encoding, LearningConfig, Outcome, TrainingSet, hold_out};
use rand::Rng;

use super::Engine;
use crate::RunError;

impl<M: Model> Engine<M> {
    /// Returns the graphs of a mini-batch as a single part: one, and one more for each round in
    /// which inputs await values.
    ///
    /// Runs a graph only if an input awaits one of its values.
    ///
    /// # Errors
    /// If an input does not fit the model, or the mini-batch is too large.
    pub fn graphs(&mut self, inputs: &[M::Input]) -> Result<Vec<Graph>, RunError> {
        self.workers.first().graphs(&self.model, inputs)
    }

    /// Learns a policy, a finite state machine, on the graphs of mini-batches. Uses it from now on
    /// if it takes fewer batches than [`Critical`](edbatch_policy::Critical) on the
    /// [held-out](hold_out) graphs.
    ///
    /// To write the policy to a file, use [`Learned`](edbatch_policy::Learned). *Cost*: a run of
    /// the mini-batches if their inputs await values, and `config.episodes` schedules.
    ///
    /// # Errors
    /// If an input does not fit the model, a mini-batch is too large, or no input calls a cell.
    pub fn learn(
        &mut self,
        mini_batches: &[&[M::Input]],
        encoding: Encoding,
        config: &LearningConfig,
        rng: &mut impl Rng,
    ) -> Result<Outcome, RunError> {
        let mut graphs = Vec::new();
        for inputs in mini_batches {
            graphs.extend(self.graphs(inputs)?);
        }
        graphs.retain(|graph| graph.nodes() > 0);
        let (train, held_out) = hold_out(graphs);
        let set = TrainingSet::new(&train, &held_out)?;
        let outcome = edbatch_policy::learn(&set, encoding, config, rng, |_| {});
        if outcome.after < outcome.before {
            let kinds = self.model.network().cells().len();
            self.set_policy(Box::new(outcome.fsm(encoding, kinds)));
        }
        Ok(outcome)
    }
}
