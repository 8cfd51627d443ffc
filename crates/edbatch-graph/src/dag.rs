//! The trait through which batching policies read a graph.

use crate::{Arguments, Kind, NodeId};

/// A directed acyclic graph whose nodes have kinds: dependencies only, without shapes or values.
///
/// *Invariant*: every kind is less than [`kinds`](Self::kinds), and every argument of a node has a
/// smaller id than the node. Implement these four methods to use the batching policies with your
/// own intermediate representation. The policies rely on the invariant; [`check_dag`] checks it.
///
/// petgraph's algorithms and drawings need a copy, with an edge for each argument:
///
/// ```
/// use edbatch_graph::{Dag, NodeId, parse_text};
/// use petgraph::{dot::Dot, graph::DiGraph};
///
/// let dag = parse_text("3\n7 0\n7 0\n9 2 0 1\n")?;
/// let nodes = || (0..dag.nodes()).map(NodeId::new);
/// let mut graph = DiGraph::new();
/// let indices: Vec<_> = nodes().map(|node| graph.add_node(dag.kind(node))).collect();
/// for (node, argument) in nodes().flat_map(|n| dag.arguments(n).map(move |a| (n, a))) {
///     graph.add_edge(indices[argument.index()], indices[node.index()], ());
/// }
/// assert!(petgraph::algo::toposort(&graph, None).is_ok());
/// println!("{:?}", Dot::new(&graph));
/// # assert_eq!((graph.node_count(), graph.edge_count()), (3, 2));
/// # Ok::<(), edbatch_graph::TextError>(())
/// ```
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
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DagError {
    /// The graph does not have the kind.
    #[error(
        "node {} has kind {}, which does not exist: the graph has {kinds} kinds",
        node.0,
        kind.0
    )]
    UnknownKind {
        /// The node.
        node: NodeId,
        /// Its kind.
        kind: Kind,
        /// The number of kinds.
        kinds: usize,
    },
    /// An argument is the node itself or a later one.
    #[error(
        "node {} reads node {}, which does not precede it: arguments must come first",
        node.0,
        argument.0
    )]
    NotEarlier {
        /// The node.
        node: NodeId,
        /// The argument that does not precede it.
        argument: NodeId,
    },
}
