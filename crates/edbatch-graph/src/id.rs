//! Typed indices of nodes, kinds and values: a node is never a bare `usize`.

use std::fmt;
use std::hash::{Hash, Hasher};

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

/// What a call's argument refers to: the result of an earlier call, or a value that exists before
/// the graph runs (an initial value of the network, or one carried over from an earlier graph).
///
/// Four bytes. A value belongs to the graph that made it, until that graph is cleared; initial
/// values belong to every graph of their network. Builds with debug assertions find values that
/// are used after that; in others such a value may name another one.
#[derive(Clone, Copy, Debug)]
pub struct Value {
    pub(crate) name: u32,
    #[cfg(debug_assertions)]
    made_in: Contents,
}

/// Marks a [`Value`] that no node of the graph makes.
const GIVEN: u32 = 1 << 31;

impl Value {
    /// How many nodes, given values and arguments a graph may have: ids must leave a bit free.
    pub(crate) const LIMIT: usize = GIVEN as usize;

    /// The result of a node of these contents of a graph.
    #[inline]
    pub(crate) fn of_node(index: usize, _made_in: Contents) -> Self {
        Self {
            name: index as u32,
            #[cfg(debug_assertions)]
            made_in: _made_in,
        }
    }

    pub(crate) fn given(index: usize, made_in: Contents) -> Self {
        assert!(index < Self::LIMIT, "fewer than 2^31 given values");
        let value = Self::of_node(index, made_in);
        Self { name: value.name | GIVEN, ..value }
    }

    /// Whether the value may be one of these contents of a graph; without debug assertions any may.
    #[inline]
    pub(crate) fn may_be_of(self, _contents: Contents) -> bool {
        #[cfg(debug_assertions)]
        return self.made_in == Contents::ANY || self.made_in == _contents;
        #[cfg(not(debug_assertions))]
        return true;
    }

    /// The node that makes the value, or the index among the given ones.
    #[inline]
    #[must_use]
    pub fn source(self) -> Source {
        if self.name & GIVEN == 0 {
            Source::Node(NodeId(self.name))
        } else {
            Source::Given((self.name & !GIVEN) as usize)
        }
    }
}

/// By what they name in their graph.
impl PartialEq for Value {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Value {}

impl Hash for Value {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

/// The result of a node.
///
/// # Panics
/// If the node's id is 2³¹ or more: no graph has such a node.
impl From<NodeId> for Value {
    #[inline]
    fn from(node: NodeId) -> Self {
        assert!(node.index() < Self::LIMIT, "fewer than 2^31 nodes");
        Self::of_node(node.index(), Contents::ANY)
    }
}

/// What a graph holds from one time that it is cleared to the next. Known with debug assertions
/// alone, where values remember what they are of; else nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Contents {
    #[cfg(debug_assertions)]
    number: u32,
}

impl Contents {
    /// Those of all graphs: of values that are no graph's own.
    pub(crate) const ANY: Self = Self {
        #[cfg(debug_assertions)]
        number: 0,
    };

    /// Others than all before.
    pub(crate) fn new() -> Self {
        #[cfg(debug_assertions)]
        {
            use std::sync::atomic::{AtomicU32, Ordering};
            static LAST: AtomicU32 = AtomicU32::new(0);
            // Once in 2³² times these are `ANY`, and then nothing is found.
            Self { number: LAST.fetch_add(1, Ordering::Relaxed).wrapping_add(1) }
        }
        #[cfg(not(debug_assertions))]
        Self::ANY
    }
}

/// Where a [`Value`] comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// A node of the graph makes it.
    Node(NodeId),
    /// It exists before the graph runs: this index into [`Graph::given`](crate::Graph::given).
    Given(usize),
}
