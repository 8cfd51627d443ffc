//! Mini-batches in memory of another library, such as PyTorch, on the trainer's device.

use edbatch_layout::TrainingPlan;
use edbatch_models::Model;
use edbatch_runtime::Borrowing;

use super::Trainer;
use crate::TrainError;
use crate::train::differentiator::training;

impl<M: Model> Trainer<M> {
    /// Wires, schedules and plans a mini-batch, for a caller that has the parameters, given rows,
    /// outputs and gradients on the device, and updates the parameters itself. Returns for each
    /// input the ends of the rows that it emits, among its elements. [`decided`](Self::decided)
    /// runs it.
    ///
    /// # Errors
    /// Like [`forward`](Self::forward), and on the CPU.
    pub fn decide(&mut self, inputs: &[M::Input]) -> Result<Vec<Vec<usize>>, TrainError> {
        self.decided()?;
        self.differentiator.decide_whole(inputs, self.updater.steps)
    }

    /// Returns the device, and the plan and the elements of the inputs' own given values of the
    /// mini-batch that was [decided](Self::decide) last.
    ///
    /// # Errors
    /// On the CPU.
    pub fn decided(&mut self) -> Result<(&mut dyn Borrowing, &TrainingPlan, &[f32]), TrainError> {
        let (backend, pass) = self.differentiator.first_pass();
        let borrowing = training(backend).borrowing().ok_or(TrainError::NoDevice)?;
        Ok((borrowing, &pass.plan, &pass.given))
    }
}
