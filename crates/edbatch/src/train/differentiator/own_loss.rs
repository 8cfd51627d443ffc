//! Losses that the caller computes, between the forward and the backward pass.

use std::borrow::Cow;
use std::iter::Enumerate;
use std::{mem, slice};

use edbatch_layout::ValueRow;
use edbatch_models::Model;
use edbatch_runtime::{Backend, OutputGradients, Rows, try_memory};

use super::{Differentiator, Pass, training};
use crate::TrainError;
use crate::output::Output;

impl<M: Model> Differentiator<M> {
    /// Runs a mini-batch, and keeps its values for [`backward`](Self::backward). Returns for each
    /// input the rows that it emits.
    pub(crate) fn forward(
        &mut self,
        inputs: &[M::Input],
        step: u64,
    ) -> Result<Vec<Rows>, TrainError> {
        self.forward = 0;
        let parts = self.parts(inputs);
        self.decide(inputs, None, &parts, step)?;
        self.check_memory(parts.len())?;
        self.run_forward(parts.len())?;
        self.forward = parts.len();
        let mut all = Vec::with_capacity(inputs.len());
        for (slot, pass) in self.passes[..parts.len()].iter().enumerate() {
            let outputs = self.backend.outputs(slot, &pass.plan.forward);
            let mut wanted = 0;
            for &(end, ..) in &pass.ends {
                let mut rows = Rows::new();
                Output::append(&mut rows, &outputs, wanted..end)?;
                all.push(rows);
                wanted = end;
            }
        }
        Ok(all)
    }

    /// Wires, schedules and plans a mini-batch as one part. Returns for each input the ends of the
    /// rows that it emits, among their elements.
    pub(crate) fn decide_whole(
        &mut self,
        inputs: &[M::Input],
        step: u64,
    ) -> Result<Vec<Vec<usize>>, TrainError> {
        self.forward = 0;
        self.decide(inputs, None, slice::from_ref(&(0..inputs.len())), step)?;
        self.check_memory(1)?;
        let pass = &self.passes[0];
        let (mut widths, mut from) = (self.widths(pass), 0);
        let of_input = |&(end, ..): &(usize, usize, usize)| {
            let ends = widths.by_ref().take(end - from).scan(0, |end, width| {
                *end += width;
                Some(*end)
            });
            from = end;
            ends.collect()
        };
        Ok(pass.ends.iter().map(of_input).collect())
    }

    /// Returns the backend and the first pass.
    pub(crate) fn first_pass(&mut self) -> (&mut Box<dyn Backend>, &Pass) {
        (&mut self.backend, &self.passes[0])
    }

    /// Adds the gradients of a loss, whose gradients with respect to the rows of the last
    /// [`forward`](Self::forward) are given. Returns the gradients of given rows, if requested.
    pub(crate) fn backward(&mut self, gradients: &[Rows]) -> Result<Vec<Rows>, TrainError> {
        let parts = mem::take(&mut self.forward);
        self.accumulated += gradients.len() as u64;
        if parts == 0 && !gradients.is_empty() {
            return Err(TrainError::NothingForward);
        }
        let passes = self.passes[..parts].iter();
        let inputs: usize = passes.clone().map(|pass| pass.ends.len()).sum();
        wrong_unless(gradients.len(), inputs, || "inputs".into())?;
        let mut of_inputs = gradients.iter().enumerate();
        let flat = passes.map(|pass| self.output_gradients(pass, &mut of_inputs));
        let flat = flat.collect::<Result<Vec<_>, _>>()?;
        let outputs = |slot: usize, _: &Pass| OutputGradients::Rows(&flat[slot]);
        self.run_back(parts, outputs, &mut Vec::new())?;
        let mut all = Vec::new();
        let passes = if self.given_gradients { &self.passes[..parts] } else { &[] };
        for (slot, pass) in passes.iter().enumerate() {
            let elements = pass.ends.last().map_or(0, |&(_, given, _)| given);
            try_memory(4 * elements * size_of::<f32>(), "the gradients of given rows")?;
            let given = training(&mut self.backend).given_gradients(slot, &pass.plan)?;
            let (mut rows, mut from) = (given.iter(), 0);
            for &(_, end, _) in &pass.ends {
                let mut of_input = Rows::new();
                while from < end {
                    let row = rows.next().expect("a row for each given value");
                    of_input.push(row);
                    from += row.len();
                }
                all.push(of_input);
            }
        }
        Ok(all)
    }

    /// Returns the number of elements of each row that a part emits.
    pub(super) fn widths(&self, pass: &Pass) -> impl Iterator<Item = usize> + Clone {
        pass.plan.forward.wanted.iter().map(|(ValueRow { record, .. }, _)| {
            self.program.record(*record).widths.iter().sum::<u32>() as usize
        })
    }

    /// Returns the gradients of all rows that a part emits, with zeros for those that are empty.
    fn output_gradients<'a>(
        &self,
        pass: &Pass,
        of_inputs: &mut Enumerate<slice::Iter<'a, Rows>>,
    ) -> Result<Cow<'a, [f32]>, TrainError> {
        let mut widths = self.widths(pass);
        let all: usize = widths.clone().sum();
        let (mut elements, mut from) = (Vec::new(), 0);
        for &(end, ..) in &pass.ends {
            let (input, given) = of_inputs.next().expect("a list for each input");
            wrong_unless(given.len(), end - from, || format!("rows of input {input}"))?;
            for (index, (row, width)) in given.iter().zip(widths.clone()).enumerate() {
                if !row.is_empty() {
                    let what = || format!("elements of input {input}, row {index}");
                    wrong_unless(row.len(), width, what)?;
                }
            }
            if pass.ends.len() == 1 && given.elements().len() == all {
                return Ok(given.elements().into());
            }
            if from == 0 {
                try_memory(size_of::<f32>() * all, "the gradients of outputs")?;
                elements.reserve(all);
            }
            for (row, width) in given.iter().zip(&mut widths) {
                elements.extend_from_slice(row);
                elements.resize(elements.len() + width - row.len(), 0.0);
            }
            from = end;
        }
        Ok(elements.into())
    }
}

/// Fails unless there are as many gradients as `forward` returned.
fn wrong_unless(
    got: usize,
    expected: usize,
    what: impl FnOnce() -> String,
) -> Result<(), TrainError> {
    if got == expected {
        return Ok(());
    }
    Err(TrainError::GradientsOfInputs { what: what(), expected, got })
}
