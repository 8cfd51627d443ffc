//! Typed indices of nodes, kinds, values, variables, parameters and records.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU32, Ordering};

/// Converts ids from and to indices, and prints them as a letter and the number.
macro_rules! indexed {
    ($($Id:ident($int:ty) $item:literal $letter:literal $limit:literal,)*) => {$(
        impl $Id {
            #[doc = concat!("Returns the ", $item, " with this index.")]
            ///
            /// # Panics
            #[doc = concat!("If `index` does not fit a `", stringify!($int), "`.")]
            #[inline]
            #[must_use]
            pub fn new(index: usize) -> Self {
                Self(<$int>::try_from(index).expect($limit))
            }

            #[doc = concat!("Returns the ", $item, " as an index.")]
            #[inline]
            #[must_use]
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Display for $Id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($letter, "{}"), self.0)
            }
        }
    )*};
}

indexed! {
    NodeId(u32) "node" "n" "a graph has fewer than 2^32 nodes",
    Kind(u16) "kind" "k" "a network has fewer than 2^16 kinds",
    Var(u32) "variable" "v" "a cell has fewer than 2^32 variables",
}

/// A node of a [`Dag`](crate::Dag). Ids are dense and in topological order: the arguments of a
/// node have smaller ids.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub struct NodeId(pub u32);

/// The kind of a node. Nodes of one kind may run in one batch.
///
/// In a graph of cell calls, a kind is a cell with its parameters; inside a cell, it is an
/// operation with its shapes. Kinds are dense and do not change between mini-batches.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub struct Kind(pub u16);

/// A variable of a cell: the result of one of its operations.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Var(pub u32);

/// The index of a parameter in [`Network::parameters`](crate::Network::parameters).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ParameterId(pub u32);

/// The index of a record type in [`Network::records`](crate::Network::records).
/// Each node produces one record.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RecordId(pub u16);

/// An argument of a call: the result of an earlier call, or a given value, which exists before the
/// graph runs. Given values are initial values of the network, or carried over from an earlier
/// graph.
///
/// Four bytes. A value that a graph returns belongs to that graph until the graph is cleared;
/// using it later is an error. Three bits tell seven successive generations of a graph apart, so a
/// value that is exactly 7, 14, ... generations old is not recognized as stale. Initial values and
/// values made of a [`NodeId`] carry no generation and belong to every graph.
#[derive(Clone, Copy, Debug)]
pub struct Value {
    /// From the highest bit down: one bit for given values, three for the generation, the index.
    pub(crate) name: u32,
}

/// The bit that marks a given [`Value`].
const GIVEN: u32 = 1 << 31;

impl Value {
    /// The exclusive limit of indices: 2²⁸. The four highest bits are used otherwise.
    pub(crate) const LIMIT: usize = Generation::UNIT as usize;

    /// The result of a node, in this generation of a graph.
    #[inline]
    pub(crate) fn of_node(index: usize, generation: Generation) -> Self {
        Self { name: index as u32 | generation.0 }
    }

    pub(crate) fn given(index: usize, generation: Generation) -> Self {
        assert!(index < Self::LIMIT, "fewer than 2^28 given values");
        Self { name: Self::of_node(index, generation).name | GIVEN }
    }

    /// Returns the value without its generation.
    #[inline]
    pub(crate) fn of_any_generation(self) -> Self {
        Self { name: self.name & !Generation::MASK }
    }

    /// Returns the index of the node, if the value is the result of a node of this generation. Else
    /// returns a number that is at least [`LIMIT`](Self::LIMIT).
    #[inline]
    pub(crate) fn node_in(self, generation: Generation) -> usize {
        (self.name ^ generation.0) as usize
    }

    /// Like [`node_in`](Self::node_in), for given values.
    #[inline]
    pub(crate) fn given_in(self, generation: Generation) -> usize {
        (self.name ^ generation.0 ^ GIVEN) as usize
    }

    /// Returns false if the value belongs to another generation.
    #[inline]
    pub(crate) fn may_belong_to(self, generation: Generation) -> bool {
        let own = self.name & Generation::MASK;
        own == generation.0 || own == Generation::ANY.0
    }

    /// Returns the node that computes the value, or the index of a given value.
    #[inline]
    #[must_use]
    pub fn source(self) -> Source {
        let index = self.name & (Generation::UNIT - 1);
        match self.name & GIVEN {
            0 => Source::Node(NodeId(index)),
            _ => Source::Given(index as usize),
        }
    }
}

/// Values are equal if they have the same source.
impl PartialEq for Value {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.of_any_generation().name == other.of_any_generation().name
    }
}

impl Eq for Value {}

impl Hash for Value {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.of_any_generation().name.hash(state);
    }
}

/// The result of a node.
///
/// # Panics
/// If the node's id is 2²⁸ or more.
impl From<NodeId> for Value {
    #[inline]
    fn from(node: NodeId) -> Self {
        assert!(node.index() < Self::LIMIT, "fewer than 2^28 nodes");
        Self::of_node(node.index(), Generation::ANY)
    }
}

/// The generation of a graph, which changes when the graph is cleared: three bits of a [`Value`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Generation(u32);

impl Generation {
    /// The lowest of the three bits.
    const UNIT: u32 = 1 << 28;
    const MASK: u32 = 7 * Self::UNIT;

    /// Marks initial values and values made of a [`NodeId`], which belong to every graph.
    pub(crate) const ANY: Self = Self(0);

    /// Returns the first generation of a new graph. Graphs begin at different generations, so that
    /// most uses of another graph's values are errors too.
    pub(crate) fn new() -> Self {
        static GRAPHS: AtomicU32 = AtomicU32::new(0);
        Self((GRAPHS.fetch_add(1, Ordering::Relaxed) % 7 + 1) * Self::UNIT)
    }

    /// Returns the generation after this one.
    pub(crate) fn next(self) -> Self {
        Self((self.0 / Self::UNIT % 7 + 1) * Self::UNIT)
    }
}

/// The source of a [`Value`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// A node of the graph computes it.
    Node(NodeId),
    /// A given value: its index in [`Graph::given`](crate::Graph::given).
    Given(usize),
}

/// `n2` or `g0`.
impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(node) => node.fmt(f),
            Self::Given(index) => write!(f, "g{index}"),
        }
    }
}
