//! One word an inner node: what it is, or, while a reduction looks at it, where its marks are.
//!
//! A reduction copies the tag of each node that it meets, writes the place of the node's marks over
//! it, and puts it back before anything else is written. So marks cost no memory in the tree, and
//! what labelling reads of the inner nodes is four bytes each.

use crate::node::Kind;
use core::hint::select_unpredictable;

const Q_BIT: u32 = 1 << 31;
const MARK_BIT: u32 = 1 << 30;

/// The degree of an inner node with its kind; or the place of its marks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tag(u32);

impl Tag {
    /// Of a slot that is free, or a forward.
    pub(crate) const VACANT: Self = Self(0);

    pub(crate) fn new(kind: Kind, degree: u32) -> Self {
        debug_assert!(degree < MARK_BIT, "a tree has at most 2^29 leaves");
        Self(if kind == Kind::Q { degree | Q_BIT } else { degree })
    }

    /// The mark of the node whose marks are at `place`.
    pub(crate) fn mark(place: u32) -> Self {
        Self(place | MARK_BIT)
    }

    /// Where the marks of this node are, if it is marked.
    pub(crate) fn place(self) -> Option<u32> {
        self.is_mark().then_some(self.0 ^ MARK_BIT)
    }

    /// As [`place`](Self::place), or `other`: without a branch.
    pub(crate) fn place_or(self, other: u32) -> u32 {
        select_unpredictable(self.is_mark(), self.0 ^ MARK_BIT, other)
    }

    pub(crate) fn is_mark(self) -> bool {
        self.0 & MARK_BIT != 0
    }

    pub(crate) fn is_live(self) -> bool {
        self != Self::VACANT
    }

    /// The number of children. Of a node that is not marked, as is the kind.
    pub(crate) fn degree(self) -> u32 {
        self.0 & !Q_BIT
    }

    pub(crate) fn is_q(self) -> bool {
        self.0 & Q_BIT != 0
    }

    /// To make loads of tags depend on each other in nothing but this.
    pub(crate) fn bits(self) -> u32 {
        self.0
    }
}
