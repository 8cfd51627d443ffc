//! All that a batching policy may see of a graph.

use crate::{Arguments, Kind, NodeId};

/// A directed acyclic graph whose nodes have kinds. No shape, no value: only what depends on what.
///
/// *Invariant*: every argument of a node has a smaller id than the node. A user with an
/// intermediate representation of their own implements these four methods and has every policy.
pub trait Dag {
    /// Number of nodes; ids are `0..nodes()`.
    fn nodes(&self) -> usize;

    /// Number of kinds that may occur; kinds are `0..kinds()`.
    fn kinds(&self) -> usize;

    /// The kind of a node.
    fn kind(&self, node: NodeId) -> Kind;

    /// The nodes whose results a node reads. One may occur several times.
    fn arguments(&self, node: NodeId) -> Arguments<'_>;
}

impl<D: Dag> Dag for &D {
    fn nodes(&self) -> usize {
        (**self).nodes()
    }

    fn kinds(&self) -> usize {
        (**self).kinds()
    }

    fn kind(&self, node: NodeId) -> Kind {
        (**self).kind(node)
    }

    #[inline]
    fn arguments(&self, node: NodeId) -> Arguments<'_> {
        (**self).arguments(node)
    }
}
