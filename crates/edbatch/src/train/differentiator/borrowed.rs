//! Mini-batches in memory of another library, on the device of the backend.

use edbatch_models::Model;
use edbatch_runtime::{Borrowed, Borrowing, Given, GivenPlace, Rows};

use super::{Differentiator, training};
use crate::TrainError;

impl<M: Model> Differentiator<M> {
    /// Returns the backend as one that computes in memory of another library.
    pub(crate) fn borrowing(&mut self) -> Result<&mut dyn Borrowing, TrainError> {
        training(&mut self.backend).borrowing().ok_or(TrainError::NoDevice)
    }

    /// Wires, schedules and plans a mini-batch as one part. Returns for each input the ends of the
    /// rows that it emits, among their elements.
    pub(crate) fn decide_whole(
        &mut self,
        inputs: &[M::Input],
        step: u64,
    ) -> Result<Vec<Vec<usize>>, TrainError> {
        self.forward = 0;
        self.borrowing()?;
        let parts = [0..inputs.len()];
        self.decide(inputs, None, &parts[..usize::from(!inputs.is_empty())], step)?;
        self.check_memory(1)?;
        let pass = &self.passes[0];
        let (mut widths, mut from) = (self.widths(pass), 0);
        let of_input = |&(end, ..): &(usize, usize, usize)| {
            let mut elements = 0;
            let rows = widths.by_ref().take(end - from).map(|width| {
                elements += width;
                elements
            });
            from = end;
            rows.collect()
        };
        Ok(pass.ends[..inputs.len()].iter().map(of_input).collect())
    }

    /// Runs the decided mini-batch forward.
    pub(crate) fn forward_into(
        &mut self,
        stream: u64,
        places: &[GivenPlace],
        memory: &[Borrowed],
        rows: Borrowed,
    ) -> Result<(), TrainError> {
        self.forward = 0;
        let Self { passes, backend, tally, .. } = self;
        let pass = &mut passes[0];
        pass.places = places.to_vec();
        let given = Given { initial: &Rows::new(), places, host: &pass.given };
        let borrowing = training(backend).borrowing().ok_or(TrainError::NoDevice)?;
        borrowing.forward_into(stream, &pass.plan, given, memory, rows)?;
        tally.add(&pass.decision.tally);
        self.forward = 1;
        Ok(())
    }

    /// Returns the rows that gradients of parameters will have.
    pub(crate) fn gradient_rows(&mut self) -> Result<Vec<Option<Vec<u32>>>, TrainError> {
        let count = self.model.network().parameters().len();
        let borrowing = training(&mut self.backend).borrowing().ok_or(TrainError::NoDevice)?;
        let mut rows = borrowing.gradient_rows(&self.passes[0].plan)?;
        rows.truncate(count);
        Ok(rows)
    }

    /// Runs back the mini-batch that ran forward last.
    pub(crate) fn backward_from(
        &mut self,
        stream: u64,
        rows: Borrowed,
        memory: &[Borrowed],
        parameters: &[Borrowed],
    ) -> Result<(), TrainError> {
        if std::mem::take(&mut self.forward) == 0 {
            return Err(TrainError::NothingForward);
        }
        let pass = &self.passes[0];
        let given = Given { initial: &Rows::new(), places: &pass.places, host: &pass.given };
        let borrowing = training(&mut self.backend).borrowing().ok_or(TrainError::NoDevice)?;
        Ok(borrowing.backward_from(stream, &pass.plan, given, rows, memory, parameters)?)
    }
}
