//! Typed indices: a node is never a bare `usize`.

use std::fmt;

/// A node of a [`Dag`](crate::Dag). Ids are dense, and every argument's id is less than its
/// user's: ids are a topological order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub struct NodeId(pub u32);

impl NodeId {
    /// The node with this index.
    ///
    /// # Panics
    /// If `index` does not fit 32 bits.
    #[inline]
    #[must_use]
    pub fn new(index: usize) -> Self {
        Self(u32::try_from(index).expect("a graph has fewer than 2^32 nodes"))
    }

    /// The index into side tables.
    #[inline]
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n{}", self.0)
    }
}

/// What a node computes: nodes of one kind may run in one batch.
///
/// In a graph of cell calls a kind is a cell together with its parameters; inside a cell it is an
/// operation together with its shapes. Kinds are dense and stable from mini-batch to mini-batch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub struct Kind(pub u16);

impl Kind {
    /// The kind with this index.
    ///
    /// # Panics
    /// If `index` does not fit 16 bits.
    #[inline]
    #[must_use]
    pub fn new(index: usize) -> Self {
        Self(u16::try_from(index).expect("a network has fewer than 2^16 kinds"))
    }

    /// The index into side tables.
    #[inline]
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "k{}", self.0)
    }
}
