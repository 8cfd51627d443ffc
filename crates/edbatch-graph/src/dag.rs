//! The trait through which batching policies read a graph, and an iterator over arguments.

use std::{slice, vec};

use crate::{Kind, NodeId, Source, Value};

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

/// The maximum number of arguments in the inline array.
const INLINE: usize = 4;

/// An iterator over the arguments of a node, in order.
///
/// Created from a slice, or collected from any iterator. Up to four arguments are usually in an
/// array of fixed size, which [`into_array`](Self::into_array) returns: the CPU cannot predict
/// their number, and a mispredicted end of a loop costs more than the loop.
///
/// ```
/// use edbatch_graph::{Arguments, NodeId};
///
/// let nodes = [NodeId(3), NodeId(3), NodeId(5)];
/// let arguments = Arguments::from(&nodes[..]);
/// assert!(arguments.clone().eq(nodes));
/// assert!(nodes.into_iter().collect::<Arguments<'_>>().eq(nodes));
/// let Ok((array, count)) = arguments.into_array() else { panic!("at most four arguments") };
/// assert_eq!(array[..count], nodes);
/// ```
#[derive(Clone, Debug)]
pub struct Arguments<'a> {
    array: [NodeId; INLINE],
    /// `next..count` are the arguments in the array that the iterator has not returned yet.
    next: usize,
    count: usize,
    /// All arguments, if they are not in the array.
    many: Many<'a>,
}

#[derive(Clone, Debug)]
enum Many<'a> {
    No,
    Nodes(slice::Iter<'a, NodeId>),
    Values(slice::Iter<'a, Value>),
    Collected(vec::IntoIter<NodeId>),
}

impl<'a> Arguments<'a> {
    /// Returns the arguments as an array and their number. The remaining elements of the array have
    /// no meaning.
    ///
    /// # Errors
    /// Returns `self` if the arguments are not in an array: there are more than four, the iterator
    /// has already returned one, or they are at the end of a [`Graph`](crate::Graph)'s list.
    #[inline]
    pub fn into_array(self) -> Result<([NodeId; INLINE], usize), Self> {
        match self {
            Self { array, next: 0, count, many: Many::No } => Ok((array, count)),
            many => Err(many),
        }
    }

    #[inline]
    fn of_array(array: [NodeId; INLINE], count: usize) -> Self {
        Self { array, next: 0, count, many: Many::No }
    }

    #[inline]
    fn of_many(many: Many<'a>) -> Self {
        Self { array: [NodeId(0); INLINE], next: 0, count: 0, many }
    }

    /// The nodes `start..end` of a list. If they fit, copies an array of fixed size, in which the
    /// elements after `end` have no meaning.
    #[inline]
    pub(crate) fn of_nodes(list: &'a [NodeId], start: usize, end: usize) -> Self {
        match list.get(start..start + INLINE) {
            Some(nodes) if end - start <= INLINE => {
                Self::of_array(nodes.try_into().expect("equal lengths"), end - start)
            }
            _ => Self::from(&list[start..end]),
        }
    }

    /// The nodes among the values `start..end` of a list.
    #[inline]
    pub(crate) fn of_values(list: &'a [Value], start: usize, end: usize) -> Self {
        if let Some(values) = list.get(start..start + INLINE)
            && end - start <= INLINE
        {
            let values: &[Value; INLINE] = values.try_into().expect("equal lengths");
            // Fast path: usually no value has the bit that marks given values.
            let all = values.iter().fold(0, |all, value| all | value.name);
            if all < Value::LIMIT as u32 {
                return Self::of_array(values.map(|value| NodeId(value.name)), end - start);
            }
            let (mut nodes, mut count) = ([NodeId(0); INLINE], 0);
            for (place, value) in values.iter().enumerate() {
                nodes[count % INLINE] = NodeId(value.name);
                let is_node = matches!(value.source(), Source::Node(_));
                count += usize::from(is_node & (place < end - start));
            }
            return Self::of_array(nodes, count);
        }
        Self::of_many(Many::Values(list[start..end].iter()))
    }
}

impl<'a> From<&'a [NodeId]> for Arguments<'a> {
    #[inline]
    fn from(nodes: &'a [NodeId]) -> Self {
        if nodes.len() > INLINE {
            return Self::of_many(Many::Nodes(nodes.iter()));
        }
        let mut array = [NodeId(0); INLINE];
        array[..nodes.len()].copy_from_slice(nodes);
        Self::of_array(array, nodes.len())
    }
}

impl FromIterator<NodeId> for Arguments<'_> {
    fn from_iter<I: IntoIterator<Item = NodeId>>(nodes: I) -> Self {
        let mut nodes = nodes.into_iter().fuse();
        let (mut array, mut count) = ([NodeId(0); INLINE], 0);
        for (place, node) in array.iter_mut().zip(&mut nodes) {
            *place = node;
            count += 1;
        }
        match nodes.next() {
            None => Self::of_array(array, count),
            Some(fifth) => {
                let all: Vec<NodeId> = array.into_iter().chain([fifth]).chain(nodes).collect();
                Self::of_many(Many::Collected(all.into_iter()))
            }
        }
    }
}

impl Iterator for Arguments<'_> {
    type Item = NodeId;

    #[inline]
    fn next(&mut self) -> Option<NodeId> {
        match &mut self.many {
            Many::No if self.next < self.count => {
                self.next += 1;
                Some(self.array[self.next - 1])
            }
            Many::No => None,
            Many::Nodes(nodes) => nodes.next().copied(),
            Many::Values(values) => values.find_map(node),
            Many::Collected(nodes) => nodes.next(),
        }
    }
}

#[inline]
fn node(value: &Value) -> Option<NodeId> {
    match value.source() {
        Source::Node(node) => Some(node),
        Source::Given(_) => None,
    }
}
