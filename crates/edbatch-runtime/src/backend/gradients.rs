//! The gradients of parameters.

use std::collections::HashMap;

use edbatch_graph::{Network, ParameterId};

use super::squared_norm::squared_norm;
use super::{BackendError, try_memory};

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

/// The gradients of all parameters of a network, by [`ParameterId`].
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

    /// Returns the first parameter whose gradient is not finite.
    #[must_use]
    pub fn not_finite(&self) -> Option<ParameterId> {
        let is_finite = |gradient: &Gradient| gradient.elements().iter().all(|x| x.is_finite());
        let first = self.parameters.iter().position(|gradient| !is_finite(gradient))?;
        Some(ParameterId(first as u32))
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
