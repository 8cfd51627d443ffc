//! Errors of call lists.

use std::fmt;

use edbatch_graph::Source;

use crate::GiveError;

/// The error of a call list that cannot be made or written.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum CallListError {
    /// A carried value does not fit the network.
    Give(GiveError),
    /// A value was carried after one was given.
    CarriedAfterGiven,
    /// An emitted value is not in the list.
    NotInList {
        /// The node or the given value that it refers to.
        value: Source,
    },
    /// The number of targets differs from the number of emitted values.
    Targets {
        /// The number of emitted values.
        emitted: usize,
        /// The number of targets.
        got: usize,
    },
    /// A target is not a class of its value.
    Target {
        /// The index of the emitted value.
        index: usize,
        /// The target.
        target: u32,
        /// The number of classes: the width of the value, or 0 if it is not one vector.
        classes: usize,
    },
    /// A list with carried values cannot be written.
    Carried {
        /// The number of carried values.
        carried: usize,
    },
    /// A given element that is not finite cannot be written.
    NotFinite {
        /// The element.
        element: f32,
    },
}

impl From<GiveError> for CallListError {
    fn from(error: GiveError) -> Self {
        Self::Give(error)
    }
}

impl fmt::Display for CallListError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Give(error) => error.fmt(f),
            Self::CarriedAfterGiven => {
                f.write_str("expected carried values before given ones, got one after them")
            }
            Self::NotInList { value } => {
                write!(f, "emit: expected a value of this list, got {value:?}")
            }
            Self::Targets { emitted, got } => {
                write!(f, "targets: expected one for each of {emitted} emitted values, got {got}")
            }
            Self::Target { index, target, classes: 0 } => write!(
                f,
                "targets: expected null for emitted value {index}, which is not one vector, got \
                 {target}"
            ),
            Self::Target { index, target, classes } => write!(
                f,
                "targets: expected a class below {classes} for emitted value {index}, got {target}"
            ),
            Self::Carried { carried } => {
                write!(f, "expected a list without carried values to write, got {carried}")
            }
            Self::NotFinite { element } => {
                write!(f, "expected finite elements to write, got {element}")
            }
        }
    }
}

impl std::error::Error for CallListError {}
