//! All that a batching policy may see of a graph.

use crate::{Kind, NodeId};

/// A directed acyclic graph whose nodes have kinds. No shape, no value: only what depends on what.
///
/// *Invariant*: every argument of a node has a smaller id than the node. A user with an
/// intermediate representation of their own implements the first four methods and has every policy.
pub trait Dag {
    /// Number of nodes; ids are `0..nodes()`.
    fn nodes(&self) -> usize;

    /// Number of kinds that may occur; kinds are `0..kinds()`.
    fn kinds(&self) -> usize;

    /// The kind of a node.
    fn kind(&self, node: NodeId) -> Kind;

    /// The nodes whose results a node reads. One may occur several times.
    fn arguments(&self, node: NodeId) -> impl Iterator<Item = NodeId> + '_;

    /// Copies a node's arguments, but no more than `N`, to the front of `first`, and returns how many
    /// it has in all. What then stands behind them may be anything.
    ///
    /// How many is as good as random, and a loop that ends at random costs more than what it does:
    /// whoever can copy `N` words, those of the next nodes among them, need not know where to stop.
    #[inline]
    fn copy_arguments<const N: usize>(&self, node: NodeId, first: &mut [NodeId; N]) -> usize {
        copy(self.arguments(node), first)
    }
}

/// One by one, for [`Dag::copy_arguments`].
pub(crate) fn copy(arguments: impl Iterator<Item = NodeId>, first: &mut [NodeId]) -> usize {
    let mut count = 0;
    for argument in arguments {
        if let Some(place) = first.get_mut(count) {
            *place = argument;
        }
        count += 1;
    }
    count
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

    fn arguments(&self, node: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        (**self).arguments(node)
    }

    #[inline]
    fn copy_arguments<const N: usize>(&self, node: NodeId, first: &mut [NodeId; N]) -> usize {
        (**self).copy_arguments(node, first)
    }
}
