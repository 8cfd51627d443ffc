//! Typed indices of nodes, kinds and values.

use std::fmt;
use std::hash::{Hash, Hasher};

/// A node of a [`Dag`](crate::Dag). Ids are dense and a topological order: the arguments of a node
/// have smaller ids.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub struct NodeId(pub u32);

impl NodeId {
    /// Returns the node with this index.
    ///
    /// # Panics
    /// If `index` does not fit 32 bits.
    #[inline]
    #[must_use]
    pub fn new(index: usize) -> Self {
        Self(u32::try_from(index).expect("a graph has fewer than 2^32 nodes"))
    }

    /// Returns the id as an index.
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

/// The kind of a node. Nodes of one kind may run in one batch.
///
/// In a graph of cell calls, a kind is a cell with its parameters; inside a cell, it is an
/// operation with its shapes. Kinds are dense and do not change between mini-batches.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub struct Kind(pub u16);

impl Kind {
    /// Returns the kind with this index.
    ///
    /// # Panics
    /// If `index` does not fit 16 bits.
    #[inline]
    #[must_use]
    pub fn new(index: usize) -> Self {
        Self(u16::try_from(index).expect("a network has fewer than 2^16 kinds"))
    }

    /// Returns the kind as an index.
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

/// An argument of a call: the result of an earlier call, or a given value, which exists before the
/// graph runs. Given values are initial values of the network, or carried over from an earlier
/// graph.
///
/// Four bytes. A value belongs to the graph that created it, until that graph is cleared; initial
/// values belong to every graph of their network. With debug assertions, a later use of the value
/// is an error. Without them, the value may refer to another one.
#[derive(Clone, Copy, Debug)]
pub struct Value {
    pub(crate) name: u32,
    #[cfg(debug_assertions)]
    generation: Generation,
}

/// The bit that marks a given [`Value`].
const GIVEN: u32 = 1 << 31;

impl Value {
    /// The exclusive limit of indices, which leave a bit free.
    pub(crate) const LIMIT: usize = GIVEN as usize;

    /// The result of a node, in this generation of a graph.
    #[inline]
    pub(crate) fn of_node(index: usize, _generation: Generation) -> Self {
        Self {
            name: index as u32,
            #[cfg(debug_assertions)]
            generation: _generation,
        }
    }

    pub(crate) fn given(index: usize, generation: Generation) -> Self {
        assert!(index < Self::LIMIT, "fewer than 2^31 given values");
        let value = Self::of_node(index, generation);
        Self { name: value.name | GIVEN, ..value }
    }

    /// Returns false if the value belongs to another generation. Always true without debug
    /// assertions.
    #[inline]
    pub(crate) fn may_belong_to(self, _generation: Generation) -> bool {
        #[cfg(debug_assertions)]
        return self.generation == Generation::ANY || self.generation == _generation;
        #[cfg(not(debug_assertions))]
        return true;
    }

    /// Returns the node that computes the value, or the index of a given value.
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

/// Values are equal if they have the same source.
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
/// If the node's id is 2³¹ or more.
impl From<NodeId> for Value {
    #[inline]
    fn from(node: NodeId) -> Self {
        assert!(node.index() < Self::LIMIT, "fewer than 2^31 nodes");
        Self::of_node(node.index(), Generation::ANY)
    }
}

/// The generation of a graph, which changes when the graph is cleared. Finds stale values with
/// debug assertions; without them it is empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Generation {
    #[cfg(debug_assertions)]
    number: u32,
}

impl Generation {
    /// Matches every generation; for values that belong to no graph.
    pub(crate) const ANY: Self = Self {
        #[cfg(debug_assertions)]
        number: 0,
    };

    /// Creates a new generation.
    pub(crate) fn new() -> Self {
        #[cfg(debug_assertions)]
        {
            use std::sync::atomic::{AtomicU32, Ordering};
            static LAST: AtomicU32 = AtomicU32::new(0);
            // Once in 2³² times this is `ANY`, which finds no stale values.
            Self { number: LAST.fetch_add(1, Ordering::Relaxed).wrapping_add(1) }
        }
        #[cfg(not(debug_assertions))]
        Self::ANY
    }
}

/// The source of a [`Value`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// A node of the graph computes it.
    Node(NodeId),
    /// It is given before the graph runs: an index into [`Graph::given`](crate::Graph::given).
    Given(usize),
}
