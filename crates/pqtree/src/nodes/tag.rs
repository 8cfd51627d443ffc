//! One word for each inner node: degree and kind or, during a reduction, the place of its marks.
//!
//! A reduction copies the tag of each node that it visits and overwrites it with the place of the
//! node's marks. It restores the tag before the tree changes. So marks take no memory in the tree,
//! and labelling reads only four bytes of each inner node.

use crate::node::Kind;
use core::hint::select_unpredictable;

const Q_BIT: u32 = 1 << 31;
const MARK_BIT: u32 = 1 << 30;

/// The degree and kind of an inner node, or the place of its marks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tag(u32);

impl Tag {
    /// The tag of a free slot or a forward.
    pub(crate) const VACANT: Self = Self(0);

    pub(crate) fn new(kind: Kind, degree: u32) -> Self {
        debug_assert!(degree < MARK_BIT, "a tree has at most 2^29 leaves");
        Self(if kind == Kind::Q { degree | Q_BIT } else { degree })
    }

    /// The tag of a marked node, whose marks are at `place`.
    pub(crate) fn mark(place: u32) -> Self {
        Self(place | MARK_BIT)
    }

    /// The place of the marks of this node, if it is marked.
    pub(crate) fn place(self) -> Option<u32> {
        self.is_mark().then_some(self.0 ^ MARK_BIT)
    }

    /// Like [`place`](Self::place), but returns `other` for a node without a mark. Has no branch.
    pub(crate) fn place_or(self, other: u32) -> u32 {
        select_unpredictable(self.is_mark(), self.0 ^ MARK_BIT, other)
    }

    pub(crate) fn is_mark(self) -> bool {
        self.0 & MARK_BIT != 0
    }

    pub(crate) fn is_live(self) -> bool {
        self != Self::VACANT
    }

    /// The number of children. The node must not be marked; the same holds for `is_q`.
    pub(crate) fn degree(self) -> u32 {
        self.0 & !Q_BIT
    }

    pub(crate) fn is_q(self) -> bool {
        self.0 & Q_BIT != 0
    }

    /// The raw bits. Combining them forces the tags to be loaded.
    pub(crate) fn bits(self) -> u32 {
        self.0
    }
}
