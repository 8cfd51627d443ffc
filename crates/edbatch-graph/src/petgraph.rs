//! A view of a [`Dag`] for petgraph's algorithms and `Dot`.
//!
//! Edges lead from an argument to its reader, in the direction of the data. A node that reads
//! another node twice has two edges from it: one for each argument.
//!
//! *Cost*: building is O(nodes + edges). It takes 10 bytes for a node and 12 for an edge. Each step
//! of a traversal is an array access.

use std::iter::Map;
use std::ops::Range;
use std::slice;

use ::petgraph::visit::{
    Data, EdgeCount, EdgeIndexable, EdgeRef, GraphBase, GraphProp, IntoEdgeReferences, IntoEdges,
    IntoEdgesDirected, IntoNeighbors, IntoNeighborsDirected, IntoNodeIdentifiers,
    IntoNodeReferences, NodeCompactIndexable, NodeCount, NodeIndexable, VisitMap, Visitable,
};
use ::petgraph::{Directed, Direction};

use crate::{Dag, Kind, NodeId};

/// The edges of a [`Dag`] in both directions, with petgraph's visit traits.
///
/// The weight of a node is its [`Kind`]; the weight of an edge is its position among the arguments
/// of its target. The view is a copy, which later changes of the graph do not affect.
///
/// ```
/// use edbatch_graph::{NodeId, Petgraph, parse_text};
///
/// let dag = parse_text("4\n0 0\n1 1 0\n1 1 0\n2 2 1 2\n")?;
/// let view = Petgraph::new(&dag);
/// let steps = petgraph::algo::dijkstra(&view, NodeId(0), None, |_| 1);
/// assert_eq!(steps[&NodeId(3)], 2);
///
/// // A drawing, for `dot -Tsvg graph.dot > graph.svg`.
/// let drawing = petgraph::dot::Dot::new(&view).to_string();
/// assert!(drawing.contains("0 -> 1"));
/// # Ok::<(), edbatch_graph::TextError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Petgraph {
    kinds: Vec<Kind>,
    /// The ids of the edges into node `v`: `incoming[v]..incoming[v + 1]`.
    incoming: Vec<u32>,
    /// The ends of each edge.
    ends: Vec<Ends>,
    /// The edges out of node `v`: `by_source[outgoing[v]..outgoing[v + 1]]`, targets ascending.
    outgoing: Vec<u32>,
    by_source: Vec<EdgeId>,
}

/// An edge of a [`Petgraph`]. Ids number the edges into node 0 in argument order, then the edges
/// into node 1, and so on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub struct EdgeId(pub u32);

#[derive(Clone, Copy, Debug)]
struct Ends {
    source: NodeId,
    target: NodeId,
}

impl Petgraph {
    /// Copies the edges of a graph.
    ///
    /// # Panics
    /// If there are 2³² edges or more, or an argument is not an earlier node.
    #[must_use]
    pub fn new(dag: &impl Dag) -> Self {
        let nodes = (0..dag.nodes()).map(NodeId::new);
        let mut incoming = vec![0];
        let mut ends = Vec::new();
        for target in nodes.clone() {
            for source in dag.arguments(target) {
                assert!(source < target, "arguments precede their readers");
                ends.push(Ends { source, target });
            }
            incoming.push(u32::try_from(ends.len()).expect("fewer than 2^32 edges"));
        }
        let (outgoing, by_source) = sort_by_source(dag.nodes(), &ends);
        Self {
            kinds: nodes.map(|node| dag.kind(node)).collect(),
            incoming,
            ends,
            outgoing,
            by_source,
        }
    }

    /// Returns the edge with this id.
    ///
    /// # Panics
    /// If it does not exist.
    #[must_use]
    pub fn edge(&self, id: EdgeId) -> EdgeReference {
        let Ends { source, target } = self.ends[id.0 as usize];
        EdgeReference { id, source, target, position: id.0 - self.incoming[target.index()] }
    }

    fn edges_into(&self, node: NodeId) -> Range<u32> {
        self.incoming[node.index()]..self.incoming[node.index() + 1]
    }

    fn edges_out_of(&self, node: NodeId) -> &[EdgeId] {
        let (start, end) = (self.outgoing[node.index()], self.outgoing[node.index() + 1]);
        &self.by_source[start as usize..end as usize]
    }
}

/// A counting sort by source. It is stable, so targets are ascending.
fn sort_by_source(nodes: usize, ends: &[Ends]) -> (Vec<u32>, Vec<EdgeId>) {
    let mut first = vec![0; nodes + 1];
    for edge in ends {
        first[edge.source.index() + 1] += 1;
    }
    for node in 0..nodes {
        first[node + 1] += first[node];
    }
    let mut next = first.clone();
    let mut by_source = vec![EdgeId(0); ends.len()];
    for (id, edge) in ends.iter().enumerate() {
        let place = &mut next[edge.source.index()];
        by_source[*place as usize] = EdgeId(id as u32);
        *place += 1;
    }
    (first, by_source)
}

/// An edge of a [`Petgraph`] with its ends.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct EdgeReference {
    id: EdgeId,
    source: NodeId,
    target: NodeId,
    position: u32,
}

impl EdgeRef for EdgeReference {
    type NodeId = NodeId;
    type EdgeId = EdgeId;
    type Weight = u32;

    fn source(&self) -> NodeId {
        self.source
    }

    fn target(&self) -> NodeId {
        self.target
    }

    /// The position among the arguments of the target.
    fn weight(&self) -> &u32 {
        &self.position
    }

    fn id(&self) -> EdgeId {
        self.id
    }
}

/// The nodes that a traversal of a [`Petgraph`] has visited.
///
/// One byte per node. petgraph's bit set would need `unsafe` code.
#[derive(Clone, Debug, Default)]
pub struct Visited(Vec<bool>);

impl VisitMap<NodeId> for Visited {
    fn visit(&mut self, node: NodeId) -> bool {
        !std::mem::replace(&mut self.0[node.index()], true)
    }

    fn is_visited(&self, node: &NodeId) -> bool {
        self.0.get(node.index()) == Some(&true)
    }

    fn unvisit(&mut self, node: NodeId) -> bool {
        std::mem::take(&mut self.0[node.index()])
    }
}

impl GraphBase for Petgraph {
    type NodeId = NodeId;
    type EdgeId = EdgeId;
}

impl GraphProp for Petgraph {
    type EdgeType = Directed;
}

impl Data for Petgraph {
    type NodeWeight = Kind;
    type EdgeWeight = u32;
}

impl NodeCount for Petgraph {
    fn node_count(&self) -> usize {
        self.kinds.len()
    }
}

impl NodeIndexable for Petgraph {
    fn node_bound(&self) -> usize {
        self.kinds.len()
    }

    fn to_index(&self, node: NodeId) -> usize {
        node.index()
    }

    fn from_index(&self, index: usize) -> NodeId {
        NodeId::new(index)
    }
}

impl NodeCompactIndexable for Petgraph {}

impl EdgeCount for Petgraph {
    fn edge_count(&self) -> usize {
        self.ends.len()
    }
}

impl EdgeIndexable for Petgraph {
    fn edge_bound(&self) -> usize {
        self.ends.len()
    }

    fn to_index(&self, edge: EdgeId) -> usize {
        edge.0 as usize
    }

    fn from_index(&self, index: usize) -> EdgeId {
        EdgeId(u32::try_from(index).expect("fewer than 2^32 edges"))
    }
}

impl Visitable for Petgraph {
    type Map = Visited;

    fn visit_map(&self) -> Visited {
        Visited(vec![false; self.kinds.len()])
    }

    fn reset_map(&self, map: &mut Visited) {
        map.0.clear();
        map.0.resize(self.kinds.len(), false);
    }
}

impl IntoNodeIdentifiers for &Petgraph {
    type NodeIdentifiers = Map<Range<usize>, fn(usize) -> NodeId>;

    fn node_identifiers(self) -> Self::NodeIdentifiers {
        (0..self.kinds.len()).map(NodeId::new)
    }
}

impl<'a> IntoNodeReferences for &'a Petgraph {
    type NodeRef = (NodeId, &'a Kind);
    type NodeReferences = std::iter::Zip<Self::NodeIdentifiers, slice::Iter<'a, Kind>>;

    fn node_references(self) -> Self::NodeReferences {
        self.node_identifiers().zip(&self.kinds)
    }
}

impl<'a> IntoEdgeReferences for &'a Petgraph {
    type EdgeRef = EdgeReference;
    type EdgeReferences = Edges<'a>;

    fn edge_references(self) -> Edges<'a> {
        Edges { graph: self, ids: Ids::Range(0..self.ends.len() as u32) }
    }
}

impl<'a> IntoEdges for &'a Petgraph {
    type Edges = Edges<'a>;

    fn edges(self, node: NodeId) -> Edges<'a> {
        self.edges_directed(node, Direction::Outgoing)
    }
}

impl<'a> IntoEdgesDirected for &'a Petgraph {
    type EdgesDirected = Edges<'a>;

    fn edges_directed(self, node: NodeId, direction: Direction) -> Edges<'a> {
        let ids = match direction {
            Direction::Incoming => Ids::Range(self.edges_into(node)),
            Direction::Outgoing => Ids::Listed(self.edges_out_of(node).iter()),
        };
        Edges { graph: self, ids }
    }
}

impl<'a> IntoNeighbors for &'a Petgraph {
    type Neighbors = Neighbors<'a>;

    fn neighbors(self, node: NodeId) -> Neighbors<'a> {
        self.neighbors_directed(node, Direction::Outgoing)
    }
}

impl<'a> IntoNeighborsDirected for &'a Petgraph {
    type NeighborsDirected = Neighbors<'a>;

    fn neighbors_directed(self, node: NodeId, direction: Direction) -> Neighbors<'a> {
        Neighbors { edges: self.edges_directed(node, direction), direction }
    }
}

/// An iterator over edges of a [`Petgraph`]: all of them, or the edges at one node.
#[derive(Clone, Debug)]
pub struct Edges<'a> {
    graph: &'a Petgraph,
    ids: Ids<'a>,
}

#[derive(Clone, Debug)]
enum Ids<'a> {
    Range(Range<u32>),
    Listed(slice::Iter<'a, EdgeId>),
}

impl Iterator for Edges<'_> {
    type Item = EdgeReference;

    fn next(&mut self) -> Option<EdgeReference> {
        let id = match &mut self.ids {
            Ids::Range(range) => range.next().map(EdgeId),
            Ids::Listed(ids) => ids.next().copied(),
        };
        id.map(|id| self.graph.edge(id))
    }
}

/// An iterator over the neighbours of a node, one for each edge.
#[derive(Clone, Debug)]
pub struct Neighbors<'a> {
    edges: Edges<'a>,
    direction: Direction,
}

impl Iterator for Neighbors<'_> {
    type Item = NodeId;

    fn next(&mut self) -> Option<NodeId> {
        let edge = self.edges.next()?;
        Some(match self.direction {
            Direction::Incoming => edge.source,
            Direction::Outgoing => edge.target,
        })
    }
}
