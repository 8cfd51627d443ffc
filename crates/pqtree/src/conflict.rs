//! Errors of reductions, and the proof of a refusal.
//!
//! A [`Conflict`] names at most six leaves, `inside` the set and `outside` it. They prove the
//! refusal on their own: even in the tree [projected](crate::PqTree::project) onto these leaves,
//! those inside cannot be made consecutive.
//!
//! *Source*: the cases follow the four ways in which the check can fail. R. McConnell, "A
//! certifying algorithm for the consecutive-ones property" (SODA 2004), explains why a refusal
//! should come with a proof.

use crate::nodes::MAX_LEAVES;
use alloc::vec::Vec;
use core::fmt;

/// The reason why a reduction failed. The tree is unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ReduceError {
    /// The tree admits no order in which the set is consecutive. [`PqTree::conflict`] names leaves
    /// that prove it.
    ///
    /// [`PqTree::conflict`]: crate::PqTree::conflict
    Conflict,
    /// The list of leaves is not a valid set.
    Leaf(LeafError),
}

/// An invalid list of leaves. All leaves must be in the tree, and different.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum LeafError {
    /// The list has a leaf that is not in the tree.
    OutOfRange {
        /// The leaf.
        leaf: u32,
        /// The number of leaves in the tree.
        leaves: u32,
    },
    /// The list has a leaf twice.
    Repeated {
        /// The leaf.
        leaf: u32,
    },
    /// The list is empty, where at least one leaf is required.
    NoLeaf,
    /// The tree would exceed [`PqTree::MAX_LEAVES`](crate::PqTree::MAX_LEAVES).
    TooMany {
        /// The number of leaves that it would have.
        leaves: u64,
    },
    /// The memory for the leaves could not be allocated.
    OutOfMemory {
        /// The number of leaves that the tree would have.
        leaves: u64,
    },
}

/// Leaves that prove that a set cannot be made consecutive. See [`PqTree::conflict`].
///
/// [`PqTree::conflict`]: crate::PqTree::conflict
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Conflict {
    /// In every order, `outside` lies between the two leaves `inside`.
    Separated {
        /// Leaves of the set.
        inside: [u32; 2],
        /// A leaf outside the set.
        outside: u32,
    },
    /// In every order, `inside` lies between the two leaves `outside`, and `beyond` does not.
    Enclosed {
        /// A leaf of the set.
        inside: u32,
        /// Leaves outside the set.
        outside: [u32; 2],
        /// A leaf of the set.
        beyond: u32,
    },
    /// There are two groups: `inside[0]` with `outside[0]`, and `inside[1]` with `outside[1]`. In
    /// every order, each group is separate from the other, and `beyond` is not between the groups.
    /// So consecutive leaves from `beyond` to the farther group include the whole nearer group,
    /// with its `outside`.
    TwoSplits {
        /// Leaves of the set, one of each group.
        inside: [u32; 2],
        /// Leaves outside the set, one of each group.
        outside: [u32; 2],
        /// A leaf of the set.
        beyond: u32,
    },
    /// There are three groups, `inside[i]` with `outside[i]` for i from 0 to 2. In every order,
    /// each group is separate from the others. A consecutive set would need one of its ends inside
    /// each group, but it has only two ends.
    ThreeSplits {
        /// Leaves of the set, one of each group.
        inside: [u32; 3],
        /// Leaves outside the set, one of each group.
        outside: [u32; 3],
    },
}

impl Conflict {
    /// Returns the leaves of the proof that are in the set.
    pub fn inside(&self) -> Vec<u32> {
        match *self {
            Self::Separated { inside, .. } => inside.to_vec(),
            Self::Enclosed { inside, beyond, .. } => [inside, beyond].to_vec(),
            Self::TwoSplits { inside: [a, b], beyond, .. } => [a, b, beyond].to_vec(),
            Self::ThreeSplits { inside, .. } => inside.to_vec(),
        }
    }

    /// Returns the leaves of the proof that are not in the set.
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
                write!(
                    f,
                    "{outside} lies between {a} and {b} in every order, but is not in the set"
                )
            }
            Self::Enclosed { inside, outside: [x, y], beyond } => write!(
                f,
                "in every order, {inside} lies between {x} and {y}, which are not in the set, and \
                 {beyond} does not"
            ),
            Self::TwoSplits { inside: [a, b], outside: [x, y], beyond } => write!(
                f,
                "in every order, {a} with {x} and {b} with {y} stay apart and {beyond} is not \
                 between them, but {x} and {y} are not in the set"
            ),
            Self::ThreeSplits { inside: [a, b, c], outside: [x, y, z] } => write!(
                f,
                "the set needs a border between {a} and {x}, one between {b} and {y}, and one \
                 between {c} and {z}, but a consecutive set has only two borders"
            ),
        }
    }
}

impl fmt::Display for ReduceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conflict => {
                f.write_str("the set cannot be made consecutive: call `conflict` for the reason")
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
            Self::Repeated { leaf } => write!(f, "leaf {leaf} is repeated: name each leaf once"),
            Self::NoLeaf => f.write_str("the set is empty: expected at least one leaf"),
            Self::OutOfMemory { leaves } => {
                write!(f, "failed to allocate a tree of {leaves} leaves: free memory or use fewer")
            }
            Self::TooMany { leaves } => {
                write!(f, "{leaves} leaves are too many: a tree has at most {MAX_LEAVES}")
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
