//! Errors of trees with labels.

use crate::conflict::{LeafError, ReduceError};
use crate::reduce::ReduceAllError;
use core::fmt;

/// An error of a tree with labels.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum LabeledError {
    /// No leaf has this label.
    Unknown {
        /// The index of the label in the list, from 0.
        index: usize,
    },
    /// A label is repeated.
    Repeated {
        /// The index of the second one, from 0.
        index: usize,
    },
    /// The tree returned an error, which names leaves by their number.
    Reduce(ReduceError),
}

/// The first of several sets that could not be reduced.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct LabeledAllError {
    /// The index of the set, from 0.
    pub index: usize,
    /// The reason.
    pub error: LabeledError,
}

impl From<ReduceError> for LabeledError {
    fn from(error: ReduceError) -> Self {
        Self::Reduce(error)
    }
}

impl From<LeafError> for LabeledError {
    fn from(error: LeafError) -> Self {
        Self::Reduce(error.into())
    }
}

impl From<ReduceAllError> for LabeledAllError {
    fn from(error: ReduceAllError) -> Self {
        Self { index: error.index, error: error.error.into() }
    }
}

impl fmt::Display for LabeledError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { index } => write!(f, "no leaf has the label at index {index}"),
            Self::Repeated { index } => {
                write!(f, "the label at index {index} is repeated: each leaf needs its own")
            }
            Self::Reduce(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for LabeledAllError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "set {}: {}", self.index, self.error)
    }
}

impl core::error::Error for LabeledError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Reduce(error) => Some(error),
            _ => None,
        }
    }
}

impl core::error::Error for LabeledAllError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        Some(&self.error)
    }
}
