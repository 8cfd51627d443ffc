//! Errors of call lists.

use edbatch_graph::Source;

use crate::GiveError;

/// The error of a call list that cannot be made or written.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallListError {
    /// A carried value does not fit the network.
    #[error(transparent)]
    Give(#[from] GiveError),
    /// A value was carried after one was given.
    #[error("expected carried values before given ones, got one after them")]
    CarriedAfterGiven,
    /// An emitted value is not in the list.
    #[error("emit: expected a value of this list, got {value:?}")]
    NotInList {
        /// The node or the given value that it refers to.
        value: Source,
    },
    /// The number of targets differs from the number of emitted values.
    #[error("targets: expected one for each of {emitted} emitted values, got {got}")]
    Targets {
        /// The number of emitted values.
        emitted: usize,
        /// The number of targets.
        got: usize,
    },
    /// A target is not a class of its value.
    #[error("targets: expected {}, got {target}", expected_target(*index, *classes))]
    Target {
        /// The index of the emitted value.
        index: usize,
        /// The target.
        target: u32,
        /// The number of classes: the width of the value, or 0 if it is not one vector.
        classes: usize,
    },
    /// A list with carried values cannot be written.
    #[error("expected a list without carried values to write, got {carried}")]
    Carried {
        /// The number of carried values.
        carried: usize,
    },
    /// A list with slots cannot be written.
    #[error("expected a list without slots to write, got {slots}: give their elements by `give`")]
    Slots {
        /// The number of given values that are slots.
        slots: usize,
    },
    /// A given element that is not finite cannot be written.
    #[error("expected finite elements to write, got {element}")]
    NotFinite {
        /// The element.
        element: f32,
    },
}

fn expected_target(index: usize, classes: usize) -> String {
    match classes {
        0 => format!("null for emitted value {index}, which is not one vector"),
        _ => format!("a class below {classes} for emitted value {index}"),
    }
}
