//! Mini-batches in memory of another library, such as PyTorch, on the trainer's device.

use std::mem;

use edbatch_models::Model;
use edbatch_runtime::{Borrowed, Borrowing, Given, GivenPlace, Rows};

use super::Trainer;
use crate::TrainError;
use crate::train::differentiator::training;

/// Steps of training for a caller that has the parameters, given rows, outputs and gradients on the
/// device, and updates the parameters itself. The [trait](Borrowing) says what `stream` is, and in
/// which order the memory is read and written. All methods fail on the CPU, if memory has another
/// size than it needs, or if the device reports an error.
impl<M: Model> Trainer<M> {
    /// Wires, schedules and plans a mini-batch for [`forward_into`](Self::forward_into). Returns
    /// for each input the ends of the rows that it emits, among its elements.
    ///
    /// # Errors
    /// Like [`forward`](Self::forward).
    pub fn decide(&mut self, inputs: &[M::Input]) -> Result<Vec<Vec<usize>>, TrainError> {
        self.borrowing()?;
        self.differentiator.decide_whole(inputs, self.updater.steps)
    }

    /// Replaces the parameters, in the order of the network. Moments stay.
    ///
    /// # Errors
    /// See above.
    pub fn adopt(&mut self, stream: u64, parameters: &[Borrowed]) -> Result<(), TrainError> {
        Ok(self.borrowing()?.adopt(stream, parameters)?)
    }

    /// Runs the mini-batch that was decided last, and writes what all inputs emit to `rows`.
    /// `places` has the place of each given value, unless the last ones are the inputs' own;
    /// `memory` has those that are borrowed.
    ///
    /// # Errors
    /// See above.
    pub fn forward_into(
        &mut self,
        stream: u64,
        places: &[GivenPlace],
        memory: &[Borrowed],
        rows: Borrowed,
    ) -> Result<(), TrainError> {
        let of = &mut self.differentiator;
        of.forward = 0;
        of.passes[0].places = places.to_vec();
        let pass = &of.passes[0];
        let given = Given { initial: &Rows::new(), places, host: &pass.given };
        let borrowing = training(&mut of.backend).borrowing().ok_or(TrainError::NoDevice)?;
        borrowing.forward_into(stream, &pass.plan, given, memory, rows)?;
        of.tally.add(&pass.decision.tally);
        of.forward = 1;
        Ok(())
    }

    /// Returns, for each parameter, the rows that the gradient of that mini-batch has; `None` for
    /// all. The other rows are zero.
    ///
    /// # Errors
    /// See above.
    pub fn gradient_rows(&mut self) -> Result<Vec<Option<Vec<u32>>>, TrainError> {
        let count = self.model().network().parameters().len();
        let of = &mut self.differentiator;
        let borrowing = training(&mut of.backend).borrowing().ok_or(TrainError::NoDevice)?;
        let mut rows = borrowing.gradient_rows(&of.passes[0].plan)?;
        rows.truncate(count);
        Ok(rows)
    }

    /// Computes the gradients of a loss, after [`gradient_rows`](Self::gradient_rows), given its
    /// gradients with respect to what [`forward_into`](Self::forward_into) wrote, `rows`. Writes
    /// those of the borrowed given values to `memory`, and those of the parameters, or of their
    /// rows, to `parameters`. Nothing is added to earlier ones, and they may be not finite.
    ///
    /// # Errors
    /// See above.
    pub fn backward_from(
        &mut self,
        stream: u64,
        rows: Borrowed,
        memory: &[Borrowed],
        parameters: &[Borrowed],
    ) -> Result<(), TrainError> {
        let of = &mut self.differentiator;
        if mem::take(&mut of.forward) == 0 {
            return Err(TrainError::NothingForward);
        }
        let pass = &of.passes[0];
        let given = Given { initial: &Rows::new(), places: &pass.places, host: &pass.given };
        let borrowing = training(&mut of.backend).borrowing().ok_or(TrainError::NoDevice)?;
        Ok(borrowing.backward_from(stream, &pass.plan, given, rows, memory, parameters)?)
    }

    fn borrowing(&mut self) -> Result<&mut dyn Borrowing, TrainError> {
        training(&mut self.differentiator.backend).borrowing().ok_or(TrainError::NoDevice)
    }
}
