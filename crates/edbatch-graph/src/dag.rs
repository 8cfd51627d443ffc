//! The trait through which batching policies read a graph.

use std::fmt;

use crate::{Arguments, Kind, NodeId};

/// A directed acyclic graph whose nodes have kinds: dependencies only, without shapes or values.
///
/// *Invariant*: every kind is less than [`kinds`](Self::kinds), and every argument of a node has a
/// smaller id than the node. Implement these four methods to use the batching policies with your
/// own intermediate representation. The policies rely on the invariant; [`check_dag`] checks it.
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

/// Checks the invariant of [`Dag`]: every kind exists, and arguments precede their readers, so
/// there is no cycle. *Cost*: O(nodes + edges).
///
/// # Errors
/// The first violation.
pub fn check_dag(dag: &impl Dag) -> Result<(), DagError> {
    let mut nodes = (0..dag.nodes()).map(NodeId::new);
    nodes.try_for_each(|node| check_node(node, dag.kind(node), dag.kinds(), dag.arguments(node)))
}

pub(crate) fn check_node(
    node: NodeId,
    kind: Kind,
    kinds: usize,
    mut arguments: impl Iterator<Item = NodeId>,
) -> Result<(), DagError> {
    if kind.index() >= kinds {
        return Err(DagError::UnknownKind { node, kind, kinds });
    }
    match arguments.find(|&argument| argument >= node) {
        Some(argument) => Err(DagError::NotEarlier { node, argument }),
        None => Ok(()),
    }
}

/// The error of a node that violates the invariant of [`Dag`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum DagError {
    /// The graph does not have the kind.
    UnknownKind {
        /// The node.
        node: NodeId,
        /// Its kind.
        kind: Kind,
        /// The number of kinds.
        kinds: usize,
    },
    /// An argument is the node itself or a later one.
    NotEarlier {
        /// The node.
        node: NodeId,
        /// The argument that does not precede it.
        argument: NodeId,
    },
}

impl fmt::Display for DagError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownKind { node, kind, kinds } => write!(
                f,
                "node {} has kind {}, which does not exist: the graph has {kinds} kinds",
                node.0, kind.0
            ),
            Self::NotEarlier { node, argument } => write!(
                f,
                "node {} reads node {}, which does not precede it: arguments must come first",
                node.0, argument.0
            ),
        }
    }
}

impl std::error::Error for DagError {}
