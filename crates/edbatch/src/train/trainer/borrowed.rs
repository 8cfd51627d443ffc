//! Mini-batches in memory of another library, such as PyTorch, on the trainer's device.

use edbatch_models::Model;
#[cfg(doc)]
use edbatch_runtime::Borrowing;
use edbatch_runtime::{Borrowed, GivenPlace};

use super::Trainer;
use crate::TrainError;

/// Steps of training for a caller that has the parameters, given rows, outputs and gradients on the
/// device, and updates the parameters itself. The [trait](Borrowing) says what `stream` is, and in
/// which order the memory is read and written. All methods fail on the CPU.
impl<M: Model> Trainer<M> {
    /// Wires, schedules and plans a mini-batch for [`forward_into`](Self::forward_into). Returns
    /// for each input the ends of the rows that it emits, among its elements.
    ///
    /// # Errors
    /// Like [`forward`](Self::forward).
    pub fn decide(&mut self, inputs: &[M::Input]) -> Result<Vec<Vec<usize>>, TrainError> {
        self.differentiator.decide_whole(inputs, self.updater.steps)
    }

    /// Replaces the parameters, in the order of the network. Moments stay.
    ///
    /// # Errors
    /// If they have other sizes, or the device reports an error.
    pub fn adopt(&mut self, stream: u64, parameters: &[Borrowed]) -> Result<(), TrainError> {
        Ok(self.differentiator.borrowing()?.adopt(stream, parameters)?)
    }

    /// Runs the mini-batch that was decided last. `places` has the place of each given value,
    /// unless the last ones are the inputs' own; `memory` has those that are borrowed. Writes what
    /// all inputs emit to `rows`.
    ///
    /// # Errors
    /// If memory has another size than it needs, or the device reports an error.
    pub fn forward_into(
        &mut self,
        stream: u64,
        places: &[GivenPlace],
        memory: &[Borrowed],
        rows: Borrowed,
    ) -> Result<(), TrainError> {
        self.differentiator.forward_into(stream, places, memory, rows)
    }

    /// Returns, for each parameter, the rows that the gradient of that mini-batch has; `None` for
    /// all. The other rows are zero.
    ///
    /// # Errors
    /// If nothing has run forward, or memory cannot be allocated.
    pub fn gradient_rows(&mut self) -> Result<Vec<Option<Vec<u32>>>, TrainError> {
        self.differentiator.gradient_rows()
    }

    /// Computes the gradients of a loss, after [`gradient_rows`](Self::gradient_rows), given its
    /// gradients with respect to what [`forward_into`](Self::forward_into) wrote, `rows`. Writes
    /// those of the borrowed given values to `memory`, if
    /// [`given_gradients`](crate::TrainerOptions::given_gradients) is set, and those of the
    /// parameters, or of their rows, to `parameters`. Nothing is added to earlier ones, and they
    /// may be not finite.
    ///
    /// # Errors
    /// Like [`forward_into`](Self::forward_into), and if nothing has run forward.
    pub fn backward_from(
        &mut self,
        stream: u64,
        rows: Borrowed,
        memory: &[Borrowed],
        parameters: &[Borrowed],
    ) -> Result<(), TrainError> {
        self.differentiator.backward_from(stream, rows, memory, parameters)
    }
}
