//! What inputs emit, on its way from whatever ran their graph to the caller.

use edbatch_layout::Want;
use edbatch_runtime::BackendError;

use crate::{InputError, Rows};

/// What an input's outputs become: rows of their elements, or an index each.
pub(crate) trait Emitted: Default + Send {
    /// What an emitted value is wanted for.
    const WANT: Want;

    /// Appends an output: a wanted value, by its number.
    ///
    /// # Errors
    /// If there is no memory for it.
    fn append(&mut self, results: &impl Results, wanted: usize) -> Result<(), BackendError>;

    /// How many outputs there are.
    fn outputs(&self) -> usize;

    /// Keeps the first outputs, so many of them.
    fn keep(&mut self, outputs: usize);
}

/// The elements of each output, field after field.
impl Emitted for Rows {
    const WANT: Want = Want::Elements;

    fn append(&mut self, results: &impl Results, wanted: usize) -> Result<(), BackendError> {
        self.try_push_with(|elements| results.append(wanted, elements))
    }

    fn outputs(&self) -> usize {
        self.len()
    }

    fn keep(&mut self, outputs: usize) {
        self.truncate(outputs);
    }
}

/// The index of the greatest element of each output.
impl Emitted for Vec<u32> {
    const WANT: Want = Want::ArgMax;

    fn append(&mut self, results: &impl Results, wanted: usize) -> Result<(), BackendError> {
        self.push(results.arg_max(wanted));
        Ok(())
    }

    fn outputs(&self) -> usize {
        self.len()
    }

    fn keep(&mut self, outputs: usize) {
        self.truncate(outputs);
    }
}

/// What takes the outputs of inputs.
pub(crate) trait Sink<E> {
    /// An input begins: its outputs are gathered in `emitted`, for which memory may be lent.
    fn begin(&mut self, _input: usize, _emitted: &mut E) {}

    /// An input ended, or failed.
    fn done(&mut self, input: usize, emitted: Result<&mut E, InputError>);
}

impl<E, F: FnMut(usize, Result<&mut E, InputError>)> Sink<E> for F {
    fn done(&mut self, input: usize, emitted: Result<&mut E, InputError>) {
        self(input, emitted);
    }
}

/// What ran a graph, when it hands out what instances want of it.
pub(crate) trait Results {
    /// Appends the elements of a wanted value, field after field.
    ///
    /// # Errors
    /// If there is no memory for them.
    fn append(&self, wanted: usize, elements: &mut Vec<f32>) -> Result<(), BackendError>;

    /// The index of the greatest element of a wanted value.
    fn arg_max(&self, wanted: usize) -> u32;
}
