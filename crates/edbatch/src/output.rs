//! The outputs of one input: the elements of each emitted row, or the index of its largest element.

use std::ops::Range;

use edbatch_layout::Want;
use edbatch_runtime::BackendError;
use edbatch_runtime::kernels::ArgMax;

use crate::{InputError, Rows};

/// The memory of outputs, in errors.
pub(crate) const OUTPUT_ROWS: &str = "the output rows of an input";

/// The outputs of one input.
pub(crate) trait Output: Default + Send {
    /// The use of emitted values: their elements, or the index of the largest one.
    const WANT: Want;

    /// Appends the outputs for the wanted values at these positions.
    ///
    /// # Errors
    /// If memory for them cannot be allocated.
    fn append(&mut self, results: &impl Results, wanted: Range<usize>) -> Result<(), BackendError>;

    /// Returns the index of the first output with an element that is not finite, among the last
    /// ones, which were appended from these wanted values.
    fn not_finite(&self, results: &impl Results, wanted: Range<usize>) -> Option<usize>;

    /// Removes all outputs and keeps the memory.
    fn clear(&mut self);
}

/// The elements of each output, field after field.
impl Output for Rows {
    const WANT: Want = Want::Elements;

    fn append(&mut self, results: &impl Results, wanted: Range<usize>) -> Result<(), BackendError> {
        results.append_rows(wanted, self)
    }

    fn not_finite(&self, _: &impl Results, wanted: Range<usize>) -> Option<usize> {
        let is_finite = |row| self.row(row).iter().all(|element| element.is_finite());
        (self.len() - wanted.len()..self.len()).find(|&row| !is_finite(row))
    }

    fn clear(&mut self) {
        Rows::clear(self);
    }
}

/// The index of the largest element of each output.
impl Output for Vec<u32> {
    const WANT: Want = Want::ArgMax;

    fn append(&mut self, results: &impl Results, wanted: Range<usize>) -> Result<(), BackendError> {
        self.extend(wanted.map(|wanted| results.arg_max(wanted).index));
        Ok(())
    }

    fn not_finite(&self, results: &impl Results, wanted: Range<usize>) -> Option<usize> {
        let mut outputs = (self.len() - wanted.len()..).zip(wanted);
        Some(outputs.find(|&(_, wanted)| !results.arg_max(wanted).is_finite)?.0)
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
    /// Appends the elements of a wanted value, field after field.
    ///
    /// # Errors
    /// If memory for them cannot be allocated.
    fn append(&self, wanted: usize, elements: &mut Vec<f32>) -> Result<(), BackendError>;

    /// Appends wanted values, a row for each.
    ///
    /// # Errors
    /// If memory for them cannot be allocated.
    fn append_rows(&self, wanted: Range<usize>, rows: &mut Rows) -> Result<(), BackendError> {
        let mut wanted = wanted;
        wanted.try_for_each(|wanted| rows.try_push_with(|row| self.append(wanted, row)))
    }

    /// Returns the index of the largest element of a wanted value, and whether all are finite.
    fn arg_max(&self, wanted: usize) -> ArgMax;
}
