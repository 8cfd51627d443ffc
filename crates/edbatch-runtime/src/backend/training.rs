//! The interface of backends that compute gradients.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use edbatch_graph::Network;
use edbatch_layout::TrainingPlan;

use super::squared_norm::squared_norm;
use super::{
    Backend, BackendError, Rows, StepResult, TrainingState, TrainingStep, Update, try_memory,
};

/// The gradients of a mini-batch. [`Backend::training`](super::Backend::training) returns it for a
/// program [for training](edbatch_layout::Program::for_training).
///
/// A training step runs each part forward ([`Backend::run`](super::Backend::run)) and back, and
/// adds the part's sums. [`finish`](Self::finish) completes the gradients of all parts since the
/// last [`forget`](Self::forget). Their bits do not depend on how the inputs are divided into
/// parts, if the parts are added in the order of their inputs. [`step`](Self::step) does all of it.
pub trait Training: Backend {
    /// Runs the backward pass of each part, in the slot where its forward plan ran last. Appends a
    /// loss for each wanted value of each part, in order; 0 for a value without a gradient. Values
    /// in the slots are lost.
    ///
    /// # Errors
    /// If memory cannot be allocated.
    fn run_back(
        &mut self,
        parts: &[BackPart<'_>],
        losses: &mut Vec<f64>,
    ) -> Result<(), BackendError>;

    /// Sets a function that is asked while a plan runs and while sums are added.
    fn set_still_wanted(&mut self, _: Option<StillWanted>) {}

    /// Adds the contributions of parts that ran back last in these slots, in order, to the
    /// gradients of parameters.
    ///
    /// # Errors
    /// If memory cannot be allocated.
    fn add_sums(&mut self, parts: &[(usize, &TrainingPlan)]) -> Result<(), BackendError>;

    /// Returns the gradients of the given values of a part that ran back last in this slot, without
    /// the network's initial values. A value that the loss does not depend on has zeros.
    ///
    /// # Errors
    /// If they cannot be copied from a device.
    fn given_gradients(&self, slot: usize, plan: &TrainingPlan) -> Result<Rows, BackendError>;

    /// Completes the gradients of all parts added so far. Returns the sum of the squares of all
    /// elements.
    ///
    /// # Errors
    /// If memory cannot be allocated.
    fn finish(&mut self) -> Result<f64, BackendError>;

    /// Returns a copy of the gradients. They are complete after [`finish`](Self::finish), until
    /// other parts are added.
    ///
    /// # Errors
    /// If memory cannot be allocated.
    fn gradients(&self) -> Result<Gradients, BackendError>;

    /// Sets all sums to zero, for the next mini-batch.
    fn forget(&mut self);

    /// Updates the trained parameters, given their gradients, on this backend and on all of its
    /// [forks](super::Backend::fork), and sets all sums to zero. Parameters with [`Gradient::None`]
    /// and rows without a gradient keep their bits. The caller has checked that gradients are
    /// finite and of the parameters' shapes. To clip summed gradients by their norm, they must be
    /// [finished](Self::finish).
    ///
    /// # Errors
    /// If memory for moments cannot be allocated. Then no parameter has changed.
    fn update(&mut self, update: &Update<'_>) -> Result<(), BackendError>;

    /// Returns the parameters and their moments. If the state still exists at the next update, that
    /// update copies them.
    ///
    /// # Errors
    /// If they cannot be copied from a device.
    fn state(&self) -> Result<TrainingState, BackendError>;

    /// Replaces the parameters and their moments.
    ///
    /// # Errors
    /// If they do not have the shapes of the network's parameters. Then nothing has changed.
    fn set_state(&mut self, state: &TrainingState) -> Result<(), BackendError>;

    /// Runs parts forward and back, adds their sums, and if the step has an update, completes the
    /// gradients and updates the parameters. A loss or a gradient that is not finite ends the step
    /// before the update, and the result names it. The default calls the other methods.
    ///
    /// # Errors
    /// If one of the other methods fails. Then sums may have been added, but no parameter has
    /// changed.
    fn step(&mut self, step: &TrainingStep<'_>) -> Result<StepResult, BackendError> {
        step.run(self)
    }
}

/// A function that returns false once the results of a running step are no longer wanted.
///
/// It is called from all threads that run the step. Then [`run`](super::Backend::run),
/// [`run_back`](Training::run_back) or [`add_sums`](Training::add_sums) ends with
/// [`Cancelled`](BackendError::Cancelled).
#[derive(Clone)]
pub struct StillWanted(Arc<dyn Fn() -> bool + Send + Sync>);

impl StillWanted {
    /// Calls this function.
    pub fn new(ask: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(ask))
    }

    /// Asks whether the results are still wanted.
    #[must_use]
    pub fn ask(&self) -> bool {
        (self.0)()
    }
}

impl fmt::Debug for StillWanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StillWanted")
    }
}

/// A part of a mini-batch, for its backward pass.
#[derive(Clone, Copy, Debug)]
pub struct BackPart<'a> {
    /// The slot in which it ran forward.
    pub slot: usize,
    /// Its plan.
    pub plan: &'a TrainingPlan,
    /// The gradients of its outputs.
    pub outputs: OutputGradients<'a>,
}

/// The gradients of the wanted values that the loss depends on.
#[derive(Clone, Copy, Debug)]
pub enum OutputGradients<'a> {
    /// The elements of the gradients, one value after another.
    Rows(&'a [f32]),
    /// The loss is `weight` times the sum of the cross-entropies of the wanted values: each is a
    /// vector of scores, with a class in `targets`.
    CrossEntropy {
        /// The class of each wanted value. Ignored for values without a gradient.
        targets: &'a [u32],
        /// The weight of each cross-entropy.
        weight: f32,
    },
}

/// The gradient of a parameter.
#[derive(Clone, PartialEq, Debug)]
pub enum Gradient {
    /// It is not trained.
    None,
    /// The gradients of all elements, row-major.
    Whole(Vec<f32>),
    /// The gradients of some rows of a table; the others are zero.
    Rows {
        /// The rows, in the order in which the mini-batch names them first.
        rows: Vec<u32>,
        /// The elements of these rows.
        elements: Vec<f32>,
    },
}

/// The gradients of all parameters of a network, by [`ParameterId`](edbatch_graph::ParameterId).
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Gradients {
    /// One for each parameter.
    pub parameters: Vec<Gradient>,
}

impl Gradients {
    /// Returns the gradients of all elements of all parameters, row-major. Zeros where a parameter
    /// is not trained or a row was not read.
    #[must_use]
    pub fn to_dense(&self, network: &Network) -> Vec<Vec<f32>> {
        let dense = |(gradient, elements): (&Gradient, usize)| match gradient {
            Gradient::None => vec![0.0; elements],
            Gradient::Whole(values) => values.clone(),
            Gradient::Rows { rows, elements: values } => {
                let mut dense = vec![0.0; elements];
                let width = values.len().checked_div(rows.len()).unwrap_or(0);
                for (&row, values) in rows.iter().zip(values.chunks_exact(width.max(1))) {
                    dense[row as usize * width..][..width].copy_from_slice(values);
                }
                dense
            }
        };
        let elements = network.parameters().iter().map(|parameter| parameter.elements());
        self.parameters.iter().zip(elements).map(dense).collect()
    }

    /// Returns a copy.
    ///
    /// # Errors
    /// If memory cannot be allocated.
    pub fn try_clone(&self) -> Result<Self, BackendError> {
        let elements = self.parameters.iter().map(|gradient| 2 * gradient.elements().len());
        try_memory(size_of::<f32>() * elements.sum::<usize>(), "a copy of the gradients")?;
        Ok(self.clone())
    }

    /// Adds other gradients of the same network, parameter by parameter.
    pub fn add(&mut self, other: &Self) {
        let pairs = self.parameters.iter_mut().zip(&other.parameters);
        pairs.for_each(|(to, from)| to.add(from));
    }

    /// Returns the sum of the squares of all elements, in float64. Each 1,024 elements of a
    /// parameter have 16 partial sums, by index mod 16, which are added up in order; the sums of
    /// all parameters, one after another, are added in the same way, until one is left.
    #[must_use]
    pub fn squared_norm(&self) -> f64 {
        squared_norm(self.parameters.iter().map(Gradient::elements))
    }
}

impl Gradient {
    /// Adds another gradient of the same parameter. Rows that only `other` has are appended, in its
    /// order.
    ///
    /// Sums of several processes, added in the same order everywhere, have the same bits
    /// everywhere.
    pub fn add(&mut self, other: &Self) {
        let sum = |to: &mut [f32], from: &[f32]| {
            to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
        };
        match (&mut *self, other) {
            (_, Self::None) => {}
            (Self::None, _) => self.clone_from(other),
            (Self::Whole(to), Self::Whole(from)) => sum(to, from),
            (Self::Whole(to), Self::Rows { .. }) => {
                for (row, from) in other.rows() {
                    sum(&mut to[row as usize * from.len()..], from);
                }
            }
            (Self::Rows { .. }, Self::Whole(_)) => {
                let mut whole = other.clone();
                whole.add(self);
                *self = whole;
            }
            (Self::Rows { rows, elements }, Self::Rows { .. }) => {
                let mut index: HashMap<u32, usize> = rows.iter().copied().zip(0..).collect();
                for (row, from) in other.rows() {
                    let at = *index.entry(row).or_insert(rows.len());
                    if at == rows.len() {
                        rows.push(row);
                        elements.extend_from_slice(from);
                    } else {
                        sum(&mut elements[at * from.len()..][..from.len()], from);
                    }
                }
            }
        }
    }

    /// Removes the elements, and keeps the memory.
    pub(crate) fn clear(&mut self) {
        match self {
            Self::None => {}
            Self::Whole(elements) => elements.clear(),
            Self::Rows { rows, elements } => {
                rows.clear();
                elements.clear();
            }
        }
    }

    /// Returns the rows that have gradients of their own, each with its gradient.
    fn rows(&self) -> impl Iterator<Item = (u32, &[f32])> {
        let (rows, elements) = match self {
            Self::Rows { rows, elements } => (rows.as_slice(), elements.as_slice()),
            _ => (&[][..], &[][..]),
        };
        let width = elements.len().checked_div(rows.len()).unwrap_or(0);
        rows.iter().copied().zip(elements.chunks_exact(width.max(1)))
    }

    /// Returns all elements that are stored.
    #[must_use]
    pub fn elements(&self) -> &[f32] {
        match self {
            Self::None => &[],
            Self::Whole(elements) | Self::Rows { elements, .. } => elements,
        }
    }
}
