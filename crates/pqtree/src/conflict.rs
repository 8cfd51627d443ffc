//! Errors of reductions; and why a set is refused, with leaves that prove it.
//!
//! A [`Conflict`] names at most six leaves, `inside` of the set and `outside` of it. They prove the
//! refusal on their own: in the tree [projected](crate::PqTree::project) onto these leaves, those
//! inside cannot be made consecutive either.
//!
//! *Source*: the cases follow the four ways in which the check can fail; R. McConnell, "A
//! certifying algorithm for the consecutive-ones property" (SODA 2004), for why a refusal ought to
//! come with a proof.

use crate::nodes::MOST_LEAVES;
use alloc::vec::Vec;
use core::fmt;

/// Why a set was not made consecutive. The tree is as it was.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ReduceError {
    /// No order that the tree admits has the set consecutive. [`PqTree::conflict`] names leaves
    /// that prove it.
    ///
    /// [`PqTree::conflict`]: crate::PqTree::conflict
    Conflict,
    /// The list of leaves is no set of leaves of the tree.
    Leaf(LeafError),
}

/// What is wrong with a list of leaves, all of which have to be in the tree, and different.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum LeafError {
    /// A leaf is named that the tree has not.
    OutOfRange {
        /// The leaf named.
        leaf: u32,
        /// How many leaves the tree has.
        leaves: u32,
    },
    /// A leaf is named twice.
    Repeated {
        /// That leaf.
        leaf: u32,
    },
    /// No leaf is named, where one has to be.
    NoLeaf,
    /// The tree would have more leaves than a tree can have.
    TooMany {
        /// How many leaves it would have.
        leaves: u64,
    },
}

/// Leaves that prove that a set cannot be made consecutive. See [`PqTree::conflict`].
///
/// [`PqTree::conflict`]: crate::PqTree::conflict
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Conflict {
    /// In every order `outside` lies between the two leaves `inside`.
    Separated {
        /// Leaves of the set.
        inside: [u32; 2],
        /// A leaf not of the set.
        outside: u32,
    },
    /// In every order `inside` lies between the two leaves `outside`, and `beyond` does not.
    Enclosed {
        /// A leaf of the set.
        inside: u32,
        /// Leaves not of the set.
        outside: [u32; 2],
        /// A leaf of the set.
        beyond: u32,
    },
    /// `inside[i]` and `outside[i]`, for i = 0 and 1, are two groups which stay apart from each
    /// other, and `beyond` never comes between them: from `beyond`, one of the groups has to be
    /// crossed to reach the other.
    TwoSplits {
        /// Leaves of the set, one of each group.
        inside: [u32; 2],
        /// Leaves not of the set, one of each group.
        outside: [u32; 2],
        /// A leaf of the set.
        beyond: u32,
    },
    /// `inside[i]` and `outside[i]` are three groups that stay apart from each other: each of them
    /// has a border of the set inside it, and there are but two borders.
    ThreeSplits {
        /// Leaves of the set, one of each group.
        inside: [u32; 3],
        /// Leaves not of the set, one of each group.
        outside: [u32; 3],
    },
}

impl Conflict {
    /// The leaves of the proof that are in the set.
    pub fn inside(&self) -> Vec<u32> {
        match *self {
            Self::Separated { inside, .. } => inside.to_vec(),
            Self::Enclosed { inside, beyond, .. } => [inside, beyond].to_vec(),
            Self::TwoSplits { inside: [a, b], beyond, .. } => [a, b, beyond].to_vec(),
            Self::ThreeSplits { inside, .. } => inside.to_vec(),
        }
    }

    /// The leaves of the proof that are not in the set.
    pub fn outside(&self) -> Vec<u32> {
        match *self {
            Self::Separated { outside, .. } => [outside].to_vec(),
            Self::Enclosed { outside, .. } | Self::TwoSplits { outside, .. } => outside.to_vec(),
            Self::ThreeSplits { outside, .. } => outside.to_vec(),
        }
    }
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Separated { inside: [a, b], outside } => {
                write!(f, "{outside}, not of the set, lies between {a} and {b} in every order")
            }
            Self::Enclosed { inside, outside: [x, y], beyond } => {
                write!(
                    f,
                    "{inside} lies between {x} and {y}, not of the set, in every order, and \
                     {beyond} beyond them"
                )
            }
            Self::TwoSplits { inside: [a, b], outside: [x, y], beyond } => write!(
                f,
                "from {beyond}, either {a} with {x} or {b} with {y} has to be crossed to reach the \
                 other, and {x} and {y} are not of the set"
            ),
            Self::ThreeSplits { inside: [a, b, c], outside: [x, y, z] } => write!(
                f,
                "the set would need a border between {a} and {x}, one between {b} and {y}, and \
                 one between {c} and {z}"
            ),
        }
    }
}

impl fmt::Display for ReduceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conflict => {
                f.write_str("the set cannot be made consecutive: `conflict` says why")
            }
            Self::Leaf(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for LeafError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfRange { leaf, leaves } => {
                write!(
                    f,
                    "leaf {leaf} is out of range: the tree has {leaves} leaves, numbered from 0"
                )
            }
            Self::Repeated { leaf } => write!(f, "leaf {leaf} is named twice: name each leaf once"),
            Self::NoLeaf => f.write_str("the set is empty: name one leaf or more"),
            Self::TooMany { leaves } => {
                write!(f, "{leaves} leaves are too many: a tree has at most {MOST_LEAVES}")
            }
        }
    }
}

impl From<LeafError> for ReduceError {
    fn from(error: LeafError) -> Self {
        Self::Leaf(error)
    }
}

impl core::error::Error for LeafError {}

impl core::error::Error for Conflict {}

impl core::error::Error for ReduceError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Conflict => None,
            Self::Leaf(error) => Some(error),
        }
    }
}
