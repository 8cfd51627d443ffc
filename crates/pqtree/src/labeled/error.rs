//! Errors of trees with labels.

use crate::conflict::{LeafError, ReduceError};
use core::fmt;

/// Why labels could not be reduced, or made the leaves of a tree.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum LabeledError {
    /// A label that no leaf has: its place in the list given.
    Unknown {
        /// The place, from 0.
        index: usize,
    },
    /// Two leaves with the same label: the place of the second.
    Repeated {
        /// The place, from 0.
        index: usize,
    },
    /// The tree refused. Leaves are named by their number.
    Reduce(ReduceError),
}

/// The first set of several that could not be reduced.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct LabeledAllError {
    /// Which of the sets, from 0.
    pub index: usize,
    /// Why.
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

impl fmt::Display for LabeledError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { index } => write!(f, "no leaf has the label at place {index}"),
            Self::Repeated { index } => {
                write!(f, "the label at place {index} was given before: each leaf needs its own")
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
