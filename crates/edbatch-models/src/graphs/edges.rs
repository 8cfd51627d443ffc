//! Edges by the node that reads or by the node that is read, and the order of calls.

use std::ops::Range;

use super::error::invalid;
use super::{GraphError, Graphs};

/// The edges of all graphs, whose nodes exist.
pub(super) struct Edges<'g> {
    /// For each edge, the node that is read and the node that reads it.
    read: &'g [i64],
    reader: &'g [i64],
    /// The graph of each node, or nothing for one graph.
    graphs: Vec<u32>,
}

/// One end of each edge, by the node at the other end, in the order of the arrays.
pub(super) struct ByNode<'g> {
    /// The first edge of each node, and the number of edges.
    first: Vec<u32>,
    pub(super) ends: Ends<'g>,
    /// The numbers of the edges, if they are sorted here and needed.
    numbers: Vec<u32>,
}

/// The ends of edges as given, if they are sorted by node, so that nothing is copied. Or sorted.
pub(super) enum Ends<'g> {
    Given(&'g [i64]),
    Sorted(Vec<u32>),
}

/// Evaluates an expression on the ends of edges of either type.
macro_rules! with_ends {
    ($ends:expr, $name:ident => $body:expr) => {
        match $ends {
            Ends::Given($name) => $body,
            Ends::Sorted($name) => $body,
        }
    };
}
pub(super) use with_ends;

impl<'g> Edges<'g> {
    pub(super) fn new(graphs: &Graphs<'g>, starts: &[usize]) -> Result<Self, GraphError> {
        let (nodes, [from, to]) = (graphs.kinds.len(), graphs.edges);
        if from.len() != to.len() || from.len() >= u32::MAX as usize {
            let (sources, targets) = (from.len(), to.len());
            return invalid(format!(
                "edges: expected an array of shape [2, edges], got {sources} sources and {targets} \
                 targets"
            ));
        }
        let missing = |&node: &i64| node as u64 >= nodes as u64;
        if let Some(edge) = from.iter().zip(to).position(|(a, b)| missing(a) | missing(b)) {
            let node = [from[edge], to[edge]].into_iter().find(missing).expect("one of them");
            return invalid(format!("edge {edge}: {}", no_node(node, nodes)));
        }
        let [read, reader] = if graphs.reverse { [to, from] } else { [from, to] };
        let edges = Self { read, reader, graphs: graphs_of(starts, nodes) };
        let mut all = 0..if edges.graphs.is_empty() { 0 } else { from.len() };
        match all.find(|&edge| edges.graph(from[edge]) != edges.graph(to[edge])) {
            Some(edge) => {
                let ([a, b], [g, h]) =
                    ([from[edge], to[edge]], [from, to].map(|n| edges.graph(n[edge])));
                invalid(format!("edge {edge}: nodes {a} and {b} are in graphs {g} and {h}"))
            }
            None => Ok(edges),
        }
    }

    /// The graph of a node.
    pub(super) fn graph(&self, node: i64) -> usize {
        self.graphs.get(node as usize).map_or(0, |&graph| graph as usize)
    }

    /// The number of nodes that each node reads, then a zero.
    pub(super) fn degrees(&self, nodes: usize) -> Vec<u32> {
        count(self.reader, nodes)
    }

    /// The nodes that each node reads.
    pub(super) fn sources(&self, degrees: Vec<u32>, numbered: bool) -> ByNode<'g> {
        ByNode::new(degrees, self.reader, self.read, numbered)
    }

    /// The nodes that read each node.
    pub(super) fn readers(&self, nodes: usize) -> ByNode<'g> {
        ByNode::new(count(self.read, nodes), self.read, self.reader, false)
    }
}

impl<'g> ByNode<'g> {
    /// `counts` has the number of edges of each node, then a zero.
    fn new(counts: Vec<u32>, nodes: &[i64], ends: &'g [i64], numbered: bool) -> Self {
        let mut first = counts;
        let mut sum = 0;
        if nodes.is_sorted() {
            first.iter_mut().for_each(|count| sum += std::mem::replace(count, sum));
            return Self { first, ends: Ends::Given(ends), numbers: Vec::new() };
        }
        // Each entry is first the end of its node's edges. Filling from the end moves it to the
        // first one.
        first.iter_mut().for_each(|count| {
            sum += *count;
            *count = sum;
        });
        let (mut sorted, mut numbers) = (vec![0; ends.len()], Vec::new());
        numbers.resize(if numbered { ends.len() } else { 0 }, 0);
        for (edge, (&node, &end)) in nodes.iter().zip(ends).enumerate().rev() {
            let place = &mut first[node as usize];
            *place -= 1;
            sorted[*place as usize] = end as u32;
            if numbered {
                numbers[*place as usize] = edge as u32;
            }
        }
        Self { first, ends: Ends::Sorted(sorted), numbers }
    }
}

impl ByNode<'_> {
    /// The ends of the edges of a node, as a range of all ends.
    #[inline(always)]
    pub(super) fn range(&self, node: usize) -> Range<usize> {
        self.first[node] as usize..self.first[node + 1] as usize
    }

    /// The number of an edge of a node, by its position among them.
    pub(super) fn number(&self, node: usize, position: usize) -> usize {
        let place = self.first[node] as usize + position;
        self.numbers.get(place).map_or(place, |&number| number as usize)
    }

    /// The number of edges of consecutive nodes.
    pub(super) fn within(&self, nodes: &Range<usize>) -> usize {
        (self.first[nodes.end] - self.first[nodes.start]) as usize
    }
}

/// The number of edges of each node, then a zero.
fn count(ends: &[i64], nodes: usize) -> Vec<u32> {
    let mut counts = vec![0; nodes + 1];
    ends.iter().for_each(|&node| counts[node as usize] += 1);
    counts
}

/// The graph of each node, or nothing for one graph.
fn graphs_of(starts: &[usize], nodes: usize) -> Vec<u32> {
    let mut graphs = vec![0; if starts.len() == 2 { 0 } else { nodes }];
    for (graph, ends) in starts.windows(2).enumerate().filter(|_| starts.len() > 2) {
        graphs[ends[0]..ends[1]].fill(graph as u32);
    }
    graphs
}

/// The text of a number that is no node.
pub(super) fn no_node(node: i64, nodes: usize) -> String {
    format!("node {node} does not exist: expected a number below {nodes}")
}
