//! The interface of devices that compute in memory of another library.

use edbatch_layout::TrainingPlan;

use super::{BackendError, Given};

/// Elements (f32) in device memory of another library.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Borrowed {
    address: u64,
    elements: usize,
}

impl Borrowed {
    /// `elements` floats from `address` on.
    ///
    /// # Safety
    /// A method of [`Borrowing`] that gets them may read and write this memory of its device, in
    /// the order of the stream that it gets with them: the memory may be freed, and other work may
    /// access it, only in that order, after the method has returned.
    #[must_use]
    pub unsafe fn new(address: u64, elements: usize) -> Self {
        Self { address, elements }
    }

    /// Returns the address of the first element on the device.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn elements(&self) -> usize {
        self.elements
    }
}

/// Training in memory of another library. [`Training::borrowing`](super::Training::borrowing)
/// returns it.
///
/// `stream` is a CUDA stream of that library, as a number. The work of a method begins after all
/// earlier work of the stream, and later work of the stream begins after it. The host waits only
/// for the work of the mini-batch before. So the error of a launch that did not end is returned by
/// the next [`adopt`](Self::adopt) or [`forward_into`](Self::forward_into).
///
/// A mini-batch is one part. All methods fail if memory has another size than it needs, if other
/// memory cannot be allocated, or if the device reports an error.
pub trait Borrowing {
    /// Replaces the first parameters by borrowed ones, each row-major.
    ///
    /// # Errors
    /// See the trait.
    fn adopt(&mut self, stream: u64, parameters: &[Borrowed]) -> Result<(), BackendError>;

    /// Runs a plan forward. `memory` has the given values whose places are
    /// [`Borrowed`](super::GivenPlace::Borrowed). Writes the elements of all wanted values to
    /// `rows`, one value after another.
    ///
    /// # Errors
    /// See the trait.
    fn forward_into(
        &mut self,
        stream: u64,
        plan: &TrainingPlan,
        given: Given<'_>,
        memory: &[Borrowed],
        rows: Borrowed,
    ) -> Result<(), BackendError>;

    /// Returns, for each parameter, the rows that its gradient will have, by the plan that ran
    /// forward last; `None` for all.
    ///
    /// # Errors
    /// See the trait.
    fn gradient_rows(&mut self, plan: &TrainingPlan)
    -> Result<Vec<Option<Vec<u32>>>, BackendError>;

    /// Runs that plan back, after [`gradient_rows`](Self::gradient_rows). `rows` are the gradients
    /// of what it wrote forward. Writes the gradients of borrowed given values to `memory`, and
    /// the gradients of the first parameters, or of these rows of them, to `parameters`.
    ///
    /// # Errors
    /// See the trait, and if no plan has run forward.
    fn backward_from(
        &mut self,
        stream: u64,
        plan: &TrainingPlan,
        given: Given<'_>,
        rows: Borrowed,
        memory: &[Borrowed],
        parameters: &[Borrowed],
    ) -> Result<(), BackendError>;
}
