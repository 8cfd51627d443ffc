//! The outputs of one input: the elements of each emitted row, or the index of its largest element.

use std::ops::Range;

use edbatch_layout::Want;
use edbatch_runtime::BackendError;
use edbatch_runtime::kernels::{ArgMax, OutOfMemory};

use crate::{InputError, Rows};

/// The memory of outputs, in errors.
pub(crate) const OUTPUT_ROWS: &str = "the output rows of an input";

/// The outputs of one input.
pub(crate) trait Output: Default + Send {
    /// The use of emitted values: their elements, or the index of the largest one.
    const WANT: Want;

    /// Appends the output for the wanted value at position `wanted`.
    ///
    /// # Errors
    /// If memory for it cannot be allocated.
    fn append(&mut self, results: &impl Results, wanted: usize) -> Result<(), BackendError>;

    /// Reserves memory for the outputs of wanted values that will be appended.
    ///
    /// # Errors
    /// If memory cannot be allocated.
    fn reserve(&mut self, _: &impl Results, _: Range<usize>) -> Result<(), BackendError> {
        Ok(())
    }

    /// Returns the index of the last output if the wanted value at position `wanted`, from which it
    /// was appended, has an element that is not finite.
    fn not_finite(&self, results: &impl Results, wanted: usize) -> Option<usize>;

    /// Removes all outputs and keeps the memory.
    fn clear(&mut self);
}

/// The elements of each output, field after field.
impl Output for Rows {
    const WANT: Want = Want::Elements;

    fn append(&mut self, results: &impl Results, wanted: usize) -> Result<(), BackendError> {
        self.try_push_with(|elements| results.append(wanted, elements))
    }

    fn reserve(
        &mut self,
        results: &impl Results,
        wanted: Range<usize>,
    ) -> Result<(), BackendError> {
        let elements = wanted.clone().map(|wanted| results.elements(wanted)).sum();
        self.try_reserve(wanted.len(), elements)
            .map_err(|OutOfMemory { bytes }| BackendError::Memory { what: OUTPUT_ROWS, bytes })
    }

    fn not_finite(&self, _: &impl Results, _: usize) -> Option<usize> {
        let last = self.len() - 1;
        self.row(last).iter().any(|element| !element.is_finite()).then_some(last)
    }

    fn clear(&mut self) {
        Rows::clear(self);
    }
}

/// The index of the largest element of each output.
impl Output for Vec<u32> {
    const WANT: Want = Want::ArgMax;

    fn append(&mut self, results: &impl Results, wanted: usize) -> Result<(), BackendError> {
        self.push(results.arg_max(wanted).index);
        Ok(())
    }

    fn not_finite(&self, results: &impl Results, wanted: usize) -> Option<usize> {
        (!results.arg_max(wanted).is_finite).then_some(self.len() - 1)
    }

    fn clear(&mut self) {
        Vec::clear(self);
    }
}

/// The receiver of outputs.
pub(crate) trait Sink<O> {
    /// Called when an input begins. May replace `output` with an old value, whose memory is reused.
    fn begin(&mut self, _input: usize, _output: &mut O) {}

    /// Called when an input has ended or failed.
    fn done(&mut self, input: usize, output: Result<&mut O, InputError>);
}

impl<O, F: FnMut(usize, Result<&mut O, InputError>)> Sink<O> for F {
    fn done(&mut self, input: usize, output: Result<&mut O, InputError>) {
        self(input, output);
    }
}

/// The wanted values of a graph that has run.
pub(crate) trait Results {
    /// Returns the number of elements of a wanted value, or 0 if it is not known before.
    fn elements(&self, _wanted: usize) -> usize {
        0
    }

    /// Appends the elements of a wanted value, field after field.
    ///
    /// # Errors
    /// If memory for them cannot be allocated.
    fn append(&self, wanted: usize, elements: &mut Vec<f32>) -> Result<(), BackendError>;

    /// Returns the index of the largest element of a wanted value, and whether all are finite.
    fn arg_max(&self, wanted: usize) -> ArgMax;
}
