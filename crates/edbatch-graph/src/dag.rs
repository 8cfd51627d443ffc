//! The trait through which batching policies read a graph.

use crate::{Arguments, Kind, NodeId};

/// A directed acyclic graph whose nodes have kinds: dependencies only, without shapes or values.
///
/// *Invariant*: every argument of a node has a smaller id than the node. Implement these four
/// methods to use the batching policies with your own intermediate representation.
pub trait Dag {
    /// Returns the number of nodes; ids are `0..nodes()`.
    fn nodes(&self) -> usize;

    /// Returns the number of kinds that may occur; kinds are `0..kinds()`.
    fn kinds(&self) -> usize;

    /// Returns the kind of a node.
    fn kind(&self, node: NodeId) -> Kind;

    /// Returns the nodes whose results a node reads. A node may occur several times.
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
